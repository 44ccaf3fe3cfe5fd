"""The same life while EC2 shows, gives and says less than it should."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.model import Allocation, Node, Supply, Trial
from burst.runner.rehearsal.ec2.machine import Reason as Why
from burst.runner.rehearsal.ec2.machine import State
from burst.runner.rehearsal.ec2.rules import CapacityRule, Kind, Quota
from tests.runner.cloud.faults import OPERATIONS, Acts, Ended, said
from tests.runner.cloud.house import DIE, SILENT, CloudHouse
from tests.runner.cloud.life import MOST_MACHINES, Make, check, live, small_life, submit_small_life
from tests.runner.cloud.model import POOL, START, ZONES


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
