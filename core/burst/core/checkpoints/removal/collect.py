"""Taking back the space of what no checkpoint needs, wherever its files may be named.

A checkpoint is removed in three steps: its record says `deleted`; then, in every tier, the files
go that lie in folders of deleted checkpoints and that no remaining manifest names; its own
manifest goes last. So a manifest whose record is deleted says that something is left to do, and
whoever removes or sweeps next does it.

Which manifests may name a file: those of its owner's trial, and of the trials in the owner's
`lent_to`. Every commit that takes a file over from another trial's checkpoint writes the owner's
record, on the condition that the lender is not deleted. Records are listed a trial at a time, so
the owners are read before and after: where their versions are the same, no file went from one
trial to another meanwhile, and within a trial one listing shows either the lender undeleted, or
the checkpoint that has taken the file over. Otherwise it is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from burst.core.blobs import open_blobs
from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.checkpoints.format.manifest import (
    Damaged,
    Manifest,
    manifest_key,
    owner_of,
    trial_folder,
)
from burst.core.checkpoints.verify import read
from burst.core.errors import Unreachable
from burst.core.model import Checkpoint, Copy
from burst.core.store.port import Store

Counts = Callable[[Checkpoint], bool]
_ROUNDS = 20
_REMEMBERED = 500


def remains(record: Checkpoint) -> bool:
    """Whether a checkpoint is not deleted."""
    return record.deleted is None


class Reach:
    """The tiers that can be reached from here, opened when they are first needed."""

    def __init__(
        self, at_hand: Iterable[Blobs], opener: Callable[[str], Blobs] = open_blobs
    ) -> None:
        """
        Args:
            at_hand: those that are open already, this node's own disk among them.
        """
        self._open = {blobs.url: blobs for blobs in at_hand}
        self._opener = opener

    def of(self, records: Iterable[Checkpoint]) -> list[Blobs]:
        """The tiers that hold checkpoints, each once, but for the disks of other nodes."""
        urls = [url for record in records for url in self._near(record)]
        return [self._at(url) for url in dict.fromkeys(urls)]

    def manifest(self, record: Checkpoint) -> Manifest | None:
        """The manifest of a checkpoint; None if no tier that can be reached has it intact.

        Raises:
            Unreachable: if a tier that may have it did not answer.
        """
        silent: Unreachable | None = None
        near = self._near(record)
        held = [url for url in near if url in self._open]
        for url in dict.fromkeys((*held, *near, *self._open)):
            try:
                return read(self._at(url), record)
            except Damaged:
                continue
            except Unreachable as error:
                silent = error
        if silent is not None:
            raise silent
        return None

    def _near(self, record: Checkpoint) -> list[str]:
        copies = record.copies or (Copy(url=record.url, at=record.created),)
        return [copy.url for copy in copies if copy.durable or copy.url in self._open]

    def _at(self, url: str) -> Blobs:
        if url not in self._open:
            self._open[url] = self._opener(url)
        return self._open[url]


class Library:
    """What the manifests of checkpoints name. The last that were read are remembered, as none ever
    changes."""

    def __init__(self, reach: Reach, store: Store) -> None:
        self._reach = reach
        self.store = store
        self._files: dict[str, frozenset[str]] = {}

    def files(self, record: Checkpoint) -> frozenset[str] | None:
        """The keys that a checkpoint's manifest names; None if it cannot be read."""
        if record.id not in self._files:
            manifest = self._reach.manifest(record)
            if manifest is None:
                return None
            self._files[record.id] = frozenset(entry.key for entry in manifest.files)
            if len(self._files) > _REMEMBERED:
                del self._files[next(each for each in self._files if each != record.id)]
        return self._files[record.id]

    def needed(
        self, own: Sequence[Checkpoint], owners: Collection[str] = (), counts: Counts = remains
    ) -> frozenset[str] | None:
        """The keys that manifests name of a trial's checkpoints, and of all others that may name
        files in the folders of `owners`. None if that cannot be told, as a manifest that is not
        known to be damaged cannot be read, or records change faster than they are read.

        Args:
            own: the trial's checkpoints as they were listed; they are listed again if need be.
            counts: which of these need their files.
        """
        for _ in range(_ROUNDS):
            try:
                return self._named_now(own, owners, counts)
            except _Changed:
                own = self.store.children(Checkpoint, own[0].trial)
        return None

    def _named_now(
        self, own: Sequence[Checkpoint], owners: Collection[str], counts: Counts
    ) -> frozenset[str] | None:
        trial = own[0].trial
        before = self._find(owners, own)
        others = {id for record in before for id in (record.trial, *record.lent_to)} - {trial}
        there = [record for record in own if counts(record)]
        for other in sorted(others):
            there += filter(remains, self.store.children(Checkpoint, other))
        keys = self._named(there)
        if others and keys is not None:  # one trial is one listing: it has no before and after
            after = self._find(owners, self.store.children(Checkpoint, trial))
            if before != after:
                raise _Changed
        return keys

    def _named(self, records: Iterable[Checkpoint]) -> frozenset[str] | None:
        keys: set[str] = set()
        for record in records:
            found = self.files(record)
            if found is None and not record.damaged:
                if self.store.find(Checkpoint, record.id) != record:
                    raise _Changed
                return None
            keys |= found or set()
        return frozenset(keys)

    def _find(self, owners: Collection[str], own: Sequence[Checkpoint]) -> list[Checkpoint]:
        mine = {record.id: record for record in own}
        found = (mine.get(id) or self.store.find(Checkpoint, id) for id in sorted(owners))
        return [record for record in found if record is not None]


