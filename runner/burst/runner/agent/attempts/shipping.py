"""The logs of one attempt on their way to the blobs."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from burst.core.blobs.port import Blobs
from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError
from burst.core.logs import LogWriter, launcher_of
from burst.runner.agent.attempts.masking import Masker
from burst.runner.agent.ends.tails import LAUNCHER_LOG, rank_logs

log = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
LONGEST_BACKLOG_BYTES = 256 << 20
"""More than this is not kept for blobs that do not answer: the oldest is left out, and said so."""
_KEEP_BYTES = 1 << 20
"""What stays in a local log behind the shipped position, for showing an error's traceback."""
_FREE_EVERY_BYTES = 32 << 20
_POSITIONS = "shipped.json"
_PUNCH_HOLE_KEEP_SIZE = 0x03


class Stream:
    """One file, as far as it was shipped."""

    def __init__(self, path: Path, writer: LogWriter, masker: Masker, position: int = 0) -> None:
        """`position`: bytes of the file that an earlier process knew to be in the blobs."""
        self._path = path
        self._writer = writer
        self._masker = masker
        self._read = position
        self._pending = b""
        self._freed = position
        self.shipped = position
        """Bytes of the file that are in the blobs."""
        self._adopted = False

    def ship(self, *, final: bool = False) -> bool:
        """Ship what the file has by now; False if there may be more at once.

        `final`: nothing will be written to the file any more, so nothing is held back.

        Raises:
            BurstError: the blobs did not take it; call again.
        """
        self._adopt()
        if not self._pending:
            data = self._next()
            self._pending = self._masker.feed(data)
            if final and len(data) < CHUNK_BYTES:
                self._pending += self._masker.finish()
        whole = self._read
        held = self._masker.held
        if self._pending:
            self._writer.ship(self._pending, whole - held)
            self._pending = b""
        self.shipped = whole - held
        self._free()
        unfinished = final and self._masker.held > 0
        return self._read >= _size(self._path) and not unfinished

    def _adopt(self) -> None:
        """Go on behind what is in the blobs: whoever shipped before may have died before it wrote
        down how far it was."""
        if not self._adopted:
            self._read = max(self._read, self._writer.position())
            self._freed = self.shipped = self._read
            self._adopted = True

    def _next(self) -> bytes:
        backlog = _size(self._path) - self._read
        note = b""
        if backlog > LONGEST_BACKLOG_BYTES:
            skipped = backlog - LONGEST_BACKLOG_BYTES // 2
            self._read += skipped
            note = b"\n[burst: %d bytes left out: the blobs did not keep up]\n" % skipped
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read(CHUNK_BYTES)
        except OSError:
            return note
        self._read += len(data)
        return note + data

    def _free(self) -> None:
        """Give the disk blocks of what was shipped back, so that a log never fills the disk."""
        until = self.shipped - _KEEP_BYTES
        if until - self._freed >= _FREE_EVERY_BYTES:
            free_blocks(self._path, until)
            self._freed = until


class Shipper:
    """Ships the launcher's and every rank's log of an attempt, from a thread of its own."""

    def __init__(
        self,
        blobs: Blobs,
        folder: Path,
        trial: str,
        attempt: int,
        secrets: Iterable[str] = (),
        *,
        node_rank: int = 0,
        clock: Clock = SystemClock(),  # noqa: B008 – it has no state
    ) -> None:
        """`node_rank`: the node's place in its gang, each of which has a launcher."""
        self._blobs = blobs
        self._folder = folder
        self._trial = trial
        self._attempt = attempt
        self._secrets = tuple(secrets)
        self._launcher = launcher_of(node_rank)
        self._clock = clock
        self._streams: dict[int, Stream] = {}
        self._positions = _read_positions(folder)
        self._written = dict(self._positions)

    def ship(self, *, final: bool = False) -> bool:
        """Ship all there is; False if the blobs did not take everything."""
        self._find()
        complete = True
        for rank, stream in sorted(self._streams.items()):
            try:
                while not stream.ship(final=final):
                    pass
            except BurstError as error:
                log.warning("shipping the log of rank %d of %s: %s", rank, self._trial, error.what)
                complete = False
        self._remember()
        return complete

    def _find(self) -> None:
        logs = self._folder / "logs"
        paths = {self._launcher: logs / LAUNCHER_LOG, **rank_logs(logs)}
        for rank, path in paths.items():
            if rank not in self._streams and path.exists():
                writer = LogWriter(
                    self._blobs, self._trial, self._attempt, rank, clock=self._clock
                )
                position = self._positions.get(str(rank), 0)
                self._streams[rank] = Stream(path, writer, Masker(self._secrets), position)

    def _remember(self) -> None:
        """For whoever has to ship the rest if this process dies."""
        now = {str(rank): stream.shipped for rank, stream in self._streams.items()}
        if now == self._written:
            return
        partial = self._folder / f"{_POSITIONS}.partial"
        with contextlib.suppress(OSError):
            partial.write_text(json.dumps(now))
            os.replace(partial, self._folder / _POSITIONS)
            self._written = now


class ShippingThread:
    """Calls a shipper every few seconds until it is closed."""

    def __init__(self, shipper: Shipper, every: float) -> None:
        self._shipper = shipper
        self._every = every
        self._closed = threading.Event()
        self._complete = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float) -> bool:
        """Ship the rest; whether it was all shipped within `seconds`. May be called again."""
        self._closed.set()
        return self._complete.wait(seconds)

    def abandon(self) -> None:
        """Try no longer."""
        self._every = 0.0
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            self._shipper.ship()
        while not self._shipper.ship(final=True):
            if not self._every:
                return
            threading.Event().wait(self._every)
        self._complete.set()


def free_blocks(path: Path, size: int) -> None:
    """Give back the disk blocks of the first `size` bytes; they read as zeros (Linux only)."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            offsets = (ctypes.c_int64(0), ctypes.c_int64(size))
            libc.fallocate64(descriptor, _PUNCH_HOLE_KEEP_SIZE, *offsets)
        finally:
            os.close(descriptor)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_positions(folder: Path) -> dict[str, int]:
    try:
        found = json.loads((folder / _POSITIONS).read_bytes())
        return {str(rank): int(position) for rank, position in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}
