"""Copying a checkpoint from one place to another, file by file, so that it may stop anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import FileEntry, Manifest, manifest_key
from burst.core.checkpoints.tiers.reader import Source, aligned
from burst.core.errors import NotFound, StoreError

T = TypeVar("T")

THREADS = 4
_ROUND_BYTES = 256 * 2**20
"""What is made durable at once; an interruption costs at most so much a second time."""


def copy_checkpoint(
    source: Source, manifest: Manifest, target: Blobs, fresh: Callable[[], Blobs]
) -> None:
    """Copy what `target` lacks of a checkpoint; its manifest comes last. Idempotent.

    Every file is verified while it is read, and everything is looked at again through `fresh()`
    before the manifest is written: a mount of another machine's disk may remember what was never
    written through. Interrupted anywhere and called again, it does not send again what is there.

    Args:
        fresh: opens the target anew.

    Raises:
        Damaged, Elsewhere, Unreachable: as `Source.read_into`.
        Unreachable, StoreError: if the target could not be written, or does not show what was.
    """
    _send(source, _lacking(target, manifest.files), target)
    again = fresh()
    if missing := _lacking(again, manifest.files):
        raise StoreError(
            f"{target.url} does not show what was written there",
            why=f"{missing[0].key} is missing or has another size",
            mend="check that storage; the next checkpoint is copied there again",
        )
    key, data = manifest_key(manifest.trial, manifest.id), manifest.encode()
    if _get(target, key) != data:
        target.put(key, data)
        if _get(again, key) != data:
            raise StoreError(
                f"{target.url} does not show what was written there",
                why=f"{key} does not read back as it was written",
                mend="check that storage; the next checkpoint is copied there again",
            )


def _send(source: Source, files: Sequence[FileEntry], target: Blobs) -> None:
    memory = threading.local()

    def send(entry: FileEntry) -> None:
        buffer = getattr(memory, "buffer", None)
        if buffer is None or len(buffer) < entry.size:
            buffer = memory.buffer = memoryview(aligned(entry.size))
        batch.put(entry.key, source.fetch(entry, buffer), entry.sha256)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="burst-tier") as threads:
        for files_at_once in _rounds(files):
            batch = target.batch()
            try:
                every(threads, send, files_at_once)
                batch.finish()
            except BaseException:
                batch.abort()
                raise


def every(threads: ThreadPoolExecutor, act: Callable[[T], None], items: Iterable[T]) -> None:
    """`act` on each item; the first error, once none of them runs any more."""
    jobs = [threads.submit(act, item) for item in items]
    failed: BaseException | None = None
    for job in jobs:
        try:
            if failed is None or not job.cancel():
                job.result()
        except BaseException as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _rounds(files: Sequence[FileEntry]) -> Iterator[list[FileEntry]]:
    now: list[FileEntry] = []
    size = 0
    for entry in files:
        if now and size + entry.size > _ROUND_BYTES:
            yield now
            now, size = [], 0
        now.append(entry)
        size += entry.size
    if now:
        yield now


def _lacking(blobs: Blobs, files: Sequence[FileEntry]) -> list[FileEntry]:
    """Those that are not there with their size. A put is atomic, so what is there is whole."""
    folders = dict.fromkeys(entry.key.rpartition("/")[0] + "/" for entry in files)
    there = {info.key: info.size for folder in folders for info in blobs.list(folder)}
    return [entry for entry in files if there.get(entry.key) != entry.size]


def _get(blobs: Blobs, key: str) -> bytes | None:
    try:
        return blobs.get(key)
    except NotFound:
        return None
