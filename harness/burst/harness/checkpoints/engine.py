"""Checkpoints behind training: written whole, then made to count, or not at all.

A save goes: the state is taken (`snapshot`), every rank hashes and writes its files (`writing`),
rank 0 writes the manifest and commits the record under the trial's token (`committing`). Before
that commit nothing refers to the files, after it all of them are durable. So a rank may die
between any two steps: what it leaves is either a checkpoint or a folder that no record names, and
that the next attempt's restore sweeps away.

Only the taking holds training up. The rest happens in threads: one that carries saves out in their
order and agrees with the other ranks on a channel of its own, one that copies, and a few that hash
and write.

    engine = BlobCheckpointEngine(store, tiers, Identity(...), collective, clock)
    found = engine.restore()
    engine.save(SaveRequest(shared=..., own=..., done=...))
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

from burst.core.checkpoints.format.manifest import folder
from burst.core.checkpoints.removal.lend import Known
from burst.core.checkpoints.tiers.places import Tiers
from burst.core.clock import Clock
from burst.core.errors import Fenced
from burst.core.ids import new_id
from burst.core.store.port import Store
from burst.harness.checkpoints import shards
from burst.harness.checkpoints.agreement import on_all_ranks
from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.port import Restored, SaveRequest, Tree
from burst.harness.checkpoints.publish import Identity
from burst.harness.checkpoints.restoring.restorer import Restorer
from burst.harness.checkpoints.saving.committing import Committer
from burst.harness.checkpoints.saving.moving import Mover
from burst.harness.checkpoints.saving.packs import Part
from burst.harness.checkpoints.saving.save import Gates, Save, trained_parts
from burst.harness.checkpoints.saving.snapshot import Layout, Snapshot, Torn
from burst.harness.checkpoints.saving.writing import Partition, Parts, Writers, Writing, lay_out
from burst.harness.collective import Collective

__all__ = ["BlobCheckpointEngine", "Identity"]

_TIDY_S = 2.0
_ALONE_S = 10.0
IN_FLIGHT = 2
"""States on their way at the most. They share one arena: the second is copied to where the first
is written already."""


class BlobCheckpointEngine:
    """Saves and restores for one rank, behind `burst.harness.checkpoints.port`."""

    def __init__(
        self,
        store: Store,
        tiers: Tiers,
        identity: Identity,
        collective: Collective,
        clock: Clock,
        *,
        warm_start: str = "",
        weights_only: bool = False,
    ) -> None:
        """Collective.

        Args:
            warm_start: id of the checkpoint to restore if the trial has none of its own.
            weights_only: whether of that one only the models are read.
        """
        self.last_durable_s = 0.0
        """Seconds from the beginning of the last save that succeeded until it was committed."""
        self._tiers = tiers
        self._identity = identity
        self._collective = collective
        self._clock = clock
        self._warm_start = warm_start
        self._committer = Committer(store, tiers, identity, collective.twin(), clock)
        self._mover = Mover(store, tiers, identity, clock, self._failed)
        self._restorer = Restorer(
            store,
            tiers,
            identity,
            collective,
            clock,
            warm_start=warm_start,
            weights_only=weights_only,
        )
        self._conductor = ThreadPoolExecutor(1, thread_name_prefix="burst-checkpoint-order")
        self._copier = ThreadPoolExecutor(1, thread_name_prefix="burst-checkpoint-copy")
        self._partition = Partition(collective)
        self._writers = Writers()
        self._gates = Gates()
        self._layout: tuple[tuple[Part, ...], Layout] | None = None
        self._flying: deque[threading.Event] = deque()
        """Set when a save is over; the saves themselves hold live tensors, and must not last."""
        self._looking = False
        self._looked = threading.Event()
        self._on_their_way: dict[str, Writing] = {}
        self._lazy = True
        self._lock = threading.Lock()
        self._warnings: list[str] = []
        self._fenced: Fenced | None = None
        self._saved = True
        """Whether the last state that was handed to `save` is committed."""

    # --- saving --------------------------------------------------------------------------------

    def save(self, request: SaveRequest) -> bool:
        """See the port."""
        self._raise_if_fenced()
        taken = self._take(request)
        if taken is None:
            return False
        self._look_around(taken.shared)
        self._gates.settle()
        while len(self._flying) >= IN_FLIGHT:
            self._flying.popleft().wait()
        self._saved = False
        if taken.held_back and self._still_held_back():
            self._warn(_not_saved(request, "it is not known yet what became of the one before"))
            return True
        save = self._begin(request, taken)
        self._flying.append(save.done)
        self._copier.submit(_copy, save.snapshot)
        save.snapshot.begin()
        save.writing.begin()

        def go_on() -> object:
            return self._conductor.submit(self._carry_out, save)

        if save.snapshot.waits:
            self._gates.guard(save.snapshot, request.optimizers, go_on)
        else:
            go_on()
        return True

    def prepare(self, request: SaveRequest) -> None:
        """See the port."""
        taken = self._take(request)
        if taken is not None:
            self._look_around(taken.shared)
            self._gates.settle()
            self._lay_out(taken.parts)

    def poll(self) -> list[str]:
        self._raise_if_fenced()
        with self._lock:
            warnings, self._warnings = self._warnings, []
        return warnings

    def wait(self, timeout: float | None = None, *, last: bool = False) -> bool:
        """See the port. Collective: what one rank does not have, none has."""
        until = None if timeout is None else self._clock.monotonic() + timeout
        self._gates.settle(alone_s=_ALONE_S if timeout is None else min(_ALONE_S, timeout))
        for done in self._flying:
            done.wait(self._left(until))
        if last:
            self._mover.finish()
        moved = not self.busy() and self._mover.wait(self._left(until))
        self._raise_if_fenced()
        return all(self._collective.allgather(self._saved and moved))

    @property
    def saved(self) -> bool:
        """See the port."""
        return self._saved

    def busy(self) -> bool:
        """Whether a save is on its way."""
        return self._under_way() > 0

    def _under_way(self) -> int:
        return sum(not done.is_set() for done in self._flying)

    def settle(self) -> None:
        """See the port."""
        self._gates.settle()

    def close(self) -> None:
        """Let what is on its way end, and let go of everything."""
        self._gates.settle()
        self._gates.remove()
        self._conductor.shutdown()
        self._copier.shutdown()
        self._writers.close()
        self._mover.close()

    def _take(self, request: SaveRequest) -> _Taken | None:
        """What this rank writes, and what rank 0 says of it; None if it is left out, on the word
        of any rank. The tensors are live."""
        halves: list[tree.Encoded] = []

        def act() -> list[str | bool]:
            crowded = request.dispensable and self._under_way() >= IN_FLIGHT
            if not crowded:
                halves.append(tree.encode(request.shared, "shared"))
                halves.append(tree.encode(request.own, "own"))
            return [crowded, new_id("ckpt", self._clock), self._committer.holds_back]

        answers = on_all_ranks(self._collective, act)
        if any(crowded for crowded, _, _ in answers):
            return None
        _, id, held_back = answers[0]
        shared, own = halves
        alike = shards.owned_by(request.optimizers, shared)
        trained = trained_parts(shared, alike, request.optimizers)
        parts = self._partition.parts_of(shared, own, alike, trained)
        return _Taken(id, held_back, shared, own, alike, parts)

    def _still_held_back(self) -> bool:
        """Whether what an earlier save has left is still there, though we try to remove it."""
        tidied = self._conductor.submit(self._committer.tidy)
        wait([tidied], _TIDY_S)
        gone = tidied.done() and tidied.exception() is None
        return not all(self._collective.allgather(gone))

    def _begin(self, request: SaveRequest, taken: _Taken) -> Save:
        layout = self._lay_out(taken.parts)
        place = folder(self._identity.trial, taken.id)
        known = partial(self._known, taken.id)
        files = Writing(layout, self._writers, self._tiers.first, place, known)
        self._on_their_way[taken.id] = files
        return Save(
            id=taken.id,
            request=request,
            shared=taken.shared,
            own=taken.own,
            alike=taken.alike,
            parts=taken.parts,
            layout=layout,
            turn=layout.arena.next_turn(),
            snapshot=Snapshot(layout, taken.parts.sources, taken.later(self._lazy), files.filled),
            writing=files,
            begun=self._clock.monotonic(),
        )

    def _lay_out(self, parts: Parts) -> Layout:
        if self._layout is None or self._layout[0] != parts.parts:
            while self._flying:
                self._flying.popleft().wait()
            before = self._layout[1].arena if self._layout else None
            self._layout = None  # so that there is memory for one at a time only
            pinned = any(source.is_cuda for source in parts.sources)
            self._layout = parts.parts, lay_out(parts.parts, pinned=pinned, before=before)
        return self._layout[1]

    def _carry_out(self, save: Save) -> None:
        try:
            save.snapshot.gate()
            record, manifest = self._committer.carry_out(save)
            self._saved = True
            self.last_durable_s = self._clock.monotonic() - save.begun
            if self._collective.rank == 0:
                self._mover.move(record, manifest)
        except Exception as error:
            self._lazy = self._lazy and not isinstance(error, Torn)
            self._failed(error, _not_saved(save.request, str(error)))
        finally:
            del self._on_their_way[save.id]
            save.done.set()

    def _look_around(self, shared: tree.Encoded) -> None:
        """Find out, once and in the background, what is written already."""
        if not self._looking:
            self._looking = True
            self._conductor.submit(self._look, shared)

    def _look(self, shared: tree.Encoded) -> None:
        try:
            self._committer.look_around(shared, self._warm_start)
        except Exception as error:
            self._failed(error, f"files of other checkpoints are not used again: {error}")
        finally:
            self._looked.set()

    def _known(self, save: str, digest: str) -> Known | None:
        """The file with this hash that a checkpoint has, or one that is on its way before `save`:
        if that one comes to nothing, its file is missed when this one is to count."""
        self._looked.wait()
        found = self._committer.known.get(digest)
        if found is not None:
            there = self._tiers.first.info(found.entry.key)
            return found if there is not None and there.size == found.entry.size else None
        for before, files in list(self._on_their_way.items()):
            if before == save:
                break
            if digest in files.written:
                return Known(files.written[digest], before, self._identity.trial)
        return None

    def _failed(self, error: Exception, text: str = "") -> None:
        if isinstance(error, Fenced):
            self._fenced = error
        else:
            self._warn(text or str(error))

    def _warn(self, text: str) -> None:
        with self._lock:
            self._warnings.append(text)

    def _raise_if_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    def _left(self, until: float | None) -> float | None:
        return None if until is None else max(0.0, until - self._clock.monotonic())

    # --- restoring -----------------------------------------------------------------------------

    def restore(self, into: Tree = None) -> Restored | None:
        """See the port. Also removes what interrupted saves of this trial have left.

        `own` is what this rank saved, whatever the number of ranks was: compare `ranks` before
        using what depends on it.

        Raises:
            Damaged, NotFound: if the checkpoint given for a warm start cannot be used.
            BurstError: if one is whole, but this burst or this torch cannot read it.
            Unreachable: if the store or the blobs did not answer.
        """
        restored = self._restorer.restore(into)
        if restored is not None and not restored.warm:
            self._committer.continues(restored.checkpoint)
        return restored


@dataclass(frozen=True)
class _Taken:
    """A state as it is to be saved, not copied yet."""

    id: str
    held_back: bool
    shared: tree.Encoded
    own: tree.Encoded
    alike: frozenset[int]
    parts: Parts

    def later(self, lazy: bool) -> set[int]:
        """The parts that may be copied while training goes on: what only optimizers step."""
        boxes = enumerate(self.parts.boxes) if lazy else ()
        return {number for number, (tensor, _, _) in boxes if tensor in self.alike}


def _not_saved(request: SaveRequest, why: str) -> str:
    return f"the checkpoint at batch {request.done.batches} was not saved: {why}"


def _copy(snapshot: Snapshot) -> None:
    while snapshot.work():
        pass
