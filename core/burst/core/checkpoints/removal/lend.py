"""Using files of other checkpoints again, wherever in the store they lie.

A manifest names files by whole keys, so a checkpoint may name a file in the folder of another, its
*owner*. It learns of the file from a checkpoint that names it too, its *lender*, and counts only
if no lender is deleted or damaged by then (`burst.harness.checkpoints.publish`). Owner and lender
are often the same; where not, the owner may be deleted already, and the file has stayed because of
the lender. Which trials have files worth looking at is kept in records of kind `Family`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import FileEntry, Manifest, owner_of
from burst.core.checkpoints.removal.collect import Reach
from burst.core.checkpoints.removal.delete import restorable
from burst.core.errors import Conflict
from burst.core.model import Checkpoint, Family
from burst.core.store.port import Fence, Put, Store

SIBLINGS = 8
"""How many trials a family remembers: the last ones that joined it."""
MOST_OWNERS = 40
"""Checkpoints of other trials that one checkpoint takes files from, so that its commit, which
writes each of their records, stays within `MAX_WRITES`."""
WORTH_BYTES = 64 * 1024
"""A smaller file of another trial is not worth a condition on its record."""
_LENDERS = 16
_LENDERS_A_TRIAL = 4


@dataclass(frozen=True)
class Known:
    """A file that is there, and whose word that is."""

    entry: FileEntry
    lender: str
    """The checkpoint whose manifest names it."""
    trial: str
    """The lender's."""


@dataclass(frozen=True)
class Terms:
    """What a commit has to rest on because of the files that it uses again."""

    lenders: frozenset[str] = frozenset()
    """Checkpoints that must be there still."""
    owners: frozenset[str] = frozenset()
    """Checkpoints that must know of the trial, because their files were found through others."""


def terms(used: Iterable[Known], trial: str) -> Terms:
    """The terms on which a checkpoint of `trial` may name the files in `used`."""
    lenders, owners = set(), set()
    for known in used:
        lenders.add(known.lender)
        if known.trial != trial:
            owners.add(owner_of(known.entry.key)[1])
    return Terms(frozenset(lenders), frozenset(owners))


def borrowed_from(manifest: Manifest) -> tuple[str, ...]:
    """The other trials in whose folders files lie that a manifest names."""
    return tuple(sorted({owner_of(entry.key)[0] for entry in manifest.files} - {manifest.trial}))


def family_of(tensors: Iterable[tuple[str, str, Sequence[int]]]) -> str:
    """The id of the family of models with these tensors: names, dtypes and shapes, in order."""
    table = [[name, dtype, list(shape)] for name, dtype, shape in tensors]
    return "family-" + hashlib.sha256(json.dumps(table).encode()).hexdigest()[:32]


def known_files(
    blobs: Blobs,
    store: Store,
    trial: str,
    *,
    source: str = "",
    families: Sequence[str] = (),
    node: str = "",
    worth: int = WORTH_BYTES,
) -> dict[str, Known]:
    """The files that a save of `trial` need not write again, by SHA-256.

    Those of its own newest checkpoint come first, wherever it lies, then those of `source`, then
    those of the newest checkpoints of the trials in `families`; of other trials only those that
    `blobs` hold whole. Whether a file of its own is in `blobs`, too, is for the save to see.
    Reads one record a family and, of the trials in them, a few records and manifests at the most.
    Only what it finds is promised, and only until a lender is deleted: `still_lent` asks again.

    Args:
        source: the checkpoint that the trial was started from, if any.
        families: ids that `family_of` gave or that trials otherwise have in common, like their
            experiment's.
        node: the node on whose own disk `blobs` lie, if they do.
        worth: bytes from which on a file of another trial is used.

    Raises:
        Unreachable: if store or blobs do not answer.
    """
    found: dict[str, Known] = {}
    owners: set[str] = set()
    reach = Reach([blobs])
    for record in _lenders(store, trial, source, families):
        own = record.trial == trial
        if not own and not held_at(record, blobs.url, node):
            continue
        manifest = reach.manifest(record)
        for entry in manifest.files if manifest else ():  # whoever restores from it will say so
            owner = owner_of(entry.key)[1]
            if entry.sha256 in found or (not own and entry.size < worth):
                continue
            if not own and owner not in owners and len(owners) == MOST_OWNERS:
                continue
            owners |= set() if own else {owner}
            found[entry.sha256] = Known(entry, record.id, record.trial)
    return found


def still_lent(store: Store, known: Mapping[str, Known]) -> dict[str, Known]:
    """What of `known` may be used still: of lenders that are neither deleted nor damaged."""
    records = {id: store.find(Checkpoint, id) for id in {each.lender for each in known.values()}}
    good = {id for id, record in records.items() if record is not None and restorable([record])}
    return {digest: each for digest, each in known.items() if each.lender in good}


def held_at(record: Checkpoint, url: str, node: str = "") -> bool:
    """Whether the tier at `url`, on `node`'s own disk if one is named, holds a checkpoint."""
    if not record.copies:
        return record.url == url
    return any(copy.url == url and copy.node in ("", node) for copy in record.copies)


def join(store: Store, fence: Fence, families: Sequence[str]) -> None:
    """Let later trials look for files in this one. Idempotent, and a courtesy: where others write
    the same record at the same moment, it may come to nothing.

    Raises:
        Fenced: if a newer allocation owns the trial.
        Unreachable: if the store does not answer.
    """
    for id in families:
        family = store.find(Family, id) or Family(id=id)
        if fence.trial in family.trials:
            continue
        trials = (*family.trials, fence.trial)[-SIBLINGS:]
        try:
            store.commit(fence, Put(family.model_copy(update={"trials": trials})))
        except Conflict:
            continue


def _lenders(
    store: Store, trial: str, source: str, families: Sequence[str]
) -> Iterator[Checkpoint]:
    """The checkpoints to look into, the most promising first."""
    yield from restorable(_newest(store, trial))[:1]
    seen: set[str] = set()
    given = store.find(Checkpoint, source) if source else None
    for record in restorable([given] if given else []):
        seen.add(record.id)
        yield record
    for sibling in _siblings(store, trial, families):
        for record in restorable(_newest(store, sibling))[:_LENDERS_A_TRIAL]:
            if len(seen) < _LENDERS and record.id not in seen:
                seen.add(record.id)
                yield record


def _siblings(store: Store, trial: str, families: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for id in families:
        family = store.find(Family, id)
        for sibling in reversed(family.trials if family else ()):
            found.setdefault(sibling)
    found.pop(trial, None)
    return list(found)[:SIBLINGS]


def _newest(store: Store, trial: str) -> list[Checkpoint]:
    return store.children(Checkpoint, trial, newest_first=True, limit=2 * _LENDERS)
