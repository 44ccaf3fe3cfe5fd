"""A trial's checkpoints in several places: node-local disk, shared file system, S3.

Keys are the same in every tier, so a manifest means the same wherever it lies. Saves are written
to the first tier; `due` and `spread` bring them to slower ones; `find` and `source` read from the
fastest that has them; `prune` holds every tier to its measure.

    tiers = Tiers(spec.tiers or [Tier(url=spec.checkpoints_url)], node=spec.node, clock=clock)
    ... write to tiers.first, then commit the record with copies=(tiers.first_copy(now),) ...
    for tier in tiers.due(manifest, last=request.last):
        copy = tiers.spread(manifest, tier)      # and note it in the record
    tiers.prune(store, fence)
    for record in tiers.candidates(records):
        manifest = tiers.find(record)      # Elsewhere: try the next one
        reader = tiers.source(manifest)
"""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import Damaged, Manifest
from burst.core.checkpoints.removal.collect import Library, Reach
from burst.core.checkpoints.tiers import rules
from burst.core.checkpoints.tiers.copy import copy_checkpoint
from burst.core.checkpoints.tiers.mounts import Mounts, is_bare
from burst.core.checkpoints.tiers.prune import Measure
from burst.core.checkpoints.tiers.reader import SILENT, Elsewhere, Place, Source, Warn
from burst.core.checkpoints.verify import read
from burst.core.clock import Clock
from burst.core.errors import BurstError, Fenced, NotFound, Unreachable
from burst.core.launch import Tier
from burst.core.model import Allocation, Checkpoint, Copy, Lengths
from burst.core.store.port import Fence, Store

__all__ = ["Elsewhere", "Source", "Tiers"]

Opener = Callable[[str], Blobs]


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def _bare(url: str, what: str) -> Unreachable:
    return Unreachable(
        f"{url} is empty, though {what} was written there",
        why="nothing is mounted there on this node, or it was emptied",
        mend=f"mount it; if it was emptied for good: `burst checkpoint lost {shlex.quote(url)}`",
    )


