"""Saving a model of which little changes: what has been written is not written again."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.checkpoint_peers import limits
from benchmarks.checkpoint_peers.bench import ROUNDS
from benchmarks.checkpoint_peers.ours import Ours
from benchmarks.checkpoint_peers.state import Training
from benchmarks.result import Result

FROZEN = 1.05


def measure(folder: Path) -> Iterator[Result]:
    """A model of which 5 % are trained: the last layer's feed-forward part."""
    training = Training(trained=lambda name: name.startswith("transformer.h.11.mlp"))
    training.step()
    trial = Ours(training, folder)
    trial.prepare()
    trial.save()
    trial.wait()
    written, times, writes = [], [], []
    changed = sum(
        tensor.nbytes for name, tensor in training.tensors().items() if _is_trained(name)
    )
    raw = limits.RawFile(folder / "raw", changed)
    for _ in range(ROUNDS):
        training.step()
        before, begun = limits.written(), time.perf_counter()
        trial.save()
        trial.wait()
        times.append(time.perf_counter() - begun)
        written.append(limits.written() - before)
        writes.append(raw.write())
    raw.remove()
    trial.close()
    ratio = statistics.median(written) / changed
    yield Result(
        "written for a checkpoint of a model that is 95 % frozen",
        f"{statistics.median(written) / 1e6:.1f} MB",
        f"bytes that changed {changed / 1e6:.1f} MB of {training.bytes / 1e6:.0f} MB",
        ratio,
        f"≤ {FROZEN:.2f}×",
        ratio <= FROZEN,
        note=f"durable in {statistics.median(times):.2f} s, all of the state hashed; raw direct "
        f"write of what changed {statistics.median(writes):.2f} s",
    )


def _is_trained(name: str) -> bool:
    """Whether it is one of the optimizer's states, or of the parameters that it steps."""
    return name[0].isdigit() or name.startswith("transformer.h.11.mlp")
