"""The same life while clocks are wrong, others act too, and the store or EC2 is away."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.model import Allocation, Exit, Node, Trial
from burst.core.states import AllocationState
from burst.runner.node.timekeeping import MOST_SKEW_S
from burst.runner.pools.aws.fleet import request_of
from tests.runner.cloud.faults import OPERATIONS, Acts
from tests.runner.cloud.house import DIE, NOTICE, SILENT, CloudHouse
from tests.runner.cloud.life import MOST_MACHINES, Make, check, live
from tests.runner.cloud.model import CLUSTER, POOL, START
from tests.runner.house import COMPLETED

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


def test_nothing_is_ended_because_ec2_is_away_for_five_minutes(make: Make) -> None:
    """What trains goes on, and comes to its end; what has become idle is ended later."""
    house = make(steady)
    away = range(10, 70)

    def each_turn(number: int) -> None:
        house.acts.first_of = set(OPERATIONS) if number in away else set()
        if number == 69:
            assert house.over(), "who trains does not need EC2"
            assert house.store.live(Node), "what could not be ended is not called gone"

    def again(_: int) -> None:
        house.acts.first_of |= OPERATIONS if house.acts.first_of else set()

    house.acts.meanwhile = again
    check(live(house, each_turn=each_turn), machines=4)
    attempts = [each for trial in house.trials() for each in house.attempts(trial)]
    assert [len(house.attempts(trial)) for trial in house.trials()] == [1, 1, 1]
    assert AllocationState.LOST not in {each.state for each in attempts}


def test_nothing_is_lost_because_ec2_takes_its_time_to_answer(make: Make) -> None:
    """Leases are judged by when they were read, not by when EC2 has answered at last."""

    def long(trial: Trial, allocation: Allocation, node: Node, ran: float) -> Exit | None:
        return COMPLETED if ran >= 400 else None

    def slowly(_: int) -> None:
        if house.acts.names[-1] == "describe_instances" and house.store.live(Allocation):
            for _ in range(12):
                house.model.advance(5.0)
                house.play()

    def look_before(_: int) -> None:
        """Two looks between which no agent has renewed its lease."""
        house.settle()
        house.model.advance(5.0)

    house = make(long)
    house.acts.meanwhile = slowly
    check(live(house, each_turn=look_before), machines=4)
    assert [len(house.attempts(trial)) for trial in house.trials()] == [1, 1, 1]


# --- how soon others come ---


def requested_within(house: CloudHouse, of: float) -> float:
    """Seconds from then until nodes were asked for."""
    events = house.store.events("", limit=1000).events
    return min(each.at for each in events if each.name == "node.requested" and each.at >= of) - of


@pytest.mark.parametrize("deaf", [False, True], ids=["by-its-agent", "by-the-events-of-ec2"])
def test_after_a_notice_another_machine_is_asked_for_within_ten_seconds(
    make: Make, deaf: bool
) -> None:
    told: list[float] = []

    def script(trial: Trial, allocation: Allocation, node: Node, ran: float) -> Any:
        if allocation.attempt == 1 and trial.number == 0 and len(allocation.shares) == 1:
            return None if told else NOTICE if ran >= 5 else None
        return COMPLETED if ran >= 150 else None

    def each_turn(_: int) -> None:
        noticed = [m for m in house.model.cloud.machines.values() if m.noticed is not None]
        if noticed and not told:
            told.append(house.model.clock.now())
            if deaf:
                house.silent.add(noticed[0].id)
                house.runner.hear_notice(noticed[0].id, noticed[0].reclaim_at or 0.0)

    house = make(script)
    check(live(house, each_turn=each_turn), machines=5)
    assert requested_within(house, told[0]) <= 10


@pytest.mark.parametrize("how", [DIE, SILENT])
def test_after_a_loss_without_notice_another_machine_is_asked_for_within_ninety_seconds(
    make: Make, how: str
) -> None:
    lost: list[float] = []

    def script(trial: Trial, allocation: Allocation, node: Node, ran: float) -> Any:
        first = allocation.attempt == 1 and len(allocation.shares) > 1
        if first and ran >= 10 and not lost:
            lost.append(house.model.clock.now())
            return how
        return COMPLETED if ran >= 120 else None

    house = make(script)
    check(live(house), machines=5)
    assert requested_within(house, lost[0]) <= 90