class Tiers:
    """The places of one trial's checkpoints, as seen from one node. Safe from several threads."""

    def __init__(
        self,
        tiers: Sequence[Tier],
        node: str,
        clock: Clock,
        opener: Opener = open_blobs,
        warn: Warn = _warn,
        mends: bool = True,
    ) -> None:
        """Opens each tier when it is first needed.

        Args:
            tiers: fastest first; at least one.
            node: the id of the node that this process runs on.
            warn: is told, in words, of what went wrong without harm.
            mends: whether what is damaged in one tier, and intact in another, is written anew.
        """
        self._tiers = tuple(tiers)
        self._node = node
        self._clock = clock
        self._opener = opener
        self._warn = warn
        self._mends = mends
        self._opened: dict[str, Blobs] = {}
        self._lock = threading.Lock()
        self._mounts = Mounts()
        self._copied: dict[str, Lengths] = {}
        """By URL: how far the newest checkpoint was that is known to be there."""
        finishes = not all(tier.shared for tier in self._tiers)
        self._measures = [
            Measure(tier, node, clock, self._open, finishes=finishes) for tier in self._tiers
        ]
        self._library: Library | None = None
        """What `prune` has read of manifests."""
        self._found: dict[str, Checkpoint] = {}
        """Records that `find` was asked about, by id."""

    # --- saving --------------------------------------------------------------------------------

    @property
    def first(self) -> Blobs:
        """Where saves are written.

        Raises:
            UsageError: its URL names no blobs.
            Unreachable: it cannot be opened.
        """
        return self._open(self._tiers[0].url)

    def first_copy(self, now: float) -> Copy:
        """The copy that a save has made, once its manifest is in the first tier.

        Args:
            now: when that was, in seconds since the Unix epoch.
        """
        return self._copy(self._tiers[0], now)

    def due(self, manifest: Manifest, *, last: bool = False) -> tuple[Tier, ...]:
        """The slower tiers that a checkpoint goes to, fastest first.

        Those from which a length of `every` has passed since the newest one that is known to be
        there; and all that outlive the node if it is the `last` of its attempt, or was validated,
        since retention may keep it as the best.
        """
        forced = last or bool(manifest.metrics)
        return tuple(
            tier
            for tier in self._tiers[1:]
            if rules.is_due(tier, manifest.done, self._copied.get(tier.url), forced=forced)
        )

    def spread(self, manifest: Manifest, to: Tier) -> Copy:
        """Copy to a tier what it lacks of a checkpoint, its manifest last; returns the copy.

        Four files at a time are read from the fastest tier that has them, verified, and written
        with their SHA-256 for the store to check; size and manifest are then read back through a
        fresh handle. Idempotent, and once interrupted it goes on where it was.

        Raises:
            Damaged, Elsewhere: if no other tier has one of the files intact.
            Unreachable, StoreError: if one did not answer, or did not take what was written; or
                is a folder that is empty, though an earlier checkpoint was written there: then its
                disk is not mounted any more, and what is written would not outlive the node.
        """
        if to.url in self._copied and self._mounts.is_away(self._open(to.url)):
            raise _bare(to.url, "an earlier checkpoint")
        others = [tier for tier in self._tiers if tier.url != to.url]
        places = [self._place(tier, kept=False) for tier in others]
        source = Source(places, manifest, self._warn)
        copy_checkpoint(source, manifest, self._open(to.url), partial(self._opener, to.url))
        self._mounts.see(self._open(to.url))
        self._copied[to.url] = manifest.done
        return self._copy(to, self._clock.now())

    # --- restoring -----------------------------------------------------------------------------

    def candidates(
        self, records: Sequence[Checkpoint], attempts: Sequence[Allocation] = ()
    ) -> list[Checkpoint]:
        """What the trial could continue from, the one to try first coming first. Pure.

        Args:
            attempts: the trial's allocations. With them, what an earlier attempt has left behind
                comes last, though it may be further on.
        """
        return rules.candidates(records, attempts)

    def find(self, record: Checkpoint) -> Manifest:
        """The manifest of a checkpoint, from the fastest place that has it; a damaged one in a
        faster place is written anew from there.

        Raises:
            Elsewhere: if it is on the disks of other nodes alone. That is no damage: try the next
                older one, and leave the record as it is.
            Damaged: if no place has it intact.
            Unreachable, Refused, StoreError: if a place that may have it cannot be used now.
            BurstError: if a newer burst wrote it.
        """
        problems: list[str] = []
        silent: BurstError | None = None
        damaged: list[Place] = []
        for place in self._places(record):
            try:
                manifest = read(place.open(), record)
            except SILENT as error:
                silent = silent or error
            except Damaged as error:
                problems.append(f"{error.what} in {place.url}")
                if not isinstance(error.__cause__, NotFound):
                    damaged.append(place)
                elif self._is_bare(place, record):
                    silent = silent or _bare(place.url, f"checkpoint {record.id}")
            else:
                self._mend(damaged, record, manifest)
                self._found[record.id] = record
                return manifest
        if silent is not None:
            raise silent
        if nodes := self._elsewhere(record):
            raise Elsewhere(
                f"checkpoint {record.id} at batch {record.batches} lies on another node's disk",
                why=f"it was saved on {', '.join(nodes)} and not copied to a shared tier",
            )
        raise Damaged(f"no manifest of checkpoint {record.id} is intact", why="; ".join(problems))

    def source(self, manifest: Manifest, record: Checkpoint | None = None) -> Source:
        """Reads the files of a checkpoint. See `Source`: what it returns is verified, and need not
        be hashed again.

        Args:
            record: the checkpoint's; without it, the one that `find` was asked about here.
        """
        record = record or self._found.get(manifest.id)
        if record is None:
            return Source([self._place(tier) for tier in self._tiers], manifest, self._warn)
        for copy in record.copies:
            if copy.durable or copy.node == self._node:
                self._copied[copy.url] = manifest.done
        elsewhere = bool(self._elsewhere(record))
        return Source(self._places(record), manifest, self._warn, elsewhere=elsewhere)

    def _is_bare(self, place: Place, record: Checkpoint) -> bool:
        """Whether a place that outlives nodes, and should hold a checkpoint, holds nothing: so
        looks a share that is not mounted here, and the checkpoint may be whole."""
        claims = {copy.url for copy in record.copies if copy.durable} or {record.url}
        if place.local or place.url not in claims:
            return False
        return is_bare(place.open())

    def _mend(self, damaged: Sequence[Place], record: Checkpoint, manifest: Manifest) -> None:
        for place in damaged:
            if not place.mended:
                continue
            try:
                place.open().put(record.manifest, manifest.encode())
            except BurstError as error:
                self._warn(f"{record.manifest} stays damaged in {place.url}: {error.what}")
            else:
                self._warn(f"{record.manifest} was damaged in {place.url}; it was written anew")

    def _places(self, record: Checkpoint) -> list[Place]:
        """Where a checkpoint may be read from here, fastest first: this node's tiers, then those
        that only its record knows."""
        own = {tier.url for tier in self._tiers}
        known = [copy.url for copy in record.copies if copy.durable]
        known += [] if record.copies else [record.url]
        others = [url for url in dict.fromkeys(known) if url not in own]
        return [
            *(self._place(tier) for tier in self._tiers),
            *(Place(partial(self._open, url), url, mended=False) for url in others),
        ]

    def _elsewhere(self, record: Checkpoint) -> list[str]:
        """The other nodes that have it on their disks."""
        nodes = [copy.node for copy in record.copies if copy.node not in ("", self._node)]
        return list(dict.fromkeys(nodes))

    # --- keeping to measure --------------------------------------------------------------------

    def prune(self, store: Store, fence: Fence) -> int:
        """Hold every tier to its `keep`, and remove from this node's own disk what is deleted;
        returns the bytes freed. Idempotent, and once interrupted the next call goes on. Where
        nothing has changed since, it reads records and no tier.

        It never takes the newest that a tier has, nor the only durable copy of a checkpoint, nor
        files that other trials' checkpoints name. Call it when no `spread` is under way. A tier
        that does not answer is told about and passed by.

        Raises:
            Fenced: if a newer allocation owns the trial.
        """
        library = self._library_of(store)
        freed, records = 0, store.children(Checkpoint, fence.trial)
        for tier, measure in zip(self._tiers, self._measures, strict=True):
            try:
                freed += measure.hold(library, fence, records)
            except Fenced:
                raise
            except BurstError as error:
                self._warn(f"{tier.url} was not tidied: {error.what}")
        return freed

    def _library_of(self, store: Store) -> Library:
        if self._library is None or self._library.store is not store:
            disks = []
            for tier in self._tiers:
                with suppress(BurstError):  # which the tier's own turn tells
                    disks += [] if tier.shared else [self._open(tier.url)]
            self._library = Library(Reach(disks, self._open), store)
        return self._library

    # --- places --------------------------------------------------------------------------------

    def _place(self, tier: Tier, *, kept: bool = True) -> Place:
        """A tier to read from.

        Args:
            kept: whether it is given what it lacks, if it is this node's own disk.
        """
        local = kept and not tier.shared
        opener = partial(self._open, tier.url)
        return Place(opener, tier.url, local=local, mended=self._mends)

    def _copy(self, tier: Tier, at: float) -> Copy:
        return Copy(url=tier.url, at=at, node="" if tier.shared else self._node)

    def _open(self, url: str) -> Blobs:
        with self._lock:
            if url not in self._opened:
                self._opened[url] = self._opener(url)
            return self._opened[url]
