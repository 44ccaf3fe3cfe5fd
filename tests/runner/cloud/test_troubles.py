"""The same life while EC2, clocks, other runners or the store are at their worst."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burst.core.model import Allocation, Exit, Node, Supply, Trial
from burst.core.states import AllocationState
from burst.runner.node.timekeeping import MOST_SKEW_S
from burst.runner.pools.aws.fleet import request_of
from burst.runner.rehearsal.ec2.machine import Reason as Why
from burst.runner.rehearsal.ec2.machine import State
from burst.runner.rehearsal.ec2.rules import CapacityRule, Kind, Quota
from tests.runner.cloud.faults import Acts, Ended, said
from tests.runner.cloud.house import DIE, SILENT, CloudHouse, live, small_life, submit_small_life
from tests.runner.cloud.model import CLUSTER, POOL, START, ZONES, Model, the_model
from tests.runner.house import COMPLETED

Make = Callable[..., CloudHouse]
MOST_MACHINES = 9


@pytest.fixture(scope="module")
def model() -> Model:
    return the_model()


@pytest.fixture
def make(model: Model, tmp_path: Path) -> Make:
    def made(script: Any = small_life, **settings: Any) -> CloudHouse:
        return CloudHouse(tmp_path, model, script, **settings)

    return made


def check(house: CloudHouse, *, machines: int = MOST_MACHINES) -> None:
    """All came to its end as it should, and what it cost was not much more."""
    found = house.outcome()
    assert found["completions"] == [1, 1, 1], house.story()
    assert found["live"] == (0, 0), house.story()
    assert found["left"] == [], house.story()
    assert {(state, restarts) for state, restarts, *_ in found["trials"]} == {("completed", 0)}
    assert house.made() <= machines, house.story()


def codes(house: CloudHouse) -> set[str]:
    """Of all that EC2 refused, as events tell."""
    events = house.store.events("", limit=1000).events
    return {word for each in events for word in each.text.replace(":", " ").split()}


# --- what EC2 shows late ---


@pytest.mark.parametrize("known_after", [0.0, 30.0], ids=["by-id", "not-even-by-id"])
def test_machines_that_are_listed_late(make: Make, known_after: float) -> None:
    house = make()
    house.model.cloud.settings.listed_after = 30.0
    house.model.cloud.settings.known_after = known_after
    check(live(house), machines=7)


@pytest.mark.parametrize("listed_after", [0.0, 30.0])
@pytest.mark.parametrize("gap", [0, 24, 80], ids=lambda turns: f"{turns * 5}s")
def test_a_runner_that_never_comes_back_from_a_request_leaves_it_to_the_next_one(
    make: Make, gap: int, listed_after: float
) -> None:
    """It finds the machines by their tags, or by the very same request, or they find their nodes;
    also where every request of the life ends its runner."""
    acts = Acts(after=True, error=lambda act: Ended(act))

    def end_the_first_sending(number: int) -> None:
        if acts.names[-1] == "create_fleet" and acts.names.count("create_fleet") % 2:
            acts.at = number

    acts.meanwhile = end_the_first_sending
    house = make(acts=acts)
    house.model.cloud.settings.listed_after = listed_after
    check(live(house, gap=gap, turns=900), machines=7)


# --- what EC2 gives ---


def test_requests_that_bring_errors_and_machines(make: Make) -> None:
    house = make()
    one_each = (CapacityRule(Kind("c5.large", zone, "spot"), 1, 0.0) for zone in ZONES)
    house.model.cloud.capacity += one_each
    check(live(house))


def test_requests_that_bring_fewer_machines_than_were_asked_for(make: Make) -> None:
    house = make()
    house.model.cloud.capacity.append(CapacityRule(Kind("*", "*", "spot"), 3, 0.0))
    check(live(house))
    assert "InsufficientInstanceCapacity" in codes(house)


def test_no_machines_at_all_for_some_minutes(make: Make) -> None:
    house = make()
    anything = Kind("*", "*", "*")
    house.model.cloud.capacity += [
        CapacityRule(anything, 0, 0.0),
        CapacityRule(anything, None, START + 300),
    ]
    check(live(house))


def test_a_best_offer_that_is_always_refused(make: Make) -> None:
    house = make()
    best = Kind("c5.large", ZONES[0], "spot")
    house.model.cloud.prices[best] = 0.0001
    house.model.cloud.refusals.append((best, "InsufficientInstanceCapacity", "none"))
    check(live(house))
    assert all(each.kind != best for each in house.model.cloud.machines.values())


def test_a_quota_that_is_smaller_than_the_queue(make: Make) -> None:
    house = make()
    house.model.cloud.quotas.append(Quota("spot", "*", 4))  # two machines of two vCPUs
    check(live(house))
    assert "MaxSpotInstanceCountExceeded" in codes(house)


# --- what EC2 says ---

OPERATIONS = {
    "create_fleet",
    "create_placement_group",
    "delete_placement_group",
    "describe_instance_type_offerings",
    "describe_instance_types",
    "describe_instances",
    "describe_network_interfaces",
    "describe_placement_groups",
    "describe_spot_price_history",
    "describe_subnets",
    "describe_volumes",
    "get_spot_placement_scores",
    "terminate_instances",
}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("RequestLimitExceeded", 503),
        ("ExpiredToken", 400),
        ("UnauthorizedOperation", 403),
        ("InternalError", 500),
    ],
)
def test_every_operation_fails_once(make: Make, code: str, status: int) -> None:
    acts = Acts(first_of=set(OPERATIONS), error=said(code, status))
    check(live(make(acts=acts)))
    skipped = {"describe_network_interfaces", "describe_placement_groups"}
    assert acts.first_of <= skipped, "what is left over is listed no further for this time"


@pytest.mark.parametrize("after", [0.0, 60.0], ids=["at-once", "for-a-minute"])
def test_a_machine_that_ec2_says_it_does_not_know_just_after_it_made_it(
    make: Make, after: float
) -> None:
    house = make(acts=Acts(first_of={"terminate_instances"}, error=_not_found))
    house.model.cloud.settings.known_after = after
    check(live(house))


_not_found = said("InvalidInstanceID.NotFound")


def falls_silent(trial: Trial, allocation: Allocation, node: Node, ran: float) -> Any:
    """A life in which the gang's second machine stays, and does nothing more."""
    found = small_life(trial, allocation, node, ran)
    return SILENT if found == DIE else found


