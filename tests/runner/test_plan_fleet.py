"""The plan, carried out over and over on a fleet: it follows the queue, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burst.runner.plan import Plan, Snapshot, plan
from burst.runner.plan.demand import gang_nodes
from burst.runner.plan.snapshot import PlanPool, Want
from tests.runner.fleet import Fleet, nodes_needed, shares_of

A = PlanPool("a", 4, 8, launches=True, idle=20.0)
B = PlanPool("b", 8, 6, launches=True, idle=10.0)


def fleets(rng: random.Random) -> Fleet:
    most, least = rng.choice([(4, 0), (8, 0), (8, 2)])
    one = PlanPool(
        "a", 4, most, True, idle=rng.choice([3.0, 20.0]), min_nodes=least,
        quiet=rng.choice([0.0, 1.0]),
    )  # fmt: skip
    two = PlanPool("b", 8, 6, True, idle=10.0, quiet=rng.choice([0.0, 1.0]))
    fleet = Fleet((one, two)[: rng.choice([1, 2])], rng, boots=rng.choice([2.0, 5.0, 30.0]))
    if len(fleet.pools) == 2 and rng.random() < 0.2:
        fleet.refuses = frozenset({"a"})
        fleet.pools = (replace(one, min_nodes=0), two)
    return fleet


def arrive(fleet: Fleet, rng: random.Random) -> None:
    names = [pool.name for pool in fleet.pools]
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        slots = rng.choice([0, 1, 1, 2, 3, 4, 8, 16])
        pools = tuple(rng.sample(names, rng.randint(1, len(names))))
        if fleet.refuses or slots == 3:
            pools = tuple(names)
        fleet.arrive(
            slots, rng.choice([1.0, 4.0, 15.0]), pools=pools, priority=rng.randint(1, 3),
            burst_after=rng.choice([0.0, 5.0, 20.0]),
        )  # fmt: skip


def unmet(snapshot: Snapshot, made: Plan, pool: str) -> list[Want]:
    started = {start.trial for start in made.starts}
    return [w for w in snapshot.wants if w.trial not in started and pool in w.pools]


def check(snapshot: Snapshot, made: Plan) -> None:
    for pool in snapshot.pools:
        waiting = unmet(snapshot, made, pool.name)
        _check_launches(snapshot, made, pool, waiting)
        ready = [node for node in snapshot.nodes if node.pool == pool.name]
        drained = [node for node in ready if node.id in made.drains]
        assert not drained or len(ready) - len(drained) >= pool.min_nodes
        # For a gang, nodes of several cells may leave so that those of one can come.
        gangs = [w.order for w in waiting if gang_nodes(w, pool.slots_per_node)]
        first = [
            w for w in waiting if w.pools[0] == pool.name and w.order <= min([w.order, *gangs])
        ]
        for node in drained:
            fits = [w.trial for w in first if w.slots <= len(node.slots)]
            assert fits == [], f"{node.id} leaves while {fits} wait"
    cells = {node.id: node.cell for node in snapshot.nodes}
    for start in made.starts:
        assert len({cells[share.node] for share in start.shares}) == 1


def _check_launches(snapshot: Snapshot, made: Plan, pool: PlanPool, waiting: list[Want]) -> None:
    """No more is in flight than the queue can use, gangs and others each for themselves."""
    mine = [each for each in made.launches if each.pool == pool.name]
    assert pool.nodes + sum(each.count for each in mine) <= max(pool.max_nodes, pool.nodes)
    gangs = [nodes for w in waiting if (nodes := gang_nodes(w, pool.slots_per_node))]
    whole = [each.count for each in mine if each.whole]
    assert len(whole) <= len(gangs)
    assert sum(whole) <= sum(gangs)
    single = sum(each.count for each in mine if not each.whole)
    singles = [w for w in waiting if w.slots <= pool.slots_per_node]
    ready = sum(node.pool == pool.name for node in snapshot.nodes)
    floor = max(0, pool.min_nodes - ready - pool.coming)
    if single > floor:
        coming = pool.coming - sum(pool.coming_whole)
        assert coming + single <= max(floor, nodes_needed(singles, pool.slots_per_node))


def run(fleet: Fleet, rng: random.Random, seconds: int, losses: float = 0.0) -> None:
    for _ in range(seconds):
        arrive(fleet, rng)
        if losses and fleet.machines and rng.random() < losses:
            fleet.lose(rng.choice(sorted(fleet.machines)))
        turn(fleet)


def turn(fleet: Fleet) -> Plan:
    carried: list[Snapshot] = []
    original = fleet.snapshot

    def snapshot() -> Snapshot:
        carried.append(original())
        return carried[-1]

    fleet.snapshot = snapshot  # type: ignore[method-assign]
    try:
        made = fleet.turn()
    finally:
        fleet.snapshot = original  # type: ignore[method-assign]
    check(carried[-1], made)
    return made


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_the_fleet_follows_the_queue_and_returns_to_its_least(seed: int) -> None:
    rng = random.Random(seed)
    fleet = fleets(rng)
    run(fleet, rng, 60, losses=rng.choice([0.0, 0.05]))
    for _ in range(2500):
        turn(fleet)
        if not fleet.work and all(
            sum(m.pool == pool.name for m in fleet.machines.values()) == pool.min_nodes
            for pool in fleet.pools
        ):
            return
    raise AssertionError(f"{len(fleet.work)} wait, {len(fleet.machines)} nodes are left")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_a_plan_that_was_carried_out_asks_for_nothing_again(seed: int) -> None:
    rng = random.Random(seed)
    fleet = fleets(rng)
    fleet.pools = fleet.pools[:1]
    fleet.refuses = frozenset()
    for _ in range(40):
        arrive(fleet, rng)
        made = fleet.turn()
        if made.drains or any(not share.slots for share in shares_of(made)):
            continue  # a node that has left makes room for another; one with a rider stays
        again = plan(fleet.snapshot())
        assert again.launches == ()
        assert again.starts == ()
        assert again.drains == ()


@pytest.mark.parametrize("slots", [1, 4, 8, 16])
def test_an_empty_queue_becomes_no_nodes(slots: int) -> None:
    fleet = Fleet((A,), random.Random(0))
    fleet.arrive(slots)
    for _ in range(60):
        turn(fleet)
    assert fleet.done == ["t0000"]
    assert fleet.machines == {}
    assert sum(launch.count for launch in fleet.launched) == max(1, slots // 4)


def test_a_gang_that_lost_a_node_gets_one_beside_those_that_are_left() -> None:
    fleet = Fleet((A,), random.Random(0))
    fleet.arrive(12, lasts=1000.0)
    for _ in range(10):
        turn(fleet)
    before = sorted(fleet.machines)
    assert len(before) == 3
    fleet.lose(before[1])
    for _ in range(10):
        turn(fleet)
    assert [(each.count, each.whole) for each in fleet.launched] == [(3, True), (1, True)]
    assert fleet.launched[1].beside in (before[0], before[2])
    assert {before[0], before[2]} < fleet.busy()


def test_what_is_left_of_a_gang_is_kept_no_longer_than_an_idle_node() -> None:
    fleet = Fleet((A,), random.Random(0))
    fleet.arrive(8, lasts=1000.0)
    for _ in range(10):
        turn(fleet)
    lost, left = sorted(fleet.machines)
    fleet.refuses = frozenset({"a"})
    fleet.lose(lost)
    for _ in range(19):
        turn(fleet)
    assert left in fleet.machines
    for _ in range(5):
        turn(fleet)
    assert fleet.machines == {}
    fleet.refuses = frozenset()
    for _ in range(30):
        turn(fleet)
    assert fleet.launched[-1].count == 2
    assert len(fleet.busy()) == 2


def test_trials_that_come_together_are_served_by_one_request() -> None:
    fleet = Fleet((PlanPool("a", 4, 8, True, idle=20.0, quiet=3.0),), random.Random(0))
    for _ in range(4):
        fleet.arrive(2)
        turn(fleet)
    assert fleet.launched == []
    for _ in range(5):
        turn(fleet)
    assert [launch.count for launch in fleet.launched] == [2]


def test_a_stream_of_arrivals_does_not_put_a_request_off_for_ever() -> None:
    fleet = Fleet((PlanPool("a", 4, 8, True, idle=20.0, quiet=3.0),), random.Random(0))
    for _ in range(31):
        fleet.arrive(1)
        turn(fleet)
    assert fleet.now == 31.0
    assert [launch.pool for launch in fleet.launched] == ["a"]
