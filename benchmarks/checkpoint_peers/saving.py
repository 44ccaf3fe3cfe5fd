"""Saving while nothing else goes on: stalls, how soon it is durable, and what that uses."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.checkpoint_peers import limits, others
from benchmarks.checkpoint_peers.bench import PEER_ROUNDS, ROUNDS, Bench, cores
from benchmarks.result import Result

STALL_S, STALL_EAGER = 0.005, 1.15
DURABLE = 1.10
CPU_PER_GB = 0.8


@dataclass(frozen=True)
class _Saved:
    blocked: float
    durable: float
    cpu: float = 0.0


Figure = Literal["blocked", "durable", "cpu"]
Rounds = Sequence[Mapping[str, _Saved]]


def measure(bench: Bench) -> Iterator[Result]:
    savers: dict[str, others.Saver] = {peer.name: peer for peer in bench.peers}
    rounds: list[dict[str, _Saved]] = []
    _idle_round(bench, savers)  # whoever needs memory or a process has it then
    for number in range(ROUNDS):
        taking_part = savers if number < PEER_ROUNDS else {}
        rounds.append(_idle_round(bench, taking_part, backwards=number % 2 == 1))
    yield from _stalls(bench, rounds)
    yield _durable(bench, rounds)
    yield _cpu(bench, rounds)
    yield from _beside(bench, rounds)


def _idle_round(
    bench: Bench, peers: Mapping[str, others.Saver], *, backwards: bool = False
) -> dict[str, _Saved]:
    """One save by everyone, while nothing else goes on."""

    def lazy() -> _Saved:
        return _save(bench.ours)

    def eager() -> _Saved:
        begun, used = time.perf_counter(), limits.cpu()
        blocked = bench.ours.save_eagerly()
        bench.ours.wait()
        return _Saved(blocked, time.perf_counter() - begun, limits.cpu() - used)

    def copy() -> _Saved:
        took = bench.copied()
        return _Saved(took, took)

    def raw() -> _Saved:
        used = limits.cpu()
        took = bench.raw.write()
        return _Saved(took, took, limits.cpu() - used)

    acts = {"copy": copy, "eager": eager, "raw": raw, "lazy": lazy}
    names = [*acts, *peers]
    found = {}
    for name in reversed(names) if backwards else names:
        bench.training.change()
        found[name] = acts[name]() if name in acts else _save(peers[name])
        bench.ours.clear()
        if name in peers:
            peers[name].clear()
    return found


def _save(saver: others.Saver) -> _Saved:
    begun, used = time.perf_counter(), limits.cpu()
    blocked = saver.save()
    saver.wait()
    return _Saved(blocked, time.perf_counter() - begun, limits.cpu() - used)


def _stalls(bench: Bench, rounds: Rounds) -> Iterator[Result]:
    copy = _median(rounds, "copy", "blocked")
    against = f"plain copy {copy * 1e3:.0f} ms, {cores()} threads"
    lazy = _median(rounds, "lazy", "blocked")
    yield Result(
        "stall of a save, where the optimizers are known",
        f"{lazy * 1e3:.1f} ms",
        against,
        _ratio(rounds, "lazy", "copy", "blocked"),
        f"≤ {STALL_S * 1e3:.0f} ms",
        lazy <= STALL_S,
        note=f"a GPT-2 with its AdamW, {len(bench.training.tensors())} tensors, "
        f"{bench.gigabytes:.2f} GB; gathering the state is part of it",
    )
    ratio = _ratio(rounds, "eager", "copy", "blocked")
    yield Result(
        "stall of a save, where they are not",
        f"{_median(rounds, 'eager', 'blocked') * 1e3:.0f} ms",
        against,
        ratio,
        f"≤ {STALL_EAGER:.2f}×",
        ratio <= STALL_EAGER,
    )


def _durable(bench: Bench, rounds: Rounds) -> Result:
    ratio = _ratio(rounds, "lazy", "raw", "durable")
    return Result(
        "durable: hashed, fsynced, with manifest and record",
        f"{_median(rounds, 'lazy', 'durable'):.2f} s",
        f"raw direct write + fsync {_median(rounds, 'raw', 'durable'):.2f} s",
        ratio,
        f"≤ {DURABLE:.2f}×",
        ratio <= DURABLE,
        note=f"{bench.gigabytes:.2f} GB into new files, nothing else going on; where the stall "
        f"is a copy: {_median(rounds, 'eager', 'durable'):.2f} s",
    )


def _cpu(bench: Bench, rounds: Rounds) -> Result:
    used = _median(rounds, "lazy", "cpu")
    raw = _median(rounds, "raw", "cpu")
    others_used = [
        f"{peer.name} {_median(rounds, peer.name, 'cpu') / bench.gigabytes:.2f} s"
        for peer in bench.peers
        if not isinstance(peer, others.DcpProcess)  # another process's time
    ]
    return Result(
        "processor per GB, durable and hashed",
        f"{used / bench.gigabytes:.2f} s",
        f"raw direct write {raw / bench.gigabytes:.2f} s",
        used / raw,
        f"≤ {CPU_PER_GB} s",
        used / bench.gigabytes <= CPU_PER_GB,
        note="others, without hashes: " + ", ".join(others_used),
    )


def _beside(bench: Bench, rounds: Rounds) -> Iterator[Result]:
    ours = _median(rounds, "lazy", "durable"), _median(rounds, "lazy", "blocked")
    for peer in bench.peers:
        durable = _median(rounds, peer.name, "durable")
        blocked = _median(rounds, peer.name, "blocked")
        yield Result(
            f"beside {peer.name}",
            f"durable {ours[0]:.2f} s, blocks {ours[1] * 1e3:.0f} ms",
            f"durable {durable:.2f} s, blocks {blocked * 1e3:.0f} ms",
            ours[0] / durable,
            "< 1×",
            ours[0] < durable and ours[1] < blocked,
        )


def _median(rounds: Rounds, name: str, what: Figure) -> float:
    return statistics.median(_of(each[name], what) for each in rounds if name in each)


def _ratio(rounds: Rounds, ours: str, theirs: str, what: Figure) -> float:
    return statistics.median(_of(each[ours], what) / _of(each[theirs], what) for each in rounds)


def _of(saved: _Saved, what: Figure) -> float:
    return {"blocked": saved.blocked, "durable": saved.durable, "cpu": saved.cpu}[what]
