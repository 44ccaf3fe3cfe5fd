"""The plan keeps its promises for any snapshot."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from burst.core.model import Share
from burst.core.states import Reason
from burst.runner.plan import Plan, Snapshot, plan
from burst.runner.plan.room import Room
from burst.runner.plan.snapshot import PlanNode, PlanPool, Run, Want
from tests.runner.fleet import nodes_needed

NOW = 1000.0
T = TypeVar("T")


def want(trial: str, slots: int = 1, **fields: object) -> Want:
    made = Want(trial, "exp", slots, ("a",), 42, 0.0)
    return replace(made, **fields)  # type: ignore[arg-type]


def node(id: str, slots: int = 4, pool: str = "a", idle_since: float | None = None) -> PlanNode:
    return PlanNode(id, pool, tuple(range(slots)), idle_since)


def run(allocation: str, node: str, *slots: int, **fields: object) -> Run:
    made = Run(
        allocation, f"t-{allocation}", "other", "a", 42, (Share(node=node, slots=slots),), 0.0
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def pool(name: str = "a", **fields: object) -> PlanPool:
    made = PlanPool(name, 4, 2, launches=True, nodes=1)
    return replace(made, **fields)  # type: ignore[arg-type]


def reason(made: Plan, trial: str) -> Reason:
    return next(wait.reason for wait in made.waits if wait.trial == trial)


def starts(made: Plan) -> list[str]:
    return [start.trial for start in made.starts]


def test_a_trial_takes_the_fullest_node_that_fits() -> None:
    snapshot = Snapshot(
        NOW,
        (want("t", 2),),
        (run("x", "n2", 0, 1),),
        (node("n1"), node("n2")),
        (pool(),),
    )
    assert plan(snapshot).starts[0].shares == (Share(node="n2", slots=(2, 3)),)


def test_a_gang_takes_whole_empty_nodes_of_one_size() -> None:
    snapshot = Snapshot(
        NOW,
        (want("t", 8),),
        (run("x", "n1", 0),),
        (node("n1"), node("n2"), node("n3"), node("n4", 8)),
        (pool(max_nodes=4),),
    )
    assert {share.node for share in plan(snapshot).starts[0].shares} == {"n4"}
    smaller = replace(snapshot, nodes=snapshot.nodes[:3])
    assert {share.node for share in plan(smaller).starts[0].shares} == {"n2", "n3"}


def test_a_trial_without_slots_starts_on_a_full_node() -> None:
    snapshot = Snapshot(
        NOW, (want("t", 0),), (run("x", "n1", 0, 1, 2, 3),), (node("n1"),), (pool(),)
    )
    assert plan(snapshot).starts[0].shares == (Share(node="n1", slots=()),)


def test_priority_goes_before_the_queue_and_the_queue_before_the_id() -> None:
    wants = (
        want("t1", 4, queued=1.0),
        want("t2", 4, queued=2.0, priority=1),
        want("t3", 4, queued=1.0),
    )
    nodes = (node("n1"), node("n2"))
    assert starts(plan(Snapshot(NOW, wants, (), nodes, (pool(),)))) == ["t2", "t1"]


def test_an_experiment_never_holds_more_than_its_max_slots() -> None:
    wants = tuple(want(f"t{n}", 1) for n in range(4))
    made = plan(
        Snapshot(
            NOW,
            wants,
            (run("x", "n1", 0, experiment="exp"),),
            (node("n1", 8),),
            (pool(),),
            max_slots={"exp": 3},
        )
    )
    assert starts(made) == ["t0", "t1"]
    assert reason(made, "t2").text == (
        "it needs 1 slot, and its experiment may use 3 (max_slots) of which 3 are taken"
    )


def test_blocked_nodes_are_not_used() -> None:
    wants = (want("t", blocked=frozenset({"n1"})),)
    made = plan(Snapshot(NOW, wants, (), (node("n1"),), (pool(max_nodes=1),)))
    assert starts(made) == []
    assert "without the 1 that it must not use" in reason(made, "t").text


def test_small_trials_go_past_a_gang_only_where_it_does_not_wait() -> None:
    wants = (want("gang", 8, queued=0.0), *(want(f"s{n}", 1, queued=1.0) for n in range(9)))
    runs = (run("x", "n1", 0, 1, 2), run("y", "n2", 0), run("z", "n3", 0, 1))
    nodes = (node("n1"), node("n2"), node("n3"))
    made = plan(Snapshot(NOW, wants, runs, nodes, (pool(max_nodes=3, nodes=3),)))
    used = {share.node for start in made.starts for share in start.shares}
    assert used == {"n1"}, "the gang waits for n2 and n3, which lack the fewest slots"
    assert starts(made) == ["s0"]
    assert reason(made, "s1").code == "queued"


def test_trials_of_worse_priority_yield_only_as_many_as_needed() -> None:
    runs = (
        run("old", "n1", 0, 1, priority=50, since=1.0),
        run("new", "n1", 2, 3, priority=50, since=2.0),
        run("worst", "n2", 0, 1, priority=90, since=0.0),
        run("equal", "n2", 2, 3, priority=42, since=3.0),
    )
    snapshot = Snapshot(
        NOW,
        (want("t", 4), want("later", 1, queued=5.0)),
        runs,
        (node("n1"), node("n2")),
        (pool(max_nodes=2, nodes=2),),
        preemption=True,
    )
    made = plan(snapshot)
    assert {leave.allocation for leave in made.yields} == {"old", "new"}
    assert made.starts == ()
    assert plan(replace(snapshot, preemption=False)).yields == ()


def test_trials_of_the_same_priority_never_yield() -> None:
    runs = (run("equal", "n1", 0, 1, 2, 3, priority=42), run("better", "n2", 0, priority=1))
    snapshot = Snapshot(
        NOW, (want("t", 4),), runs, (node("n1"), node("n2")), (pool(max_nodes=2),), preemption=True
    )
    assert plan(snapshot).yields == ()


def test_nothing_starts_while_trials_make_room() -> None:
    runs = (run("x", "n1", 0, 1, priority=90, leaving=True, yielding=True),)
    wants = (want("t", 4), want("later", 1, queued=1.0))
    made = plan(Snapshot(NOW, wants, runs, (node("n1"),), (pool(max_nodes=1),), preemption=True))
    assert (made.starts, made.yields, made.launches) == ((), (), ())
    assert reason(made, "later").code == "making-room"


def test_nodes_are_asked_for_by_what_does_not_fit_less_what_is_coming() -> None:
    eight = pool(slots_per_node=8, max_nodes=5, nodes=0)

    def launched(*slots: int, **fields: object) -> int:
        wants = tuple(want(f"t{n}", s) for n, s in enumerate(slots))
        made = plan(Snapshot(NOW, wants, pools=(replace(eight, **fields),)))  # type: ignore[arg-type]
        return sum(launch.count for launch in made.launches)

    assert launched(1, 1, 1) == 1
    assert launched(8, 16) == 3
    assert launched(12) == 0
    assert launched(5, 5, 5) == 3
    assert launched(*[8] * 12, nodes=2, coming=1) == 3
    assert launched(0, 0) == 1
    assert launched(1, launches=False) == 0
    assert launched(1, trouble="no", retry_at=NOW + 1) == 0
    assert launched(1, trouble="no", retry_at=NOW) == 1


def test_demand_stays_within_the_max_slots_of_an_experiment() -> None:
    wants = tuple(want(f"t{n}", 8) for n in range(10))
    eight = pool(slots_per_node=8, max_nodes=50, nodes=0)
    made = plan(Snapshot(NOW, wants, pools=(eight,), max_slots={"exp": 16}))
    assert [launch.count for launch in made.launches] == [2]


def test_a_node_leaves_when_it_has_been_idle_for_long_enough() -> None:
    nodes = (node("n1", idle_since=NOW - 60), node("n2", idle_since=NOW - 50), node("n3"))
    made = plan(Snapshot(NOW, (), (), nodes, (pool(idle=60.0),)))
    assert made.drains == ("n1",)
    assert made.next == NOW + 10
    busy = plan(Snapshot(NOW, (), (run("x", "n1", 0),), nodes, (pool(idle=60.0),)))
    assert busy.drains == ()


def test_a_trial_that_backs_off_says_until_when() -> None:
    hold = Reason(code="backing-off", text="later")
    made = plan(
        Snapshot(NOW, (want("t", hold=hold, hold_until=NOW + 7),), (), (node("n1"),), (pool(),))
    )
    assert (starts(made), made.waits[0].reason, made.next) == ([], hold, NOW + 7)


def test_reasons_are_words_with_numbers() -> None:
    def said(*pools: PlanPool, nodes: Sequence[PlanNode] = (), **fields: object) -> str:
        made = plan(Snapshot(NOW, (want("t", 3, **fields),), (), tuple(nodes), pools))
        return reason(made, "t").text

    assert said() == "none of its pools is in this cluster (a); add one in burst.yaml"
    assert said(pool(nodes=0, coming=1)) == "a node of pool a is starting"
    assert said(pool(nodes=0, launches=False)) == (
        "no machine has joined pool a; run `burst agent --pool a` on one"
    )
    assert said(pool(nodes=0, trouble="full disk", retry_at=NOW + 3)) == (
        "pool a could not start a node: full disk; it will be tried again"
    )
    assert said(pool(max_nodes=1), nodes=[node("n1", 2)]) == (
        "it needs 3 slots; pool a has 2 free on 1 node"
    )


# --- any snapshot --------------------------------------------------------------------------------


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    names = ["a", "b"]
    pools = tuple(
        PlanPool(
            name,
            slots_per_node=draw(st.sampled_from([1, 2, 4, 8])),
            max_nodes=draw(st.integers(0, 6)),
            launches=draw(st.booleans()),
            idle=draw(st.sampled_from([None, 10.0])),
            nodes=draw(st.integers(0, 6)),
            coming=draw(st.integers(0, 2)),
        )
        for name in names
    )
    nodes = tuple(
        PlanNode(
            f"n{number}",
            draw(st.sampled_from(names)),
            tuple(range(draw(st.sampled_from([1, 2, 4, 8])))),
            draw(st.sampled_from([None, NOW - 100])),
        )
        for number in range(draw(st.integers(0, 6)))
    )
    runs: list[Run] = []
    for place in nodes:
        free = list(place.slots)
        while len(free) > 0 and draw(st.booleans()):
            count = draw(st.integers(1, len(free)))
            taken, free = free[:count], free[count:]
            leaving = draw(st.booleans())
            runs.append(
                Run(
                    f"r{len(runs)}",
                    f"tr{len(runs)}",
                    draw(st.sampled_from(["e0", "e1"])),
                    place.pool,
                    draw(st.integers(1, 3)),
                    (Share(node=place.id, slots=tuple(taken)),),
                    float(draw(st.integers(0, 5))),
                    leaving=leaving,
                    yielding=leaving and draw(st.booleans()),
                )
            )
    wants = tuple(
        Want(
            f"t{number}",
            draw(st.sampled_from(["e0", "e1"])),
            draw(st.sampled_from([0, 1, 2, 3, 4, 8, 12, 16])),
            tuple(draw(st.permutations(["a", "b", "c"]))[: draw(st.integers(0, 3))]),
            draw(st.integers(1, 3)),
            float(draw(st.integers(0, 3))),
            blocked=frozenset(draw(st.sets(st.sampled_from(["n0", "n1"])))),
            single_node=draw(st.booleans()),
            hold=draw(st.sampled_from([None, None, Reason(code="held")])),
        )
        for number in range(draw(st.integers(0, 12)))
    )
    caps = draw(st.dictionaries(st.sampled_from(["e0", "e1"]), st.integers(1, 20)))
    return Snapshot(NOW, wants, tuple(runs), nodes, pools, caps, draw(st.booleans()))


@given(snapshots())
def test_no_slot_is_given_twice_and_every_slot_exists(snapshot: Snapshot) -> None:
    known = {place.id: place for place in snapshot.nodes}
    taken = [(s.node, i) for r in snapshot.runs for s in r.shares for i in s.slots]
    for start in plan(snapshot).starts:
        for share in start.shares:
            assert known[share.node].pool == start.pool
            assert set(share.slots) <= set(known[share.node].slots)
            taken += [(share.node, slot) for slot in share.slots]
    assert len(taken) == len(set(taken))


@given(snapshots())
def test_gangs_are_whole_and_where_they_may_be(snapshot: Snapshot) -> None:
    wants = {each.trial: each for each in snapshot.wants}
    sizes = {place.id: len(place.slots) for place in snapshot.nodes}
    for start in plan(snapshot).starts:
        asked = wants[start.trial]
        assert sum(len(share.slots) for share in start.shares) == asked.slots
        assert len({share.node for share in start.shares}) == len(start.shares)
        assert start.pool in asked.pools
        assert not asked.blocked & {share.node for share in start.shares}
        assert asked.hold is None
        if len(start.shares) > 1:
            assert not asked.single_node
            assert len({sizes[share.node] for share in start.shares}) == 1
            assert all(len(share.slots) == sizes[share.node] for share in start.shares)


@given(snapshots())
def test_everything_starts_or_is_told_why_not(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    waiting = [wait.trial for wait in made.waits]
    assert sorted(starts(made) + waiting) == sorted(each.trial for each in snapshot.wants)
    assert all(wait.reason.text or wait.reason.code == "held" for wait in made.waits)


@given(snapshots())
def test_limits_are_kept(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    for launch in made.launches:
        source = next(each for each in snapshot.pools if each.name == launch.pool)
        assert source.launches
        assert source.nodes + launch.count <= max(source.max_nodes, source.nodes)
    for name, most in snapshot.max_slots.items():
        before = sum(len(s.slots) for r in snapshot.runs for s in r.shares if r.experiment == name)
        wants = {each.trial: each for each in snapshot.wants}
        new = sum(
            wants[start.trial].slots
            for start in made.starts
            if wants[start.trial].experiment == name and wants[start.trial].slots
        )
        assert new == 0 or before + new <= most


@given(snapshots())
def test_only_worse_trials_yield_and_busy_nodes_stay(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    runs = {each.allocation: each for each in snapshot.runs}
    wants = {each.trial: each for each in snapshot.wants}
    for leave in made.yields:
        assert snapshot.preemption
        assert not runs[leave.allocation].leaving
        assert runs[leave.allocation].priority > wants[leave.to].priority
    busy = {share.node for each in snapshot.runs for share in each.shares}
    busy |= {share.node for start in made.starts for share in start.shares}
    assert not busy & set(made.drains)


@given(snapshots())
def test_what_starts_behind_the_head_does_not_make_it_wait_for_more(snapshot: Snapshot) -> None:
    """The head of a pool lacks no more slots after the plan than it would without backfill."""
    snapshot = replace(snapshot, preemption=False, max_slots={})
    made = plan(snapshot)
    waiting = {wait.trial for wait in made.waits if wait.reason.code != "held"}
    for name in ("a", "b"):
        mine = [w for w in sorted(snapshot.wants, key=lambda w: w.order) if name in w.pools]
        head = next((w for w in mine if w.trial in waiting and w.slots), None)
        if head is None:
            continue
        before = [s for s in made.starts if _order(snapshot, s.trial) < head.order]
        nodes = [place for place in snapshot.nodes if place.pool == name]
        then = Room(nodes, [*snapshot.runs, *_as_runs(before)])
        after = Room(nodes, [*snapshot.runs, *_as_runs(made.starts)])
        assert _missing(after, head) <= _missing(then, head)


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_the_snapshot(
    snapshot: Snapshot, rng: random.Random
) -> None:
    def mixed(parts: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(rng.sample(parts, len(parts)))

    other = replace(
        snapshot,
        wants=mixed(snapshot.wants),
        runs=mixed(snapshot.runs),
        nodes=mixed(snapshot.nodes),
        pools=mixed(snapshot.pools),
    )
    assert plan(other) == plan(snapshot)


@given(st.lists(st.integers(1, 8), max_size=30))
def test_packing_is_never_below_the_volume_nor_wasteful(slots: list[int]) -> None:
    needed = nodes_needed([want(f"t{n}", s) for n, s in enumerate(slots)], 8)
    volume = -(-sum(slots) // 8)
    assert volume <= needed <= max(1, 2 * volume)


def test_the_time_to_plan_grows_with_the_queue_and_not_with_its_square() -> None:
    _seconds_to_plan(200)  # what is loaded and compiled at the first call
    few, many = (min(_seconds_to_plan(size) for _ in range(3)) for size in (1_000, 10_000))
    assert many / few < 30, "ten times as much, by n log n 13 times the time, by n² a hundred"


def _seconds_to_plan(size: int) -> float:
    rng = random.Random(0)
    wants = tuple(
        want(f"t{n:05d}", rng.choice([1, 1, 2, 4, 8, 16]), queued=rng.random(), priority=n % 5 + 1)
        for n in range(size)
    )
    count = size // 10
    nodes = tuple(node(f"n{n:04d}", 8) for n in range(count))
    runs = tuple(
        run(f"r{n}", f"n{n:04d}", *range(rng.randrange(1, 9))) for n in range(0, count, 2)
    )
    large = pool(slots_per_node=8, max_nodes=2 * count, nodes=count)
    snapshot = Snapshot(NOW, wants, runs, nodes, (large,), preemption=True)
    began = time.process_time()
    made = plan(snapshot)
    seconds = time.process_time() - began
    assert made.starts
    assert made.waits
    return seconds


def _order(snapshot: Snapshot, trial: str) -> tuple[int, float, str]:
    return next(each.order for each in snapshot.wants if each.trial == trial)


def _as_runs(started: Sequence[object]) -> list[Run]:
    return [
        Run(f"s{n}", s.trial, "e", s.pool, 1, s.shares, 0.0)  # type: ignore[attr-defined]
        for n, s in enumerate(started)
    ]


def _missing(room: Room, head: Want) -> float:
    """Slots that must become free for `head` on the nodes nearest to it; infinite for never."""
    chosen = room.nearest(head)
    if not chosen:
        return float("inf")
    return sum(max(0, head.slots // len(chosen) - len(room._free[id])) for id in chosen)
