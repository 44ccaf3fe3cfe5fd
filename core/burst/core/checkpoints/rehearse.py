"""A restore without training, as far as that goes without torch: every place that holds a
checkpoint is read whole, each file is compared with its hash, and the parts have to fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.ahead import read_ahead
from burst.core.checkpoints.format.manifest import Damaged, FileEntry, Manifest
from burst.core.checkpoints.format.state_file import StateFile
from burst.core.checkpoints.format.structure import faults
from burst.core.checkpoints.format.tensorfile import Entry, read_header
from burst.core.checkpoints.reading import places_near
from burst.core.checkpoints.removal.damage import mark_damaged, mark_harmed
from burst.core.checkpoints.verify import Problem, Progress, Report, fetch, in_words, read
from burst.core.errors import Unreachable
from burst.core.model import Checkpoint, Event
from burst.core.store import update
from burst.core.store.port import Append, Put, Store, Write


def rehearse(
    blobs: Blobs, record: Checkpoint, progress: Progress | None = None, *, node: str = ""
) -> Report:
    """Read all that can be reached of a checkpoint and check that it could be restored. Changes
    nothing, and does not stop at the first problem.

    Four files at a time are in memory. What is wrong in one place and intact in another is a
    problem, but not `lost`: a restore takes it from there.

    Args:
        blobs: opened already; others are opened by their URL.
        progress: called with the bytes read so far, and with all there are.
        node: the node that this process runs on, whose own disk may have a copy.

    Raises:
        Unreachable: if no place answered; that says nothing about the checkpoint.
        Elsewhere: if it lies on the disks of other nodes alone.
        BurstError: if a newer burst wrote it.
    """
    urls = places_near(record, node)
    looks: list[_Look] = []
    silent: list[Unreachable] = []
    for number, url in enumerate(urls):
        part = partial(_show_part, progress, number, len(urls)) if progress else None
        try:
            place = blobs if url == blobs.url else open_blobs(url)
            looks.append(_look(place, record, part))
        except Unreachable as error:
            silent.append(error)
    if not looks:
        raise silent[0]
    everywhere = set.intersection(*(look.keys for look in looks))
    elsewhere = bool(silent) or len(urls) < len(record.copies)
    named = len(urls) > 1
    problems = [replace(p, place=look.url if named else "") for look in looks for p in look.found]
    problems += [Problem(record.manifest, f"not looked at: {e.what}", e.what) for e in silent]
    return Report(
        record.id,
        max(look.files for look in looks),
        sum(look.size for look in looks),
        tuple(problems),
        lost=bool(everywhere) and not elsewhere,
    )


def mark_lost(
    blobs: Blobs, store: Store, record: Checkpoint, report: Report, now: float
) -> list[Checkpoint]:
    """Let no restore try what a rehearsal has found lost: this checkpoint, and all others that
    need one of its damaged files. Returns the records that were marked. Idempotent.

    Each file is read once more, so that the reader's own fault marks nothing.

    Raises:
        Unreachable: if store or blobs did not answer.
    """
    if report.good or not report.lost or record.deleted is not None:
        return []
    marked = []
    for problem in report.problems:
        if problem.entry is not None:
            marked += mark_harmed(blobs, store, problem.entry, now)
        elif _look(blobs if record.url == blobs.url else open_blobs(record.url), record).found:
            text = f"{problem.key}: {problem.text}"
            marked += [record] if mark_damaged(store, record.id, text, now) else []
    return list({found.id: found for found in marked}.values())


def clear_mark(store: Store, record: Checkpoint, now: float) -> bool:
    """Let restores try a checkpoint again that was marked damaged and was found intact; whether it
    was marked. Idempotent."""

    def change(found: Checkpoint) -> Sequence[Write]:
        if not found.damaged or found.deleted is not None:
            return ()
        event = Event(
            subject=found.id,
            experiment=found.experiment,
            name="checkpoint.intact",
            text=f"checkpoint at batch {found.batches} is as it was written, and used again",
            at=now,
            data={"trial": found.trial, "batches": found.batches},
        )
        return (Put(found.model_copy(update={"damaged": ""})), Append(event))

    before = store.get(Checkpoint, record.id)
    return update(store, Checkpoint, record.id, change).damaged != before.damaged


@dataclass
class _Look:
    """What was found in one place."""

    url: str
    files: int = 1
    size: int = 0
    found: list[Problem] = field(default_factory=list)

    @property
    def keys(self) -> set[str]:
        return {problem.key for problem in self.found}

    def wrong(self, key: str, text: str, entry: FileEntry | None = None) -> None:
        self.found.append(Problem(key, text, entry=entry))


def _look(place: Blobs, record: Checkpoint, progress: Progress | None = None) -> _Look:
    look = _Look(place.url)
    try:
        manifest = read(place, record)
    except Damaged as error:
        look.wrong(record.manifest, in_words(error))
        return look
    look.files += len(manifest.files)
    headers: dict[str, dict[str, Entry]] = {}
    states: dict[str, StateFile] = {}
    for entry, job in read_ahead(partial(fetch, place), manifest.files):
        try:
            data = job.result()
            if entry.role == "tensors":
                headers[entry.sha256] = read_header(data)
            else:
                states[entry.key] = StateFile.decode(bytes(data))
        except Damaged as error:
            look.wrong(entry.key, in_words(error), entry)
        except (ValueError, KeyError) as error:
            look.wrong(entry.key, f"{entry.key} is no safetensors file: {error}")
        look.size += entry.size
        if progress:
            progress(look.size, manifest.size)
    if not look.found:
        _check_structure(look, manifest, headers, states)
    return look


def _check_structure(
    look: _Look,
    manifest: Manifest,
    headers: dict[str, dict[str, Entry]],
    states: dict[str, StateFile],
) -> None:
    for file in manifest.tensors:
        if any(entry.stop > file.size for entry in headers[file.sha256].values()):
            look.wrong(file.key, f"{file.key} ends before its tensors do")
    for half in _halves(manifest):
        for fault in faults(states[half.key], headers):
            look.wrong(half.key, f"{half.key} cannot be restored: {fault}")


def _halves(manifest: Manifest) -> Sequence[FileEntry]:
    return list({entry.key: entry for entry in (manifest.shared, *manifest.own)}.values())


def _show_part(progress: Progress, number: int, parts: int, done: int, total: int) -> None:
    """Progress over several places of about the same size."""
    progress(number * total + done, parts * total)
