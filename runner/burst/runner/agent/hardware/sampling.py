"""Hardware samples: what the machine and the allocation's processes use."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from burst.core.clock import Clock
from burst.core.errors import BurstError
from burst.core.model import MetricChunk, MetricRow, Slot, Trial
from burst.core.store.port import AppendMetrics, Fence, Store
from burst.runner.agent.hardware import gpus

log = logging.getLogger(__name__)

_GPU_FIELDS = ("index", "utilization.gpu", "memory.used", "power.draw", "temperature.gpu")
_GPU_NAMES = ("util", "memory", "power", "temperature")
_ROWS_A_CHUNK = 6
_MOST_CHUNKS = 10**7
"""Of one node in one attempt: a year of them."""
_MOST_ROWS_KEPT = 360


@dataclass(frozen=True)
class Counters:
    """Totals since boot, in bytes, to be read as rates."""

    at: float
    disk_read: int
    disk_written: int
    received: int
    sent: int
    process_seconds: float


class Meter:
    """Turns counters into one row of numbers a sample.

    `cpu` and `gpu*_util` are percent, of the machine and of a GPU; `process_cpu` is percent of one
    core; memory is bytes; rates are bytes a second; power is watts; temperature is °C.
    """

    def __init__(self, slots: Iterable[Slot], clock: Clock) -> None:
        self._gpus = {slot.index for slot in slots if slot.device == "cuda"}
        self._clock = clock
        self._root: psutil.Process | None = None
        psutil.cpu_percent()  # its first answer is meaningless
        self._last = self._count(0.0)

    def watch(self, pid: int) -> None:
        """Count the processes below `pid` from now on."""
        with contextlib.suppress(psutil.Error):
            self._root = psutil.Process(pid)

    def sample(self) -> dict[str, float]:
        memory, processes = self._processes()
        now = self._count(processes)
        machine = psutil.virtual_memory()
        row = {
            "cpu": psutil.cpu_percent(),
            "memory": float(machine.total - machine.available),
            "process_memory": float(memory),
            **rates(self._last, now),
            **self._gpu_row(),
        }
        self._last = now
        return row

    def _processes(self) -> tuple[int, float]:
        """Resident bytes and CPU seconds of all processes of the allocation."""
        if self._root is None:
            return 0, 0.0
        memory, seconds = 0, 0.0
        with contextlib.suppress(psutil.Error):
            for process in self._root.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    memory += process.memory_info().rss
                    seconds += times.user + times.system
        return memory, seconds

    def _count(self, process_seconds: float) -> Counters:
        disk, network = psutil.disk_io_counters(), psutil.net_io_counters()
        return Counters(
            at=self._clock.monotonic(),
            disk_read=disk.read_bytes if disk else 0,
            disk_written=disk.write_bytes if disk else 0,
            received=network.bytes_recv if network else 0,
            sent=network.bytes_sent if network else 0,
            process_seconds=process_seconds,
        )

    def _gpu_row(self) -> dict[str, float]:
        if not self._gpus:
            return {}
        try:
            return gpu_row(gpus.query(_GPU_FIELDS), self._gpus)
        except OSError as error:
            log.warning("sampling the GPUs: %s", error)
            return {}


def rates(before: Counters, after: Counters) -> dict[str, float]:
    """What went on between two samples, a second. Never negative: processes come and go."""
    seconds = max(after.at - before.at, 1e-9)
    percent = 100 * max(0.0, after.process_seconds - before.process_seconds) / seconds
    names = ("disk_read", "disk_written", "received", "sent")
    return {
        "process_cpu": percent,
        **{name: max(0, getattr(after, name) - getattr(before, name)) / seconds for name in names},
    }


def gpu_row(rows: Iterable[list[str]], wanted: set[int]) -> dict[str, float]:
    """`gpu<index>_util`, … from nvidia-smi's rows; what a GPU does not tell is left out."""
    found: dict[str, float] = {}
    for index, *cells in rows:
        if int(index) not in wanted:
            continue
        for name, cell in zip(_GPU_NAMES, cells, strict=True):
            with contextlib.suppress(ValueError):
                value = float(cell)
                found[f"gpu{index}_{name}"] = value * 2**20 if name == "memory" else value
    return found


class Recorder:
    """Keeps samples until the store takes them, as chunks of the group `hardware`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        trial: str,
        attempt: int,
        token: int,
        *,
        node_rank: int = 0,
    ) -> None:
        """`node_rank`: the node's place in its gang; what those behind the first one measure is
        called `node1_…`."""
        self._store = store
        self._clock = clock
        self._trial = trial
        self._attempt = attempt
        self._fence = Fence(trial, token)
        self._base: int | None = None
        self._batches = 0
        self._rows: list[MetricRow] = []
        self._prefix = f"node{node_rank}_" if node_rank else ""
        self._first = self._seq = node_rank * _MOST_CHUNKS
        self._sent: MetricChunk | None = None

    def add(self, metrics: dict[str, float]) -> None:
        """Add a sample; the first goes out at once, later ones by the half dozen."""
        named = {self._prefix + name: value for name, value in metrics.items()}
        row = MetricRow(batches=self._now_at(), at=self._clock.now(), metrics=named)
        self._base = row.batches if self._base is None else self._base
        self._rows.append(row)
        del self._rows[:-_MOST_ROWS_KEPT]
        if self._seq == self._first or len(self._rows) >= _ROWS_A_CHUNK:
            self.flush()

    def flush(self) -> None:
        """Write what is kept. Where the store does not take it, it stays kept."""
        while self._sent is not None or self._rows:
            # a chunk whose answer was lost may be there already: only the same may follow
            self._sent = self._sent or self._chunk()
            try:
                self._store.commit(self._fence, AppendMetrics(self._sent))
            except BurstError as error:
                log.warning("writing hardware samples of %s: %s", self._trial, error.what)
                return
            self._sent = None
            self._seq += 1

    def _chunk(self) -> MetricChunk:
        rows, self._rows = tuple(self._rows), []
        return MetricChunk(
            trial=self._trial,
            attempt=self._attempt,
            group="hardware",
            seq=self._seq,
            base=self._base or 0,
            rows=rows,
        )

    def _now_at(self) -> int:
        """How far the trial is, as the store knows it."""
        with contextlib.suppress(BurstError):
            self._batches = self._store.get(Trial, self._trial).done.batches
        return self._batches