class _Changed(Exception):
    """A record is no longer as it was listed."""


def lying(space: Blobs, trial: str, gone: Collection[str]) -> list[BlobInfo]:
    """What lies in a tier in the folders of some checkpoints of a trial."""
    return in_folders(space.list(trial_folder(trial)), gone)


def in_folders(there: Iterable[BlobInfo], of: Collection[str]) -> list[BlobInfo]:
    """What of a listing lies in the folders of some checkpoints."""
    return [blob for blob in there if owner_of(blob.key)[1] in of]


def remove(space: Blobs, needless: Iterable[BlobInfo]) -> int:
    """Delete blobs; returns their bytes."""
    freed = 0
    for blob in needless:
        space.delete(blob.key)
        freed += blob.size
    return freed


def collect(library: Library, spaces: Sequence[Blobs], own: Sequence[Checkpoint]) -> int:
    """Remove what the deleted checkpoints of a trial have left needless, in their own folders and
    in those of other trials' deleted checkpoints. Returns the bytes freed. Idempotent.

    While it cannot be told what a remaining checkpoint needs, nothing is removed.

    Args:
        spaces: the tiers to remove from.
        own: the trial's checkpoints, as they were just listed.

    Raises:
        Unreachable: if a tier did not answer. What is left to do, the next call does.
    """
    gone = {record.id: record for record in own if not remains(record)}
    if not gone:
        return 0
    trial = own[0].trial
    indexes = {manifest_key(trial, id): record for id, record in gone.items()}
    found = [(space, lying(space, trial, gone)) for space in spaces]
    begun = {blob.key: indexes[blob.key] for _, of in found for blob in of if blob.key in indexes}
    abroad = _abroad(library, spaces, own, list(begun.values()))
    if abroad is None:
        return 0
    needless = [
        (space, [blob for blob in of if blob.key not in indexes] + abroad.get(space.url, []))
        for space, of in found
    ]
    owners = {owner_of(blob.key)[1] for _, of in needless for blob in of}
    needed = library.needed(own, owners) if owners else frozenset()
    if needed is None:
        return 0
    freed = sum(remove(space, [b for b in of if b.key not in needed]) for space, of in needless)
    return freed + sum(remove(space, [b for b in of if b.key in indexes]) for space, of in found)


def _abroad(
    library: Library,
    spaces: Sequence[Blobs],
    own: Sequence[Checkpoint],
    begun: Sequence[Checkpoint],
) -> Mapping[str, list[BlobInfo]] | None:
    """By tier: files in the folders of other trials' deleted checkpoints that only checkpoints
    whose removal has begun may have kept there; None if that cannot be told."""
    borrowers = [record for record in begun if record.borrowed_from]
    if not borrowers:
        return {}
    trial = own[0].trial
    kept = library.needed(own)
    if kept is None:
        return None
    keys: set[str] = set()
    unread: set[str] = set()
    for record in borrowers:
        named = library.files(record)
        unread |= set(record.borrowed_from) if named is None else set()
        keys |= {key for key in (named or set()) - kept if owner_of(key)[0] != trial}
    store = library.store
    gone = _gone(store, {owner_of(key)[1] for key in keys})
    found: dict[str, list[BlobInfo]] = {}
    for space in spaces:
        infos = [space.info(key) for key in sorted(keys) if owner_of(key)[1] in gone]
        found[space.url] = [info for info in infos if info is not None]
        for other in sorted(unread):
            deleted = {each.id for each in store.children(Checkpoint, other) if not remains(each)}
            found[space.url] += lying(space, other, deleted)
    return found


def _gone(store: Store, ids: Iterable[str]) -> set[str]:
    records = (store.find(Checkpoint, id) for id in ids)
    return {record.id for record in records if record is not None and not remains(record)}
