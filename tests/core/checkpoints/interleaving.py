"""Several savers and removers in one store, one call at a time, in any order that is drawn.

The code is the real one. A process is stepped by running it again from its start, with the answers
that it was given before, and one call further: so any two calls of different processes may follow
each other, or a process may never get to its next one, without threads and without luck.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.checkpoints.format.manifest import (
    FileEntry,
    Manifest,
    folder,
    manifest_key,
    trial_folder,
)
from burst.core.checkpoints.removal.collect import Library, Reach
from burst.core.checkpoints.removal.delete import delete, finish, restorable, sweep
from burst.core.checkpoints.removal.evict import evict
from burst.core.checkpoints.removal.lend import (
    Known,
    borrowed_from,
    join,
    known_files,
    still_lent,
    terms,
)
from burst.core.errors import BurstError, Fenced, NotFound
from burst.core.model import Checkpoint, Copy, Lengths, Trial
from burst.core.store import update
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Fence, Put, Store
from burst.harness.checkpoints.agreement import LenderGone
from burst.harness.checkpoints.publish import Identity, note_copies, publish

EXPERIMENT = "exp-00000000000"
FAMILY = "family-of-all"
NODE = "node-1"


class Blobbery:
    """Blobs in memory: whole or not at all, as the port says."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.kept: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> None:
        self.kept[key] = data

    def get(self, key: str) -> bytes:
        if key not in self.kept:
            raise NotFound(f"no {key}")
        return self.kept[key]

    def info(self, key: str) -> BlobInfo | None:
        return BlobInfo(key, len(self.kept[key]), 0.0) if key in self.kept else None

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        keys = sorted(key for key in self.kept if key.startswith(prefix))
        return iter([BlobInfo(key, len(self.kept[key]), 0.0) for key in keys])

    def delete(self, key: str) -> None:
        self.kept.pop(key, None)


class _Pause(BaseException):
    """The process has made the one call that it was let make."""


