"""Tables that are made once: on this machine for all its trials and ranks, and, if they cost more
to make than to fetch, for other machines too, where they see the experiment's blobs.

    <home>/cache/data/<fingerprint>.arrow     a table, which appears whole
    <home>/cache/data/<fingerprint>.lock      held by the process that makes it
    <home>/cache/data/<hash>.seen             what `load` remembers of a file that it has read
    <blobs>/data/index/<fingerprint>.json     which blob holds the table, written last
    <blobs>/data/tables/<fingerprint>-<sha256>.arrow

A fingerprint names what a table is made of (the rows' content, the tokenizer, the options, the
versions of what makes it), so a table never has to be made again, nor changed. On one machine
whoever comes first makes it and the others wait; the kernel lets go of the lock of one that dies.
Machines do not wait for each other: two that begin at once both make it, and either result counts.
What nobody has used for thirty days goes when something new comes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from burst.core.blobs import Blobs, open_blobs
from burst.core.blobs.keys import PARTIAL
from burst.core.blobs.port import DAY_S
from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError, NotFound
from burst.core.launch import LaunchSpec, read_launch
from burst.core.state_mark import STATE_MARK
from burst.core.workspace import home_of
from burst.harness.data.errors import DataError

INDEX, TABLES = "data/index/", "data/tables/"
KEPT_S = 30 * DAY_S
"""How long a table is kept that nobody uses."""
PREFIX = "burst-"
"""How a fingerprint begins that follows from content alone."""
_OURS = re.compile(
    rf"{PREFIX}[0-9a-f]+\.(arrow|lock)|[0-9a-f]{{64}}\.seen|{re.escape(PARTIAL)}[0-9a-f]{{16}}"
)
"""The files that may be removed: a folder of the user's own may hold others."""
_READ_AT_ONCE = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cache:
    """Where tables are kept."""

    folder: Path
    blobs: Blobs | None = None
    """Those that other machines see, if any."""
    clock: Clock = field(default_factory=SystemClock)

    def table(
        self,
        fingerprint: str,
        make: Callable[[Path], None],
        is_whole: Callable[[Path], bool] = lambda path: True,
    ) -> Path:
        """The table's file, made if there is none, or one that is not whole. Safe from any number
        of processes at once.

        Args:
            make: writes the table to a path.
            is_whole: whether a file that is there has not been damaged since.

        Raises:
            DataError: the folder cannot be written.
        """
        path = self.folder / f"{fingerprint}.arrow"
        if _used(path, self.clock.now()) and is_whole(path):
            return path
        with _writing(self.folder), _locked(self.folder / f"{fingerprint}.lock"):
            there = path.exists()
            if there and not is_whole(path):
                _log.warning("a damaged table is made anew: %s", path)
                there = False
            if not there and not self._fetch(fingerprint, path):
                with _appearing(path) as partial:
                    make(partial)
                self._share(fingerprint, path)
                _trim(self.folder, self.clock.now())
        return path

    def _fetch(self, fingerprint: str, path: Path) -> bool:
        """Whether another machine had made it, and it is here now."""
        if self.blobs is None:
            return False
        try:
            index = json.loads(self.blobs.get(f"{INDEX}{fingerprint}.json"))
            with _appearing(path) as partial:
                self.blobs.get_file(_key(fingerprint, index["sha256"]), partial)
                if sha256_of(partial) != index["sha256"]:
                    raise NotFound("other bytes than were written")
            self._touch(fingerprint)
        except NotFound:
            return False
        except (BurstError, OSError, ValueError, KeyError) as error:
            _log.warning("a table is made anew, as the blobs did not give it: %s", _short(error))
            return False
        return True

    def _share(self, fingerprint: str, path: Path) -> None:
        if self.blobs is None:
            return
        sha256 = sha256_of(path)
        try:
            self.blobs.put_file(_key(fingerprint, sha256), path)
            self._index(fingerprint, sha256)
            _trim_blobs(self.blobs, self.clock.now())
        except (BurstError, OSError) as error:
            _log.warning("a table stays on this machine: %s", _short(error))

    def _index(self, fingerprint: str, sha256: str) -> None:
        if self.blobs is not None:
            said = json.dumps({"sha256": sha256}).encode()
            self.blobs.put(f"{INDEX}{fingerprint}.json", said)

    def _touch(self, fingerprint: str) -> None:
        """Show that it is in use: the age of its index is what counts."""
        key = f"{INDEX}{fingerprint}.json"
        info = self.blobs.info(key) if self.blobs is not None else None
        if self.blobs is not None and info and self.clock.now() - info.modified > DAY_S:
            self.blobs.put(key, self.blobs.get(key))


