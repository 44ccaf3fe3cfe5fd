"""A folder of files as a state, and back: what `context.checkpoint.store_path` keeps.

    {"files": {"a/b.bin": bytes as an array}, "modes": {"a/b.bin": 0o644}, "folders": ["empty"]}

Links are followed: what they lead to is kept in their place, since where the folder comes back
their targets may not be. Checkpoints of older versions have `files` alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from burst.core.errors import UsageError

_FILES = "files"
_MODES = "modes"
_FOLDERS = "folders"
_SHOWN = 8
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_folder(folder: Path) -> dict[str, Any]:
    """All that is in a folder, as a state: files with their permissions, and empty folders.

    Raises:
        UsageError: the folder is gone or empty, or something in it cannot be kept, naming it.
    """
    if not folder.is_dir():
        raise UsageError(
            "the folder of store_path is gone, so there is nothing to save",
            why=f"{folder} was removed or moved while the block ran",
            mend="copy out of it, and leave it where it is",
        )
    found = _Found()
    _walk(folder, "", (), found)
    if found.problems:
        more = len(found.problems) - _SHOWN
        raise UsageError(
            "the folder of store_path holds what a checkpoint cannot keep",
            why="\n".join([*found.problems[:_SHOWN], *([f"and {more} more"] * (more > 0))]),
            mend="write files and folders there, and links to such",
        )
    if not found.files and not found.folders:
        raise UsageError(
            "nothing was written into the folder of store_path",
            why="a checkpoint without files could not be gone on from",
            mend="write into the folder that the block is given, on rank 0",
        )
    return {_FILES: found.files, _MODES: found.modes, _FOLDERS: found.folders}


def is_folder(state: Any) -> bool:
    """Whether a state is what `read_folder` gives."""
    return isinstance(state, Mapping) and {_FILES} <= state.keys() <= {_FILES, _MODES, _FOLDERS}


def write_folder(state: Mapping[str, Any], folder: Path) -> None:
    """Write into an empty folder what `read_folder` found in another.

    Raises:
        UsageError: a name in the state leads out of the folder.
    """
    for name in state.get(_FOLDERS, ()):
        _inside(folder, name).mkdir(parents=True, exist_ok=True)
    modes = state.get(_MODES, {})
    for name, data in state[_FILES].items():
        path = _inside(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.data)
        if name in modes:
            path.chmod(modes[name] | stat.S_IRUSR)


def names_of(folder: Path) -> list[str]:
    """The files in a folder, as far as they can be seen."""
    return sorted(
        Path(place, name).relative_to(folder).as_posix()
        for place, _, names in os.walk(folder, followlinks=False)
        for name in names
    )


def check_others(names: Sequence[Sequence[str]]) -> None:
    """See that no rank but the first has written a file which that one has not.

    Raises:
        UsageError: one has, naming the files.
    """
    kept = set(names[0])
    lost = {rank: [n for n in each if n not in kept] for rank, each in enumerate(names)}
    told = [f"rank {rank}: {', '.join(each[:_SHOWN])}" for rank, each in lost.items() if each]
    if told:
        raise UsageError(
            "store_path keeps the files of rank 0 alone, and other ranks have written more",
            why="\n".join(told[:_SHOWN]),
            mend="write on rank 0, or give save(own=…) what each rank holds",
        )


class _Found:
    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.modes: dict[str, int] = {}
        self.folders: list[str] = []
        self.problems: list[str] = []


def _walk(folder: Path, prefix: str, within: tuple[tuple[int, int], ...], found: _Found) -> None:
    """`within`: the folders that this one lies in, by device and inode."""
    facts = folder.stat()
    here = (facts.st_dev, facts.st_ino)
    if here in within:
        found.problems.append(f"{prefix.rstrip('/')} is a link to a folder that it lies in")
        return
    entries = sorted(os.listdir(folder))
    if not entries and prefix:
        found.folders.append(prefix.rstrip("/"))
    for entry in entries:
        name = prefix + entry
        try:
            _take(folder / entry, name, (*within, here), found)
        except OSError as error:
            gone = isinstance(error, FileNotFoundError) and (folder / entry).is_symlink()
            why = "a link to nothing" if gone else f"not readable: {error.strerror}"
            found.problems.append(f"{name} is {why}")


def _take(path: Path, name: str, within: tuple[tuple[int, int], ...], found: _Found) -> None:
    import numpy as np

    mode = path.stat().st_mode
    if not _is_text(name):
        found.problems.append(f"{name!r} has a name that is not UTF-8")
    elif stat.S_ISDIR(mode):
        _walk(path, f"{name}/", within, found)
    elif stat.S_ISREG(mode):
        found.files[name] = np.fromfile(path, dtype=np.uint8)
        found.modes[name] = stat.S_IMODE(mode) & 0o777
    else:
        found.problems.append(f"{name} is {_KINDS.get(stat.S_IFMT(mode), 'no file')}")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _inside(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise UsageError(f"the checkpoint names a file outside of its folder, {name!r}")
    return folder.joinpath(*parts)
