"""Where a trial's nodes come from: pools that open one after the other, gangs and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.model import Share
from burst.core.states import Reason
from burst.runner.plan import Plan, Snapshot, plan
from burst.runner.plan.bursting import is_dry, openings
from burst.runner.plan.snapshot import Launch, PlanNode, PlanPool, Run, Want

NOW = 1000.0
HOME = PlanPool("home", 4, 1, launches=True, idle=60.0, nodes=1)
SPOT = PlanPool("spot", 4, 8, launches=True, idle=300.0)
CODE = "InsufficientInstanceCapacity for spot/us-east-1a/p5.48xlarge: no capacity"


def want(trial: str = "t", slots: int = 4, **fields: Any) -> Want:
    made = Want(trial, "exp", slots, ("home", "spot"), 42, NOW, burst_after=120.0)
    return replace(made, **fields)


def node(id: str, pool: str = "home", cell: str = "", idle_since: float | None = None) -> PlanNode:
    return PlanNode(id, pool, (0, 1, 2, 3), idle_since, cell)


def full(node: str, pool: str = "home", **fields: Any) -> Run:
    shares = (Share(node=node, slots=(0, 1, 2, 3)),)
    return replace(Run(f"a-{node}", f"t-{node}", "e", pool, 42, shares, 0.0), **fields)


def made(
    *wants: Want,
    at: float = NOW,
    nodes: tuple[PlanNode, ...] = (node("h1"),),
    runs: tuple[Run, ...] = (full("h1"),),
    pools: tuple[PlanPool, ...] = (HOME, SPOT),
    **fields: Any,
) -> Plan:
    return plan(Snapshot(at, wants, runs, nodes, pools, **fields))


def said(plan: Plan, trial: str = "t") -> str:
    return next(wait.reason.text for wait in plan.waits if wait.trial == trial)


# --- bursting ------------------------------------------------------------------------------------


def test_the_next_pool_opens_after_the_wait_and_the_plan_says_when() -> None:
    early = made(want(), at=NOW + 119)
    assert early.launches == ()
    assert early.next == NOW + 120
    assert early.waits[0].until == NOW + 120
    assert said(early) == (
        "it needs 4 slots; pool home has 0 free on 1 node; "
        "pool spot comes next, after 120 s of waiting"
    )
    late = made(want(), at=NOW + 120)
    assert late.launches == (Launch("spot", 1),)
    assert late.waits[0].reason.code == "node-coming"


def test_free_nodes_of_a_pool_that_is_not_open_yet_are_not_taken_but_kept() -> None:
    nodes = (node("h1"), node("s1", "spot", idle_since=NOW - 290))
    spot = replace(SPOT, nodes=1)
    early = made(want(), at=NOW + 20, nodes=nodes, pools=(HOME, spot))
    assert (early.starts, early.launches, early.drains) == ((), (), ())
    assert [
        s.pool for s in made(want(), at=NOW + 120, nodes=nodes, pools=(HOME, spot)).starts
    ] == ["spot"]


def test_a_slot_freed_at_home_is_taken_first_while_a_node_is_on_its_way() -> None:
    spot = replace(SPOT, nodes=1, coming=1)
    back = made(want(), at=NOW + 150, runs=(), pools=(HOME, spot))
    assert [(s.trial, s.pool) for s in back.starts] == [("t", "home")]
    assert back.launches == ()


@pytest.mark.parametrize(
    ("home", "slots"),
    [
        (replace(HOME, launches=False, nodes=0), 4),
        (replace(HOME, stopped="three in a row"), 4),
        (replace(HOME, nodes=0, trouble=CODE, retry_at=NOW + 120), 4),
        (replace(HOME, nodes=1, trouble="no driver"), 4),
        (HOME, 8),
    ],
    ids=["nobody joined", "stopped", "closed", "unfit", "never fits"],
)
def test_the_next_pool_opens_at_once_where_the_one_before_can_give_nothing(
    home: PlanPool, slots: int
) -> None:
    plan = made(want(slots=slots), nodes=(), runs=(), pools=(home, SPOT))
    assert [launch.pool for launch in plan.launches] == ["spot"]


def test_a_pool_that_is_asked_again_soon_is_waited_for() -> None:
    home = replace(HOME, nodes=0, trouble=CODE, retry_at=NOW + 3)
    plan = made(want(), nodes=(), runs=(), pools=(home, SPOT))
    assert plan.launches == ()
    assert plan.waits[0].until == NOW + 3


def test_a_third_pool_opens_a_wait_after_the_second() -> None:
    third = replace(SPOT, name="third")
    spot = replace(SPOT, max_nodes=1, nodes=1)
    nodes, runs = (node("h1"), node("s1", "spot")), (full("h1"), full("s1", "spot"))
    one = want(pools=("home", "spot", "third"))
    for at, launched in ((NOW + 239, []), (NOW + 240, ["third"])):
        plan = made(one, at=at, nodes=nodes, runs=runs, pools=(HOME, spot, third))
        assert [launch.pool for launch in plan.launches] == launched


def test_a_trial_has_nodes_in_flight_in_one_pool_until_that_was_given_as_long_again() -> None:
    first, second = replace(SPOT, name="home"), SPOT
    coming = replace(first, nodes=1, coming=1)

    def asked(at: float, **pools: PlanPool) -> tuple[Launch, ...]:
        found = {"home": coming, "spot": second, **pools}
        return made(want(), at=at, nodes=(), runs=(), pools=tuple(found.values())).launches

    assert asked(NOW, home=first) == (Launch("home", 1),)
    assert asked(NOW + 120) == ()
    assert asked(NOW + 239) == ()
    assert asked(NOW + 240) == (Launch("spot", 1),)
    assert asked(NOW + 300, spot=replace(second, nodes=1, coming=1)) == ()
    assert asked(NOW + 300, home=first, spot=replace(second, nodes=1, coming=1)) == ()


def test_a_trial_that_was_lost_where_it_had_burst_to_goes_on_there_at_once() -> None:
    assert made(want(queued=NOW - 9000.0)).launches == (Launch("spot", 1),)


def test_demand_goes_to_the_first_open_pool_that_can_be_asked() -> None:
    refused = replace(SPOT, name="home", nodes=0, trouble=CODE, retry_at=NOW + 200)
    wants = [want(f"t{n}", burst_after=10.0) for n in range(3)]
    plan = made(*wants, at=NOW + 50, nodes=(), runs=(), pools=(refused, SPOT))
    assert plan.launches == (Launch("spot", 3),)


def test_what_a_pool_has_no_more_nodes_for_goes_to_the_next_open_one() -> None:
    home = replace(SPOT, name="home", max_nodes=2)
    wants = [want(f"t{n}") for n in range(5)]
    plan = made(*wants, at=NOW + 500, nodes=(), runs=(), pools=(home, SPOT))
    assert plan.launches == (Launch("home", 2), Launch("spot", 3))


@given(
    st.lists(st.booleans(), min_size=1, max_size=4),
    st.floats(0, 1e6),
    st.floats(0, 1e4),
)
def test_openings_never_come_in_another_order(
    dry: list[bool], since: float, burst_after: float
) -> None:
    pools = [replace(SPOT, name=f"p{n}") for n in range(len(dry))]
    one = want(queued=since, burst_after=burst_after)
    found = openings(one, pools, lambda pool, until: dry[int(pool.name[1:])])
    dates = [each.at for each in found]
    assert dates[0] == since
    assert dates == sorted(dates)
    assert dates[-1] == pytest.approx(since + burst_after * dry[:-1].count(False))


def test_a_pool_stays_dry_when_its_date_has_come() -> None:
    closed = replace(SPOT, trouble=CODE, retry_at=NOW + 130)
    assert is_dry(closed, 0, NOW + 120)
    assert not is_dry(closed, 1, NOW + 120)
    assert not is_dry(replace(closed, coming=1, nodes=1), 0, NOW + 120)
    assert not is_dry(replace(closed, retry_at=NOW + 30), 0, NOW + 120)


# --- words ---------------------------------------------------------------------------------------


def test_every_pool_of_a_trial_has_its_words_with_the_last_code_of_aws() -> None:
    spot = replace(SPOT, trouble=CODE, retry_at=NOW + 300)
    plan = made(want(), at=NOW + 200, pools=(HOME, spot))
    assert said(plan) == (
        "it needs 4 slots; pool home has 0 free on 1 node; "
        f"pool spot could not start a node: {CODE}; it will be tried again"
    )
    assert plan.waits[0].until == NOW + 300


@pytest.mark.parametrize("runs", [(), (full("s1", "spot"),)])
@pytest.mark.parametrize("stopped", ["", "three in a row"])
def test_trouble_is_told_whatever_else_there_is_to_say(
    runs: tuple[Run, ...], stopped: str
) -> None:
    """A node in flight, a full pool, a stopped one: the last words of the pool are among it."""
    spot = replace(SPOT, trouble=CODE, stopped=stopped, nodes=len(runs), coming=0)
    nodes = tuple(node("s1", "spot") for _ in runs)
    plan = made(want(pools=("spot",)), nodes=nodes, runs=runs, pools=(spot,))
    assert CODE in said(plan)


def test_a_stopped_pool_asks_for_nothing_and_says_how_it_goes_on() -> None:
    spot = replace(SPOT, stopped="3 nodes in a row ended before they were ready", min_nodes=2)
    plan = made(want(pools=("spot",)), want("gang", 8, pools=("spot",)), pools=(spot,), nodes=())
    assert plan.launches == ()
    assert said(plan) == (
        "pool spot starts no more nodes: 3 nodes in a row ended before they were ready; "
        "`burst pool resume spot` lets it"
    )


def test_what_the_last_machine_of_a_stopped_pool_said_is_told_once() -> None:
    said_last = "its agent ended before it had registered; no such file"
    spot = replace(
        SPOT, stopped=f"3 nodes in a row ended before they were ready: {said_last}",
        trouble=said_last, nodes=0,
    )  # fmt: skip
    assert said(made(want(pools=("spot",)), pools=(spot,), nodes=())).count(said_last) == 1


def test_a_pool_that_can_have_no_machine_opens_the_next_one_however_soon_it_is_asked_again() -> (
    None
):
    home = replace(SPOT, name="home", nodes=0, trouble=CODE, retry_at=NOW + 3, misfit=True)
    plan = made(want(), nodes=(), runs=(), pools=(home, SPOT))
    assert [launch.pool for launch in plan.launches] == ["spot"]


def test_a_pool_without_nodes_is_not_said_to_have_all_of_them() -> None:
    spot = replace(SPOT, max_nodes=1, nodes=0, quiet=0.0)
    wants = [want(f"t{n}", pools=("spot",), queued=NOW + n) for n in range(2)]
    plan = made(*wants, nodes=(), runs=(), pools=(spot,))
    texts = [wait.reason.text for wait in plan.waits]
    assert texts[1] == "trials ahead of it in pool spot come first"
    assert "all of its" not in " ".join(texts)


def test_the_words_do_not_change_while_time_goes_by() -> None:
    texts = {said(made(want(), at=NOW + s)) for s in range(0, 120, 7)}
    assert len(texts) == 1


def test_what_closes_a_pool_to_a_trial_is_told_last() -> None:
    plan = made(want(pools=("home",), closed="pool spot is closed to it"))
    assert said(plan).endswith("; pool spot is closed to it")


# --- gangs ---------------------------------------------------------------------------------------


def gang(slots: int = 8, **fields: Any) -> Want:
    return want("gang", slots, **{"pools": ("spot",), **fields})


def in_spot(*wants: Want, **fields: Any) -> Plan:
    pool = replace(SPOT, nodes=fields.pop("up", 0), **fields.pop("pool", {}))
    return made(*wants, **{"nodes": (), "runs": (), "pools": (pool,), **fields})


def test_a_gang_is_a_request_of_its_own() -> None:
    plan = in_spot(gang(12), want("s1", 2, pools=("spot",)), want("s2", 2, pools=("spot",)))
    assert plan.launches == (Launch("spot", 3, whole=True), Launch("spot", 1))


def test_a_gang_is_placed_within_one_cell() -> None:
    nodes = (node("n1", "spot", "x"), node("n2", "spot", "y"), node("n3", "spot", "y"))
    plan = in_spot(gang(), nodes=nodes, up=3)
    assert {share.node for share in plan.starts[0].shares} == {"n2", "n3"}
    apart = in_spot(gang(), nodes=nodes[:2], up=2)
    assert apart.starts == ()


def test_what_is_left_of_a_gang_is_completed_beside_it_and_kept() -> None:
    nodes = (
        node("n1", "spot", "x", NOW - 1),
        node("n2", "spot", "x", NOW - 1),
        node("n3", "spot", "y", NOW - 1),
    )
    single = want("later", 4, pools=("spot",), queued=NOW + 1)
    plan = in_spot(gang(12), single, nodes=nodes, up=3, at=NOW + 5)
    assert plan.launches == (Launch("spot", 1, whole=True, beside="n1"),)
    assert [(s.trial, s.shares[0].node) for s in plan.starts] == [("later", "n3")]


def test_a_completing_request_in_flight_is_not_made_again_and_keeps_its_place() -> None:
    nodes = (node("n1", "spot", "x", NOW - 400),)
    plan = in_spot(
        gang(), nodes=nodes, up=2, pool={"coming": 1, "coming_whole": (1,)}, at=NOW + 500
    )
    assert (plan.launches, plan.drains) == ((), ())


def test_what_is_kept_is_where_the_missing_nodes_come() -> None:
    idle = NOW - 400
    nodes = (
        node("n1", "spot", "x", idle),
        node("n2", "spot", "y", idle),
        node("n3", "spot", "z", idle),
    )
    flying = {"coming": 1, "coming_whole": (1,), "coming_cells": ("y",)}
    plan = in_spot(gang(), nodes=nodes, up=4, pool=flying, at=NOW + 500)
    assert plan.drains == ("n1", "n3")
    assert plan.launches == ()


def test_nodes_that_others_leave_count_for_what_a_gang_begins_with() -> None:
    nodes = (node("n1", "spot", "x"),)
    plan = in_spot(gang(), nodes=nodes, runs=(full("n1", "spot", leaving=True),), up=1)
    assert plan.launches == (Launch("spot", 1, whole=True, beside="n1"),)
    stays = in_spot(gang(), nodes=nodes, runs=(full("n1", "spot"),), up=1)
    assert stays.launches == (Launch("spot", 2, whole=True),)


def test_a_whole_request_in_flight_serves_one_gang_and_no_single() -> None:
    flying = {"coming": 2, "coming_whole": (2,)}
    one = in_spot(gang(), want("s", 4, pools=("spot",)), up=2, pool=flying)
    assert one.launches == (Launch("spot", 1),)
    two = in_spot(gang(), replace(gang(), trial="gang2"), up=2, pool=flying)
    assert two.launches == (Launch("spot", 2, whole=True),)


def test_a_whole_request_that_no_gang_waits_for_serves_singles() -> None:
    flying = {"coming": 2, "coming_whole": (2,)}
    wants = [want(f"s{n}", 4, pools=("spot",)) for n in range(3)]
    assert in_spot(*wants, up=2, pool=flying).launches == (Launch("spot", 1),)


def test_a_gang_does_not_take_the_nodes_that_better_trials_are_short_of() -> None:
    better = [want(f"s{n}", 4, pools=("spot",), priority=1) for n in range(7)]
    plan = in_spot(gang(), *better)
    assert plan.launches == (Launch("spot", 7),)


def test_trials_behind_a_gang_leave_it_the_nodes_that_are_still_to_be_had() -> None:
    behind = [want(f"s{n}", 4, pools=("spot",), priority=90) for n in range(3)]
    nodes = tuple(node(f"n{n}", "spot", "xyz"[n % 3]) for n in range(7))
    runs = tuple(full(each.id, "spot") for each in nodes)
    plan = in_spot(gang(), *behind, nodes=nodes, runs=runs, up=7)
    assert plan.launches == ()


def test_nodes_of_many_cells_make_way_for_a_gang_that_none_of_them_fits() -> None:
    nodes = tuple(node(f"n{n}", "spot", f"c{n}", NOW - 400) for n in range(3))
    small = want("s", 1, pools=("spot",), priority=90)
    plan = in_spot(gang(), small, nodes=nodes, up=3, pool={"max_nodes": 3})
    assert len(plan.drains) == 2
    assert [start.shares[0].node for start in plan.starts] == ["n2"]


# --- limits --------------------------------------------------------------------------------------


def test_a_pool_is_never_smaller_than_its_least() -> None:
    assert in_spot(pool={"min_nodes": 2}).launches == (Launch("spot", 2),)
    one = want("s", 4, pools=("spot",))
    assert in_spot(one, pool={"min_nodes": 2}).launches == (Launch("spot", 2),)
    nodes = tuple(node(f"n{n}", "spot", idle_since=NOW - 400 + n) for n in range(3))
    plan = in_spot(nodes=nodes, up=3, pool={"min_nodes": 2})
    assert plan.drains == ("n0",)
    assert plan.next is None


def test_a_date_of_the_next_try_is_kept() -> None:
    refused = {"retry_at": NOW + 9, "trouble": CODE, "min_nodes": 1}
    plan = in_spot(gang(), want("s", 1, pools=("spot",)), pool=refused)
    assert plan.launches == ()
    assert plan.next == NOW + 9


def test_a_batch_waits_until_it_is_quiet_but_not_for_ever() -> None:
    def asked(*ages: float) -> Plan:
        wants = [want(f"s{n}", 4, pools=("spot",), queued=NOW - age) for n, age in enumerate(ages)]
        return in_spot(*wants, pool={"quiet": 1.0})

    assert asked(0.5).launches == ()
    assert asked(0.5).next == NOW + 0.5
    assert asked(0.5).waits[0].reason.code == "node-coming"
    assert asked(5.0, 0.5).launches == ()
    assert asked(5.0, 1.0).launches == (Launch("spot", 2),)
    assert asked(10.0, 0.0).launches == (Launch("spot", 2),)


def test_what_leaves_its_node_has_the_next_one_asked_for_before_it_has_left() -> None:
    leaving = want("t-n1", 4, pools=("spot",), leaving=True)
    plan = in_spot(leaving, runs=(full("n1", "spot", leaving=True),), up=1)
    assert plan.launches == (Launch("spot", 1),)
    assert plan.waits == ()
    nodes = (node("n2", "spot", idle_since=NOW - 400),)
    kept = in_spot(leaving, want("later", 4, pools=("spot",), queued=NOW + 1), nodes=nodes, up=2)
    assert kept.starts == ()
    assert kept.drains == ()
    assert kept.launches == (Launch("spot", 1),)


def test_a_node_is_kept_for_a_trial_that_backs_off_for_less_than_it_would_be_idle() -> None:
    nodes = (node("n1", "spot", idle_since=NOW - 400),)
    hold = Reason(code="backing-off", text="later")
    soon = want("s", 4, pools=("spot",), hold=hold, hold_until=NOW + 200)
    assert in_spot(soon, nodes=nodes, up=1).drains == ()
    late = replace(soon, hold_until=NOW + 301)
    assert in_spot(late, nodes=nodes, up=1).drains == ("n1",)
