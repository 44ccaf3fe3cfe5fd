"""The folder that a download makes, and which of its files are the download's own.

    <folder>/.burst-download/files.json  what was put into the folder: its size, date and contents
    <folder>/.burst-download/*.partial   files that are being made; beside each, how far it is
    <folder>/.burst-download/lock        held while a download works here

A file is noted before it takes its place. So whatever ends a download, the next one knows what is
its own: a file that is not noted, or was changed since, is somebody else's, and is replaced or
removed only if that is asked for. When a download has finished, `files.json` alone is left.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from burst.core.errors import BurstError, UsageError

WORK = ".burst-download"
_LEDGER = "files.json"
_LOCK = "lock"
_MANIFEST = "manifest.json"
_SHOWN = 8
_WEIGHTS = re.compile(
    r"(?:models\.\d+/)?(?:base/)?(?:model|adapter_model|models\.\d+|tensors)(?:-\d{5,}-of-\d{5,})?"
    r"\.safetensors(?:\.index\.json)?"
)
"""Names under which readers look for weights: two models under them are one too many."""

Stamp = tuple[int, int, str]
"""A file's bytes, its date in nanoseconds, and what tells its contents from others."""


class Target:
    def __init__(self, folder: Path, *, force: bool) -> None:
        """`force`: replace files of others too. Use it within `held`."""
        self.folder = folder
        self._force = force
        self._work = folder / WORK
        self._noted: dict[str, list[Stamp]] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and be the only download that works in it.

        Raises:
            UsageError: where the folder would be is something else.
            BurstError: another one does.
        """
        for path in (*reversed(self._work.parents), self._work):
            if os.path.lexists(path) and not path.is_dir():
                raise _in_the_way(path)
        self._work.mkdir(parents=True, exist_ok=True)
        try:
            with _alone(self._work / _LOCK, self.folder):
                self._noted = _read(self._work / _LEDGER)
                yield
        finally:
            with suppress(OSError):
                self._work.rmdir()

    def check(self, outputs: Sequence[str], small: Mapping[str, bytes]) -> None:
        """See that nothing of others is in the way of the files `outputs` and `small`.

        Raises:
            UsageError: the folder holds another checkpoint, or files that are not the download's,
                or folders where files have to be.
        """
        for name in sorted({*outputs, *small, *self._weights()}):
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                raise _in_the_way(path)
            for above in path.parents[: name.count("/") + 1]:
                if os.path.lexists(above) and not above.is_dir():
                    raise _in_the_way(above)
        if self._force:
            return
        other = _checkpoint_of(self.folder / _MANIFEST)
        if other and not self._holds(_MANIFEST, small[_MANIFEST]):
            raise UsageError(
                f"{self.folder} holds another checkpoint",
                why=f"it is {other}",
                mend="name another folder, or replace it with --force",
            )
        names = [*outputs, *small]
        wrong = [name for name in outputs if self._is_foreign(name)]
        wrong += [
            n for n, data in small.items() if self._is_foreign(n) and not self._holds(n, data)
        ]
        wrong += [name for name in self._weights() if name not in names and self._is_foreign(name)]
        if wrong:
            raise self._refusal(wrong)

    def complete(self, outputs: Mapping[str, str], small: Mapping[str, bytes]) -> bool:
        """Whether everything is in its place already, and nothing else that is the download's."""
        names = {*outputs, *small}
        return (
            all(self.has(name, contents) for name, contents in outputs.items())
            and all(self._holds(name, data) for name, data in small.items())
            and not any(self._stale(names))
        )

    def begin(self, outputs: Sequence[str]) -> None:
        """Take the mark of a finished download away, and what was begun of other files than
        `outputs`, whose room may be needed."""
        (self.folder / _MANIFEST).unlink(missing_ok=True)
        keep = {_LEDGER, _LOCK}
        keep |= {path.name for name in outputs for path in (self.partial(name), self.note(name))}
        self._clear(keep)

    def has(self, name: str, contents: str) -> bool:
        """Whether a file with these contents was put in its place, and is there unchanged."""
        stamp = _stamp(self.folder / name, contents)
        return stamp is not None and stamp in self._noted.get(name, ())

    def partial(self, name: str) -> Path:
        """Where a file is made."""
        return self._work / f"{name.replace('/', '.')}.partial"

    def note(self, name: str) -> Path:
        """Where it is noted how far it is."""
        return self._work / f"{name.replace('/', '.')}.json"

    def put(self, name: str, data: bytes) -> None:
        """Write a small file, unless it is there."""
        if not self._holds(name, data):
            write(self.partial(name), data)
            self.place(name, hashlib.sha256(data).hexdigest())

    def place(self, name: str, contents: str) -> None:
        """Put the file that was made, and is on the disk, where it belongs.

        Raises:
            UsageError: somebody has put another one there meanwhile.
        """
        made, path = self.partial(name), self.folder / name
        if self._is_foreign(name) and not self._force:
            raise self._refusal([name])
        stamp = _stamp(made, contents)
        if stamp is not None:
            self._noted.setdefault(name, []).append(stamp)
            self._save()
        path.parent.mkdir(parents=True, exist_ok=True)
        made.replace(path)

    def clear(self, names: Sequence[str]) -> None:
        """Remove what earlier calls have put here beside `names`, which readers would find."""
        for name in list(self._stale({*names})):
            (self.folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                for above in Path(name).parents[:-1]:
                    (self.folder / above).rmdir()

    def finish(self, names: Sequence[str]) -> None:
        """Leave of the work nothing but the notes of which files are the download's."""
        kept = {name: self._current(name) for name in names}
        noted = {name: stamps for name, stamps in kept.items() if stamps}
        if noted != self._noted:
            self._noted = noted
            self._save()
        self._clear({_LEDGER, _LOCK})

    def _stale(self, names: set[str]) -> Iterator[str]:
        for name in sorted({*self._noted, *self._weights()} - names):
            forced = self._force and _WEIGHTS.fullmatch(name) is not None
            if self._current(name) or (forced and os.path.lexists(self.folder / name)):
                yield name

    def _weights(self) -> list[str]:
        places = ("", "base/", "models.*/", "models.*/base/")
        found = (path for at in places for path in self.folder.glob(f"{at}*.safetensors*"))
        names = sorted(path.relative_to(self.folder).as_posix() for path in found)
        return [name for name in names if _WEIGHTS.fullmatch(name)]

    def _is_foreign(self, name: str) -> bool:
        return os.path.lexists(self.folder / name) and not self._current(name)

    def _current(self, name: str) -> list[Stamp]:
        """The note of the file as it is there; none where it is another one."""
        stamp = _stamp(self.folder / name, "")
        found = [each for each in self._noted.get(name, ()) if stamp and each[:2] == stamp[:2]]
        return found[-1:]

    def _holds(self, name: str, data: bytes) -> bool:
        path = self.folder / name
        try:
            return path.stat().st_size == len(data) and path.read_bytes() == data
        except OSError:
            return False

    def _clear(self, keep: set[str]) -> None:
        for path in self._work.iterdir():
            if path.name not in keep:
                path.unlink()

    def _save(self) -> None:
        write(self._work / _LEDGER, json.dumps({"files": self._noted}, indent=1).encode())

    def _refusal(self, names: Sequence[str]) -> UsageError:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return UsageError(
            f"{self.folder} holds files that are not this download's",
            why=", ".join(names[:_SHOWN]) + more,
            mend="name another folder, or overwrite them with --force",
        )


def _in_the_way(path: Path) -> UsageError:
    """Of what even `force` does not replace: a folder may hold anything."""
    if path.is_dir():
        why = "it is a folder, and a file of the checkpoint has to be there"
    elif path.is_symlink():
        why = f"it is a link to {os.readlink(path)}, and there is no folder"
    else:
        why = "it is a file, and a folder has to be there"
    return UsageError(
        f"{path} is in the way", why=why, mend="move it away, or name another folder"
    )


def write(path: Path, data: bytes) -> None:
    """Write a file whole, on the disk when this returns: the old one or the new one is there."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@contextmanager
def _alone(path: Path, folder: Path) -> Iterator[None]:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BurstError(
                    f"another download writes into {folder}",
                    mend="wait for its end, or name another folder",
                ) from None
            if not _is_at(path, descriptor):
                continue  # its holder has removed it between our two calls
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return
        finally:
            os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _stamp(path: Path, contents: str) -> Stamp | None:
    try:
        facts = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return facts.st_size, facts.st_mtime_ns, contents


def _read(path: Path) -> dict[str, list[Stamp]]:
    """The notes of earlier calls. Where they cannot be read, no file is known as their own."""
    try:
        table = json.loads(path.read_bytes())["files"]
        return {
            str(name): [(int(size), int(date), str(told)) for size, date, told in stamps]
            for name, stamps in table.items()
        }
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _checkpoint_of(path: Path) -> str:
    """The id in a manifest of burst; empty if there is none."""
    try:
        table = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    id = table.get("id") if isinstance(table, dict) else None
    return id if isinstance(id, str) and id.startswith("ckpt-") else ""
