"""Restoring, verified and cold: into tensors that are there, and in a process that begins."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.checkpoint_peers import limits
from benchmarks.checkpoint_peers.bench import PEER_ROUNDS, ROUNDS, Bench
from benchmarks.result import Result

RESTORED = 1.10
EXTRA_BYTES = 128e6


def measure(bench: Bench) -> Iterator[Result]:
    bench.training.change()
    bench.ours.save()
    bench.ours.wait()
    bench.ours.clear(keep=1)
    bench.raw.write()
    live = bench.ours.live()
    ratios, times, reads, extras = [], [], [], []
    for number in range(ROUNDS + 1):
        raw = bench.raw.read() if number % 2 else 0.0
        limits.forget(bench.ours.folder)
        peak, begun = limits.Peak(), time.perf_counter()
        bench.ours.restore(live)
        took = time.perf_counter() - begun
        extra, raw = peak.extra(), raw or bench.raw.read()
        if number:
            ratios.append(took / raw)
            times.append(took)
            reads.append(raw)
            extras.append(extra)
    ratio = statistics.median(ratios)
    yield Result(
        "restore into live tensors, verified, cold",
        f"{statistics.median(times):.2f} s",
        f"raw direct read {statistics.median(reads):.2f} s",
        ratio,
        f"≤ {RESTORED:.2f}×",
        ratio <= RESTORED,
    )
    extra_bytes = statistics.median(extras)
    yield Result(
        "extra memory of restoring",
        f"{extra_bytes / 1e6:.0f} MB",
        f"the state, {bench.gigabytes * 1e3:.0f} MB",
        extra_bytes / bench.training.bytes,
        f"≤ {EXTRA_BYTES / 1e6:.0f} MB",
        extra_bytes <= EXTRA_BYTES,
    )
    bench.ours.close()
    yield _fresh(bench.ours.folder, bench.raw)


def _fresh(folder: Path, raw: limits.RawFile) -> Result:
    command = [sys.executable, "-m", "benchmarks.checkpoint_peers.fresh", str(folder)]
    found, reads = [], []
    for _ in range(PEER_ROUNDS):
        limits.forget(folder)
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        reads.append(raw.read())
    took = statistics.median(each["seconds"] for each in found)
    extra = statistics.median(each["extra"] for each in found)
    return Result(
        "restore in a fresh process, verified, cold",
        f"{took:.2f} s",
        f"raw direct read {statistics.median(reads):.2f} s",
        took / statistics.median(reads),
        "",
        None,
        note="as a trial resumes: its optimizer's state is not there yet, so that memory is new "
        f"and the system gives it page by page; {extra / 1e6:.0f} MB beyond it",
    )