def open_cache(folder: str | Path | None = None, *, share: bool = False) -> Cache:
    """The cache of this process: in a folder of its own, or else in burst's home on this machine.

    Args:
        share: whether what costs more to make than to fetch goes to other machines, where the
            process belongs to an experiment whose blobs they see.

    Raises:
        DataError: it names no folder of this machine.
    """
    if folder is not None:
        if not str(folder) or "://" in str(folder):
            raise DataError(
                f"cache is {str(folder)!r}, which is no folder",
                why="tables are mapped into memory from files of this machine",
                mend="give a folder here, or leave `cache` out: trials share what they tokenise "
                "through the experiment's blobs",
            )
        return Cache(Path(folder).expanduser().absolute())
    spec = read_launch()
    home = _home(spec)
    far = share and spec is not None and _is_far(spec.blobs_url, home)
    blobs = open_blobs(spec.blobs_url) if spec is not None and far else None
    return Cache(home / "cache" / "data", blobs)


def _home(spec: LaunchSpec | None) -> Path:
    """The node's home, also inside a container, which has another HOME."""
    if spec is not None:
        for folder in spec.path.parents:
            if (folder / STATE_MARK).exists():
                return folder
    return home_of(os.environ)


def _is_far(url: str, home: Path) -> bool:
    """Whether blobs lie elsewhere than beside the cache itself."""
    path = url.removeprefix("file://")
    return path == url or not Path(path).is_relative_to(home)


def _key(fingerprint: str, sha256: str) -> str:
    return f"{TABLES}{fingerprint}-{sha256}.arrow"


def _used(path: Path, now: float) -> bool:
    """Whether the file is there; it then counts as used today."""
    try:
        if now - path.stat().st_mtime > DAY_S:
            os.utime(path, (now, now))
    except OSError:
        return path.exists()  # somebody else's, which can be read all the same
    return True


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """A folder to write to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(
            f"prepared data cannot be kept in {folder}",
            why=f"{error.strerror or error}",
            mend="free space there, or give `cache` (or BURST_HOME) a folder that can be written",
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone with what the lock's file stands for; a holder that dies lets go of it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks: the same is made twice at worst
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """A path to write to, whose file appears at `path` once it is whole and durable."""
    partial = path.parent / f"{PARTIAL}{secrets.token_hex(8)}"
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _trim(folder: Path, now: float) -> None:
    """Remove what nobody has used for long. A file that is open somewhere stays readable there."""
    for path in folder.iterdir():
        with suppress(OSError):
            old = now - path.stat().st_mtime > KEPT_S
            if old and _OURS.fullmatch(path.name):
                path.unlink()


def _trim_blobs(blobs: Blobs, now: float) -> None:
    kept = set()
    for info in blobs.list(INDEX):
        name = info.key.removeprefix(INDEX).removesuffix(".json")
        if now - info.modified > KEPT_S:
            blobs.delete(info.key)
        else:
            kept.add(name)
    for info in blobs.list(TABLES):
        # A young one without an index is one whose writer is about to write it.
        name = info.key.removeprefix(TABLES).rpartition("-")[0]
        if name not in kept and now - info.modified > DAY_S:
            blobs.delete(info.key)


def sha256_of(path: Path) -> str:
    """Of a file's bytes, in hex."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_AT_ONCE):
            found.update(piece)
    return found.hexdigest()


def _short(error: Exception) -> str:
    return str(error).replace("\n", ";")[:300]
