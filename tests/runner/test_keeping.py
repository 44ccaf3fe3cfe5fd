"""What the plan keeps without work is told so, since its agent would leave by itself."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from burst.core.model import Node
from burst.core.store.port import Put
from burst.runner.plan.plan import plan
from burst.runner.plan.snapshot import Plan, PlanNode, PlanPool, Snapshot, Want
from burst.runner.reconcile.context import View
from burst.runner.reconcile.planning import KEEP_EVERY_S, Acting
from tests.runner.house import House, forever

NOW = 10_000.0
GANG = Want("exp-1.t0", "exp-1", 2, ("spot",), 42, NOW)


def snapshot(coming: int, idle_since: float = NOW) -> Snapshot:
    node = PlanNode("node-1", "spot", (0,), idle_since, "a")
    pool = PlanPool(
        "spot",
        1,
        4,
        True,
        60.0,
        1 + coming,
        coming,
        (1,) * coming,
        coming_cells=("a",) * coming,
    )
    return Snapshot(NOW, (GANG,), (), (node,), (pool,))


def test_what_is_left_of_a_gang_is_kept_while_the_rest_is_asked_for_and_comes() -> None:
    assert plan(snapshot(0)).keeps == ("node-1",)
    assert plan(snapshot(1)).keeps == ("node-1",)
    assert plan(snapshot(1, NOW - 600.0)).keeps == ("node-1",)
    assert plan(snapshot(1, NOW - 600.0)).drains == ()


def test_a_node_that_nobody_waits_for_is_not_kept() -> None:
    alone = Snapshot(NOW, (), (), snapshot(0).nodes, snapshot(0).pools)
    assert plan(alone).keeps == ()


def test_the_agent_is_told_before_it_would_leave_and_again_while_it_lasts(tmp_path: Path) -> None:
    house = House(tmp_path, nodes=2, idle=60.0, script=forever)
    house.submit(resources={"slots_per_trial": 1})
    house.run(5)
    (busy,) = house.store.live(Node)
    house.pool.refusal = "no more"
    spare = busy.model_copy(
        update={"id": "node-2nm00000001", "version": 0, "idle_since": house.clock.now()}
    )
    house.pool.make(spare.id, "")
    house.store.commit(Put(spare))
    marks = []
    context = house.runner._context
    for _ in range(70):
        view = View.read(house.store, context.pools)
        Acting(context, view).carry_out(Plan(keeps=(spare.id,)))
        marks.append(house.store.get(Node, spare.id).wanted_at)
        house.clock.advance(1.0)
    told = sorted({mark for mark in marks if mark is not None})
    assert marks[:49] == [None] * 49, "long before it would leave nothing is written"
    gaps = [after - before for before, after in pairwise(told)]
    assert gaps == [KEEP_EVERY_S] * len(gaps)
    assert len(told) >= 4
