"""Checkpoints of a 1.3 GB state, beside what the machine gives and what others take.

Everything is compared within one round, in turns, after all memory was touched once; figures are
medians over the rounds, and ratios the medians of the rounds' own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.checkpoint_peers import frozen, limits, lost, others, restoring, saving
from benchmarks.checkpoint_peers.bench import Bench, cores
from benchmarks.checkpoint_peers.ours import Ours
from benchmarks.checkpoint_peers.state import Training
from benchmarks.result import Result

MEMORY = 1.10


def measure() -> list[Result]:
    threads = torch.get_num_threads()
    torch.set_num_threads(cores())
    try:
        with tempfile.TemporaryDirectory() as folder, others.gang_of_one():
            return [*_whole(Path(folder)), *frozen.measure(Path(folder) / "frozen")]
    finally:
        torch.set_num_threads(threads)


def _whole(folder: Path) -> Iterator[Result]:
    training = Training()
    for _ in range(3):
        training.step()
    ours, memory = _memory(training, folder / "ours")
    tensors = training.tensors()
    bench = Bench(
        training,
        ours,
        limits.RawFile(folder / "raw", training.bytes),
        limits.Copy(list(tensors.values())),
        [peer(tensors, folder / "peer") for peer in others.ALL],
    )
    yield from saving.measure(bench)
    yield memory
    yield from lost.measure(bench)
    for peer in bench.peers:
        peer.close()
    yield from restoring.measure(bench)
    bench.raw.remove()


def _memory(training: Training, folder: Path) -> tuple[Ours, Result]:
    """Of getting ready and of two saves that are on their way at once, with what opens them."""
    peak = limits.Peak()
    training.step()
    step = peak.extra()
    without = peak.most()
    peak = limits.Peak()
    ours = Ours(training, folder)
    ours.prepare()
    for _ in range(2):
        ours.save()
        training.step()
    ours.wait()
    extra = peak.most() - without
    ours.clear()
    ratio = extra / training.bytes
    return ours, Result(
        "peak extra memory of saving",
        f"{extra / 1e9:.2f} GB",
        f"the state, {training.bytes / 1e9:.2f} GB",
        ratio,
        f"≤ {MEMORY:.2f}×",
        ratio <= MEMORY,
        note="two saves on their way at once, from before the first on; what a step of training "
        f"takes for itself, {step / 1e9:.2f} GB, is in both",
    )
