"""Training time that a checkpoint costs, from the save until it is durable.

Steps are timed without a break: what they took from the moment of the save, with the save itself,
beyond as many undisturbed steps. A control, which saves nothing, shows what the machine's noise
alone amounts to.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from benchmarks.checkpoint_peers.bench import PEER_ROUNDS, Bench, cores
from benchmarks.checkpoint_peers.others import Dcp, Saver
from benchmarks.checkpoint_peers.state import Training
from benchmarks.result import Result

LOST_FREE, LOST_FULL = 1.5, 0.65
LOST_ROUNDS = 4
CONTROL = "control"
_CONTROL_STEPS = 3


def measure(bench: Bench) -> Iterator[Result]:
    free, copy = _lost(bench, max(1, cores() - 1))
    ours = free["burst"].lost
    yield Result(
        "training time lost until durable, a core free",
        f"{ours * 1e3:.0f} ms",
        f"plain copy {copy * 1e3:.0f} ms",
        ours / copy,
        f"≤ {LOST_FREE}×",
        _verdict(free, LOST_FREE * copy),
        note=_losses(free),
    )
    full, copy = _lost(bench, cores())
    ours = full["burst"].lost
    yield Result(
        "training time lost until durable, cores full",
        f"{ours / bench.gigabytes:.2f} s/GB",
        f"plain copy {copy / bench.gigabytes:.2f} s/GB",
        ours / copy,
        f"≤ {LOST_FULL} s/GB",
        _verdict(full, LOST_FULL * bench.gigabytes),
        note=_losses(full),
    )


def _lost(bench: Bench, threads: int) -> tuple[dict[str, Cost], float]:
    """What each saver costs training with so many threads, and how long a plain copy takes."""
    torch.set_num_threads(threads)
    nothing = Nothing()
    behind = [peer for peer in bench.peers if not isinstance(peer, Dcp)]
    rounds, copies = [], []
    for _ in range(2):
        bench.training.step()
    for number in range(LOST_ROUNDS):
        savers = [nothing, bench.ours, *(behind if number < PEER_ROUNDS else ())]
        rounds.append(in_turns(bench.training, savers[:: 1 - 2 * (number % 2)]))
        copies.append(bench.copied())
    torch.set_num_threads(cores())
    return medians(rounds), statistics.median(copies)


def _verdict(costs: Mapping[str, Cost], limit: float) -> bool | None:
    """Whether we stay within so many seconds; None where the noise alone does not."""
    if abs(costs[CONTROL].lost) > limit:
        return None
    return costs["burst"].lost <= limit


def _losses(costs: Mapping[str, Cost]) -> str:
    told = [
        f"{name} {cost.lost * 1e3:.0f} ms (blocks {cost.blocked * 1e3:.0f})"
        for name, cost in costs.items()
        if name != CONTROL
    ]
    return f"{', '.join(told)}; without a save, {costs[CONTROL].lost * 1e3:.0f} ms"


@dataclass(frozen=True)
class Cost:
    """Of one checkpoint, in seconds."""

    blocked: float
    """Until the save returned."""
    lost: float
    """Of training, the former included."""


class Nothing:
    """Saves nothing, for as long as others take."""

    name = CONTROL

    def __init__(self) -> None:
        self._left = 0

    def save(self) -> float:
        self._left = _CONTROL_STEPS
        return 0.0

    def busy(self) -> bool:
        self._left -= 1
        return self._left > 0

    def wait(self) -> None:
        return None

    def clear(self) -> None:
        return None

    def close(self) -> None:
        return None


def in_turns(training: Training, savers: Sequence[Saver]) -> dict[str, Cost]:
    """One checkpoint of each, in the order given. The undisturbed step is the median of those
    right before and right after each."""
    undisturbed: list[float] = []
    found: dict[str, tuple[float, float, int]] = {}
    for saver in savers:
        undisturbed.append(training.step())
        begun, steps = time.perf_counter(), 0
        blocked = saver.save()
        while steps == 0 or saver.busy():
            training.step()
            steps += 1
        took = time.perf_counter() - begun
        undisturbed.append(training.step())
        found[saver.name] = blocked, took, steps
        saver.wait()
        saver.clear()
    step = statistics.median(undisturbed)
    return {
        name: Cost(blocked, took - steps * step) for name, (blocked, took, steps) in found.items()
    }


def medians(rounds: Sequence[Mapping[str, Cost]]) -> dict[str, Cost]:
    """By name, over the rounds that it took part in."""
    names = dict.fromkeys(name for each in rounds for name in each)
    return {
        name: Cost(
            statistics.median(each[name].blocked for each in rounds if name in each),
            statistics.median(each[name].lost for each in rounds if name in each),
        )
        for name in names
    }
