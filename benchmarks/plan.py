"""One plan for ten thousand trials that wait and a thousand nodes, of which two thirds are empty.

Four mixtures, as what costs most differs: trials of one node or less, gangs over several nodes,
both, and both over two pools of which the second has just opened. Processor time, so that a busy
machine does not count; the best of several, after one to warm up.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from benchmarks.result import Result
from burst.core.model import Share
from burst.runner.plan import Snapshot, plan
from burst.runner.plan.snapshot import PlanNode, PlanPool, Run, Want

WANTS = 10_000
NODES = 1_000
SLOTS = 8
TARGET_S = 0.25
ROUNDS = 5
NOW = 10_000.0
SINGLES = (1, 1, 2, 4, 8)
GANGS = (16, 32, 64)


def snapshot(slots: Sequence[int], pools: Sequence[str], *, wants: int = WANTS) -> Snapshot:
    """`wants` trials of `slots` each, drawn, in a fleet a third of which is taken in part."""
    drawn = random.Random(0)
    nodes = [
        PlanNode(
            f"n{n:04d}", pools[n % len(pools)], tuple(range(SLOTS)), None, cell=f"c{n // 2 % 4}"
        )
        for n in range(NODES)
    ]
    taken = [
        Run(
            f"r{n:04d}",
            f"x{n:04d}",
            "other",
            nodes[n].pool,
            90,
            (Share(node=nodes[n].id, slots=tuple(range(drawn.randrange(1, SLOTS + 1)))),),
            0.0,
        )
        for n in range(0, NODES, 3)
    ]
    waiting = [
        Want(
            f"t{n:05d}",
            f"e{n % 7}",
            drawn.choice(slots),
            tuple(pools),
            n % 5 + 1,
            NOW - drawn.random() * 1_000.0,
        )
        for n in range(wants)
    ]
    fleets = [
        PlanPool(name, SLOTS, 4_000, True, 300.0, NODES // len(pools), quiet=1.0) for name in pools
    ]
    return Snapshot(
        NOW, tuple(waiting), tuple(taken), tuple(nodes), tuple(fleets), preemption=True
    )


def seconds(taken: Snapshot) -> float:
    """Processor seconds of one plan, at best."""
    plan(taken)
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        plan(taken)
        found.append(time.process_time() - began)
    return min(found)


def measure() -> list[Result]:
    """A row for each mixture, and what a plan of a tenth of the trials takes beside it."""
    cases = {
        "trials of one node or less": (SINGLES, ("a",)),
        "gangs of 2 to 8 nodes": (GANGS, ("a",)),
        "both": ((*SINGLES, 16), ("a",)),
        "both, in two pools": ((*SINGLES, 16), ("a", "b")),
    }
    rows = []
    for what, (slots, pools) in cases.items():
        took = seconds(snapshot(slots, pools))
        tenth = seconds(snapshot(slots, pools, wants=WANTS // 10))
        rows.append(
            Result(
                what=f"one plan: {WANTS:,} waiting, {NODES:,} nodes, {what}",
                ours=f"{took * 1e3:.0f} ms",
                against=f"a tenth of the trials {tenth * 1e3:.0f} ms",
                ratio=took / tenth,
                target=f"< {TARGET_S:g} s",
                met=took < TARGET_S,
            )
        )
    return rows
