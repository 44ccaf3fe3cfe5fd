"""Reading a checkpoint's files from the fastest place that has them intact."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.checkpoints.format.manifest import Damaged, FileEntry, Manifest, manifest_key
from burst.core.errors import BurstError, NotFound, Refused, StoreError, Unreachable

Warn = Callable[[str], None]
SILENT = (Unreachable, Refused, StoreError)
"""What blobs raise that cannot be used now, which says nothing of what they hold."""
_PAGE = mmap.PAGESIZE


class Elsewhere(BurstError):
    """What is asked for lies on the disks of other nodes alone; it is not damaged."""


@dataclass(frozen=True)
class Place:
    """Blobs that may hold a checkpoint."""

    open: Callable[[], Blobs]
    """The same blobs every time; may raise what opening them raises."""
    url: str
    local: bool = False
    """Whether it is this node's own disk, which is given what was read from slower places."""
    mended: bool = True
    """Whether what is damaged there may be written anew."""


class Source:
    """The files of one checkpoint, each read from the fastest place that has it intact.

    What it returns was compared with the manifest (size and SHA-256), so nobody needs to hash it
    again. Safe from several threads. Where a place is this node's own disk, a file that it lacks
    is kept there too; of several processes of the node that want the same file, one fetches it.
    """

    def __init__(
        self, places: Sequence[Place], manifest: Manifest, warn: Warn, *, elsewhere: bool = False
    ) -> None:
        """
        Args:
            elsewhere: whether places that cannot be reached from here may hold it too.
        """
        self._places = places
        self._manifest = manifest
        self._entries = {entry.key: entry for entry in manifest.files}
        self._warn = warn
        self._elsewhere = elsewhere
        self._claims: dict[str, bool] = {}
        self._told: set[str] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._places[-1].url

    def read_into(self, key: str, buffer: memoryview) -> int:
        """As `Blobs.read_into`, of a file that the manifest names; verified.

        Raises:
            Damaged: if no place has the file intact.
            Elsewhere: if none that can be reached has, and others may.
            Unreachable, Refused, StoreError: if a place that may have it cannot be used now.
        """
        entry = self._entry(key)
        target = buffer if len(buffer) >= entry.size else memoryview(aligned(entry.size))
        with self._one_of_this_node(entry):
            self._read(entry, target)
        if target is not buffer:
            buffer[:] = target[: len(buffer)]
        return entry.size

    def fetch(self, entry: FileEntry, buffer: memoryview | None = None) -> memoryview:
        """The verified bytes of a file; they lie in `buffer` if one is given that is large enough.

        Raises:
            Damaged, Elsewhere, Unreachable, …: as `read_into`.
        """
        if buffer is None or len(buffer) < entry.size:
            buffer = memoryview(aligned(entry.size))
        self.read_into(entry.key, buffer)
        return buffer[: entry.size]

    def get(self, key: str) -> bytes:
        """The verified bytes of a file that the manifest names; raises as `read_into`."""
        return bytes(self.fetch(self._entry(key)))

    def info(self, key: str) -> BlobInfo | None:
        """What the manifest says of a file."""
        entry = self._entries.get(key)
        return BlobInfo(key, entry.size, self._manifest.created) if entry else None

    def local_path(self, key: str) -> Path | None:
        """None: reading past this would be reading what is not verified."""
        self._entry(key)
        return None

    def _entry(self, key: str) -> FileEntry:
        if key not in self._entries:
            raise NotFound(f"checkpoint {self._manifest.id} has no file {key}")
        return self._entries[key]

    def _read(self, entry: FileEntry, buffer: memoryview) -> None:
        problems: list[str] = []
        silent: BurstError | None = None
        lacking: list[tuple[Place, str]] = []
        for place in self._places:
            try:
                problem = _read_one(place.open(), entry, buffer)
            except NotFound:
                problem, missing = f"{entry.key} is missing", True
            except SILENT as error:
                silent = silent or error
                self._tell_once(f"{place.url} is passed by: {error.what}", error.why)
                continue
            else:
                missing = False
            if not problem:
                self._give(lacking, entry, buffer)
                return
            problems.append(f"{problem} in {place.url}")
            if place.local or not missing or self._claimed(place):
                lacking.append((place, "" if missing and place.local else problem))
        raise self._nowhere(entry, problems, silent)

    def _nowhere(
        self, entry: FileEntry, problems: Sequence[str], silent: BurstError | None
    ) -> BurstError:
        why = "; ".join(problems)
        if silent is not None:
            return silent
        if self._elsewhere:
            return Elsewhere(f"{entry.key} is not on this node", why=why)
        return Damaged(f"no copy of {entry.key} is intact", why=why)

    def _give(
        self, lacking: Sequence[tuple[Place, str]], entry: FileEntry, buffer: memoryview
    ) -> None:
        """Write a file where it was missing or damaged; that this fails harms nobody."""
        for place, problem in lacking:
            if not place.mended:
                continue
            try:
                batch = place.open().batch()
                try:
                    batch.put(entry.key, buffer[: entry.size], entry.sha256)
                    batch.finish()
                except BaseException:
                    batch.abort()
                    raise
            except BurstError as error:
                self._tell_once(f"{place.url} is not given what it lacks: {error.what}", error.why)
            else:
                if problem:
                    self._warn(f"{problem} in {place.url}; it was written anew from another copy")

    def _claimed(self, place: Place) -> bool:
        """Whether a place has the manifest, and so should have all files."""
        if place.url not in self._claims:
            key = manifest_key(self._manifest.trial, self._manifest.id)
            try:
                self._claims[place.url] = place.open().info(key) is not None
            except BurstError:
                return False
        return self._claims[place.url]

    def _tell_once(self, what: str, why: str) -> None:
        with self._lock:
            if what in self._told:
                return
            self._told.add(what)
        self._warn(f"{what} ({why})" if why else what)

    @contextmanager
    def _one_of_this_node(self, entry: FileEntry) -> Iterator[None]:
        """While one process of this node fetches a file, the others that want it wait for it."""
        local = next((place for place in self._places if place.local), None)
        slower = [place for place in self._places if not place.local]
        if local is None or not slower or _has(local, entry):
            yield
            return
        with _locked(Path(local.url.removeprefix("file://")) / "locks" / entry.sha256[:2]):
            yield


def aligned(size: int) -> mmap.mmap:
    """Memory on a page boundary, with room for a page more than `size` bytes."""
    return mmap.mmap(-1, (size // _PAGE + 2) * _PAGE)


def _read_one(blobs: Blobs, entry: FileEntry, buffer: memoryview) -> str:
    """Read a file from one place; returns what is wrong with it, or nothing. Bytes that are wrong
    are read once more: they may have been spoiled on the way."""
    problem = ""
    for _ in range(2):
        size = blobs.read_into(entry.key, buffer)
        if size != entry.size:
            problem = f"{entry.key} has {size} bytes where {entry.size} were written"
        elif hashlib.sha256(buffer[:size]).hexdigest() != entry.sha256:
            problem = f"{entry.key} holds other bytes than were written"
        else:
            return ""
    return problem


def _has(place: Place, entry: FileEntry) -> bool:
    try:
        found = place.open().info(entry.key)
    except BurstError:
        return False
    return found is not None and found.size == entry.size


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that dies with the process; where none can be had, go without."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
