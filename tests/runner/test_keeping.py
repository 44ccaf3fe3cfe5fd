"""What the plan keeps without work is told so, since its agent would leave by itself."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from burst.core.clock import ManualClock
from burst.core.model import Node
from burst.runner.loop import Runner
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


def told_by(house: House, runner: Runner, node: str) -> float | None:
    """The word in the node's record after a pass in which the plan keeps it."""
    context = runner._context
    Acting(context, View.read(house.store, context.pools)).carry_out(Plan(keeps=(node,)))
    return house.store.get(Node, node).wanted_at


def test_the_agent_is_told_at_once_and_again_while_it_lasts(tmp_path: Path) -> None:
    house = House(tmp_path, script=forever)
    house.submit()
    house.run(5)
    (node,) = house.store.live(Node)
    marks = []
    for _ in range(31):
        marks.append(told_by(house, house.runner, node.id) or 0.0)
        house.clock.advance(1.0)
    gaps = [after - before for before, after in pairwise(sorted(set(marks)))]
    assert marks[0] > 0.0
    assert len(gaps) >= 4
    assert all(KEEP_EVERY_S <= gap <= KEEP_EVERY_S + 1.0 for gap in gaps)


def test_runners_whose_clocks_differ_do_not_tell_it_in_turns(tmp_path: Path) -> None:
    house = House(tmp_path, script=forever)
    house.submit()
    house.run(5)
    (node,) = house.store.live(Node)
    other = house.new_runner()
    other._context.clock = ManualClock(house.clock.now() + 300.0)
    first = told_by(house, house.runner, node.id)
    assert [told_by(house, other, node.id), told_by(house, house.runner, node.id)] == [first] * 2