def test_a_machine_that_cannot_be_ended_for_minutes_is_not_called_gone_before(
    make: Make,
) -> None:
    """`CloudHouse.check` looks at it after every turn."""
    house = make(falls_silent, acts=Acts(error=said("InternalError", 500)))
    until = START + 500

    def each_turn(_: int) -> None:
        house.acts.first_of = {"terminate_instances"} if house.model.clock.now() < until else set()

    def refuse_again(_: int) -> None:
        each_turn(0)

    house.acts.meanwhile = refuse_again
    check(live(house, each_turn=each_turn))
    (silent,) = house.silent
    ended = house.model.cloud.machines[silent].ended
    assert ended is not None
    assert until <= ended < until + 60


# --- clocks ---


@pytest.mark.parametrize("ahead", [-300.0, 300.0])
def test_a_runner_whose_clock_is_wrong(make: Make, ahead: float) -> None:
    check(live(make(skew=ahead)))


@pytest.mark.parametrize("ahead", [-MOST_SKEW_S, MOST_SKEW_S])
def test_machines_whose_clocks_are_wrong(make: Make, ahead: float) -> None:
    check(live(make(node_skew=ahead)))


# --- other runners ---


@pytest.mark.parametrize(
    "skews", [(0.0, 0.0), (300.0, -300.0)], ids=["same-clocks", "other-clocks"]
)
@pytest.mark.parametrize(("every", "rest"), [(1, 0), (2, 0), (2, 1), (5, 3)])
def test_two_more_runners_make_a_whole_pass_before_any_act_of_the_first(
    make: Make, skews: tuple[float, float], every: int, rest: int
) -> None:
    house = make()
    others = [house.new_runner(Acts(), skew) for skew in skews]

    def pass_of_others(number: int) -> None:
        if number % every == rest:
            for other in others:
                other.step()

    house.acts.meanwhile = pass_of_others
    check(live(house), machines=7)


@pytest.mark.parametrize("runs", [True, False], ids=["booted", "never-boots"])
def test_a_request_that_was_sent_twice_costs_its_surplus_for_two_minutes(
    make: Make, runs: bool
) -> None:
    """The same request by another token, as if EC2 had forgotten the first."""
    house = make()
    more: list[str] = []

    def send_again(_: int) -> None:
        nodes = [node for node in house.store.live(Node) if node.launched is not None]
        if nodes and not more:
            request = request_of(nodes[0].ask, CLUSTER, POOL, nodes[0].launch)
            answer = house.model.client.create_fleet(**{**request, "ClientToken": "another"})
            more.extend(id for each in answer["Instances"] for id in each["InstanceIds"])
            house.silent |= set() if runs else set(more)

    check(live(house, each_turn=send_again), machines=MOST_MACHINES + 2)
    for id in more:
        machine = house.model.cloud.machines[id]
        assert machine.ended is not None
        assert machine.ended - machine.launched <= 150


# --- the store ---


def steady(trial: Trial, allocation: Allocation, node: Node, ran: float) -> Exit | None:
    return COMPLETED if ran >= 60 else None


@pytest.mark.parametrize("who", ["runner", "agents"])
def test_nothing_is_ended_because_the_store_is_away_for_five_minutes(make: Make, who: str) -> None:
    """Whoever was the last to reach it, and the runner is the first to reach it again."""
    house = make(steady)
    acts: list[int] = []

    def each_turn(number: int) -> None:
        if number == 8 and who == "runner":
            house.settle()
        house.away = 8 <= number < 68
        if number in (8, 68):
            acts.append(len(house.acts.names))

    live(house, each_turn=each_turn)
    check(house, machines=4)
    assert house.acts.names[slice(*acts)].count("terminate_instances") == 0
    attempts = [each for trial in house.trials() for each in house.attempts(trial)]
    assert AllocationState.LOST not in {each.state for each in attempts}, house.story()
    ended = [each.ended or 0.0 for each in house.model.cloud.machines.values()]
    assert min(ended) > START + 68 * 5 + 20


# --- machines that EC2 takes back while they boot ---


def test_machines_that_are_taken_away_while_they_boot_do_not_stop_the_pool(make: Make) -> None:
    house = make()
    taken: list[str] = []

    def take(_: int) -> None:
        for machine in list(house.model.cloud.machines.values()):
            if machine.state is State.PENDING and len(taken) < 5:
                house.model.cloud.interrupt(machine, None)
                taken.append(machine.id)

    check(live(house, each_turn=take), machines=MOST_MACHINES + 5)
    book = house.store.get(Supply, POOL)
    assert (book.failures, book.stopped) == (0, None)


def test_machines_that_end_by_themselves_while_they_boot_stop_the_pool(make: Make) -> None:
    """As with a broken image; those of a quota or a reclaim are not of that sort."""
    house = make()
    submit_small_life(house)
    for _ in range(150):
        house.turn()
        for machine in house.model.living():
            house.model.cloud.end(machine, Why.ITSELF)
    book = house.store.get(Supply, POOL)
    assert book.stopped is not None
    assert house.made() <= 8
    assert house.left_behind() == []