class Process:
    """A run of `script` that goes on by one call of store or blobs at a time."""

    def __init__(self, script: Callable[[Process], None]) -> None:
        self._script = script
        self._answers: list[tuple[bool, Any]] = []
        self._at = 0
        self._allowed = 0
        self.done = False
        self.error: BurstError | None = None

    def step(self, calls: int = 1) -> None:
        """Go on for some calls, or to the end if that is nearer."""
        if self.done:
            return
        self._at, self._allowed = 0, len(self._answers) + calls
        try:
            self._script(self)
        except _Pause:
            return
        except BurstError as error:
            self.error = error
        self.done = True

    def run(self) -> Process:
        while not self.done:
            self.step(1000)
        return self

    def call(self, act: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._at == self._allowed:
            raise _Pause
        if self._at == len(self._answers):
            self._answers.append(_answer(act, *args, **kwargs))
        good, value = self._answers[self._at]
        self._at += 1
        if not good:
            raise value
        return list(value) if isinstance(value, list) else value

    def through(self, target: Any) -> Any:
        """`target`, each of whose calls is one of this process."""
        return _Through(target, self)


def _answer(act: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[bool, Any]:
    try:
        value = act(*args, **kwargs)
    except BurstError as error:
        return False, error
    return True, list(value) if isinstance(value, Iterator) else value


class _Through:
    def __init__(self, target: Any, process: Process) -> None:
        self._target = target
        self._process = process

    @property
    def url(self) -> str:
        return str(self._target.url)

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._target, name)
        return lambda *args, **kwargs: self._process.call(act, *args, **kwargs)


@dataclass
class World:
    """Some trials, a store, a tier on a node's own disk and one that outlives it."""

    careless: Collection[str] = ()
    """What savers leave out, for tests of the tests: the condition on `lenders`, the word to
    `owners`, or to those owners that they had told `again`."""
    store: MemoryStore = field(default_factory=MemoryStore)
    fast: Blobbery = field(default_factory=lambda: Blobbery("file:///fast"))
    slow: Blobbery = field(default_factory=lambda: Blobbery("file:///slow"))
    made: int = 0
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def add_trial(self) -> str:
        number = len(self.store.children(Trial, EXPERIMENT))
        trial = Trial(
            id=f"{EXPERIMENT}.t{number:04d}",
            experiment=EXPERIMENT,
            number=number,
            seed=1,
            slots=1,
            pools=("local",),
            created=0,
            queued=0,
            token=1,
            state_since=0,
        )
        self.store.commit(Put(trial))
        return trial.id

    def trials(self) -> list[Trial]:
        return self.store.children(Trial, EXPERIMENT)

    def records(self) -> list[Checkpoint]:
        trials = [trial.id for trial in self.trials()]
        return [record for trial in trials for record in self.store.children(Checkpoint, trial)]

    # --- processes -----------------------------------------------------------------------------

    def saver(
        self, trial: str, contents: Sequence[bytes], *, known: dict[str, Known] | None = None,
        tiers: bool = False,
    ) -> Process:  # fmt: skip
        """Saves a state of these files.

        Args:
            known: what the trial has known since before; by default it looks now.
            tiers: whether it is written to the fast tier and copied to the slow one; else to that
                alone.
        """
        self.made += 1
        id, token = f"ckpt-{self.made:011d}", self.store.get(Trial, trial).token
        identity = Identity(EXPERIMENT, trial, token, token)
        at = 10_000.0 + self.made

        def script(process: Process) -> None:
            store: Store = process.through(self.store)
            first = process.through(self.fast if tiers else self.slow)
            node = NODE if tiers else ""
            use = known
            if use is None:
                use = known_files(first, store, trial, families=[FAMILY], node=node, worth=0)
            use = still_lent(store, use)
            copies = (Copy(url=first.url, at=at, node=node),)
            try:
                manifest = self._save(store, first, identity, id, contents, use, copies)
            except Fenced:
                for blob in list(first.list(f"{folder(trial, id)}/")):
                    first.delete(blob.key)
                raise
            join(store, identity.fence, [FAMILY])
            if tiers:
                self._spread(store, first, process.through(self.slow), identity, manifest)

        return Process(script)

    def look(self, trial: str, *, tiers: bool = False) -> dict[str, Known]:
        """What a trial finds now that it need not write."""
        first, node = (self.fast, NODE) if tiers else (self.slow, "")
        return known_files(
            cast(Blobs, first), self.store, trial, families=[FAMILY], node=node, worth=0
        )

    def _save(
        self, store: Store, first: Blobs, identity: Identity, id: str,
        contents: Sequence[bytes], known: dict[str, Known], copies: tuple[Copy, ...],
    ) -> Manifest:  # fmt: skip
        try:
            used, manifest = _write(first, identity, id, contents, known)
            self._publish(store, identity, manifest, used, copies)
        except LenderGone:
            used, manifest = _write(first, identity, id, contents, {})
            self._publish(store, identity, manifest, used, copies)
        return manifest

    def _publish(
        self, store: Store, identity: Identity, manifest: Manifest, used: Sequence[Known],
        copies: tuple[Copy, ...],
    ) -> None:  # fmt: skip
        on = terms(used, identity.trial)
        record = Checkpoint(
            id=manifest.id,
            trial=identity.trial,
            experiment=EXPERIMENT,
            attempt=identity.attempt,
            batches=manifest.done.batches,
            created=manifest.created,
            url=copies[-1].url,
            copies=copies,
            manifest=manifest_key(identity.trial, manifest.id),
            size=manifest.size,
            borrowed_from=borrowed_from(manifest),
        )
        self.manifests[manifest.id] = manifest
        lenders = () if "lenders" in self.careless else on.lenders
        owners = () if "owners" in self.careless else on.owners
        if "again" in self.careless:
            known_to = {each.id for each in self.records() if identity.trial in each.lent_to}
            owners = frozenset(owners) - known_to
        publish(store, identity, record, lenders, owners)

    def _spread(
        self, store: Store, first: Blobs, slow: Blobs, identity: Identity, manifest: Manifest
    ) -> None:
        for entry in manifest.files:
            if slow.info(entry.key) is None:
                slow.put(entry.key, first.get(entry.key))
        key = manifest_key(identity.trial, manifest.id)
        slow.put(key, first.get(key))
        note_copies(store, identity, manifest.id, [Copy(url=slow.url, at=20_000.0)])

    def remover(self, record: Checkpoint) -> Process:
        def script(process: Process) -> None:
            store, fast = process.through(self.store), process.through(self.fast)
            delete(process.through(self.slow), store, record, tiers=[fast])

        return Process(script)

    def finisher(self, trial: str) -> Process:
        def script(process: Process) -> None:
            tiers = [process.through(self.fast), process.through(self.slow)]
            finish(process.through(self.store), trial, tiers)

        return Process(script)

    def successor(self, trial: str) -> Process:
        """A new attempt, which fences the one before and sweeps."""

        def script(process: Process) -> None:
            store: Store = process.through(self.store)
            mine = update(store, Trial, trial, _taken_over)
            places = [process.through(self.fast), process.through(self.slow)]
            sweep(places[0], store, Fence(trial, mine.token), tiers=places[1:])

        return Process(script)

    def evictor(self, trial: str, leaving: Collection[str]) -> Process:
        fence = Fence(trial, self.store.get(Trial, trial).token)

        def script(process: Process) -> None:
            fast, slow = process.through(self.fast), process.through(self.slow)
            store = process.through(self.store)
            library = Library(Reach([fast, slow]), store)
            found = list(fast.list(trial_folder(trial)))
            evict(fast, library, fence, leaving, found=found, node=NODE)

        return Process(script)

    # --- what must hold ------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """What a tier lacks of the checkpoints that it holds, by their records."""
        lacking = []
        for record in restorable(self.records()):
            manifest = self.manifests[record.id]
            for copy in record.copies:
                tier = self.fast if copy.url == self.fast.url else self.slow
                keys = [entry.key for entry in manifest.files] + [record.manifest]
                lacking += [f"{copy.url}/{key}" for key in keys if key not in tier.kept]
        return lacking

    def needless(self) -> list[str]:
        """What lies in the tiers and no checkpoint needs."""
        needed: set[str] = set()
        for record in restorable(self.records()):
            needed |= {record.manifest, *(file.key for file in self.manifests[record.id].files)}
        return [
            f"{tier.url}/{key}"
            for tier in (self.fast, self.slow)
            for key in tier.kept
            if key not in needed
        ]


def _write(
    blobs: Blobs, identity: Identity, id: str, contents: Sequence[bytes], known: dict[str, Known]
) -> tuple[list[Known], Manifest]:
    entries, used = [], []
    for data in contents:
        digest = hashlib.sha256(data).hexdigest()
        found = known.get(digest)
        if found is not None and blobs.info(found.entry.key) is not None:
            entries.append(found.entry)
            used.append(found)
            continue
        key = f"{folder(identity.trial, id)}/{digest}.safetensors"
        blobs.put(key, data)
        entries.append(FileEntry(key=key, size=len(data), sha256=digest, role="tensors"))
    manifest = Manifest(
        id=id,
        trial=identity.trial,
        experiment=EXPERIMENT,
        attempt=identity.attempt,
        created=10_000.0,
        done=Lengths(batches=int(id.removeprefix("ckpt-"))),
        ranks=1,
        shared=entries[0],
        own=(),
        tensors=tuple(entries[1:]),
    )
    blobs.put(manifest_key(identity.trial, id), manifest.encode())
    return used, manifest


def _taken_over(trial: Trial) -> Trial:
    return trial.model_copy(update={"token": trial.token + 1})
