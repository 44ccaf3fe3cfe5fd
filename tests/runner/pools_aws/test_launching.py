"""Launching, with each answer that EC2 was seen to give: nothing is started twice or lost."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import Unreachable
from burst.core.model import RefusalKind
from burst.runner.pools.aws.fleet import OWN_GROUP
from tests.runner.pools_aws.house import (
    EPOCH,
    LAUNCH,
    A,
    B,
    ScriptedEc2,
    an_ask,
    an_instance,
    gave,
    ids_of,
    listed,
    lost,
    nodes_for,
    pool_of,
    refused,
    said,
)

GROUP = f"burst-lab-{LAUNCH}"
GANG = an_ask(2, A, whole=True, group=OWN_GROUP)


def test_a_fresh_intent_is_one_request() -> None:
    ec2 = ScriptedEc2(("create_fleet", {"Instances": [gave(A, "i-1", "i-2")]}))
    launched = pool_of(ec2).launch(nodes_for(an_ask(2), 2))
    assert ids_of(launched.nodes) == ["i-1", "i-2"]
    assert launched.refusals == {}
    assert ec2.operations == ["create_fleet"]


def test_a_gang_makes_its_placement_group_first() -> None:
    ec2 = ScriptedEc2(
        ("create_placement_group", {}),
        ("create_fleet", {"Instances": [gave(A, "i-1", "i-2")]}),
    )
    launched = pool_of(ec2).launch(nodes_for(GANG, 2))
    assert {node.cell for node in launched.nodes} == {f"us-east-1a/p5.48xlarge/{GROUP}"}
    made, fleet = (asked for _, asked in ec2.asked)
    assert (made["GroupName"], made["Strategy"]) == (GROUP, "cluster")
    assert fleet["SpotOptions"]["MinTargetCapacity"] == 2


def test_a_placement_group_that_is_there_already_is_used() -> None:
    ec2 = ScriptedEc2(
        ("create_placement_group", said("InvalidPlacementGroup.Duplicate")),
        ("create_fleet", {"Instances": [gave(A, "i-1", "i-2")]}),
    )
    assert len(pool_of(ec2).launch(nodes_for(GANG, 2)).nodes) == 2


def test_the_placement_group_of_a_gang_that_got_nothing_is_removed() -> None:
    ec2 = ScriptedEc2(
        ("create_placement_group", {}),
        ("create_fleet", {"Errors": [refused(A, "InsufficientInstanceCapacity")]}),
        ("delete_placement_group", {}),
    )
    launched = pool_of(ec2).launch(nodes_for(GANG, 2))
    assert launched.nodes == ()
    assert list(launched.refusals) == ["spot/us-east-1a/p5.48xlarge"]
    assert ec2.asked[-1][1] == {"GroupName": GROUP}


def test_errors_and_an_instance_are_both_taken() -> None:
    answer = {
        "Instances": [gave(B, "i-1")],
        "Errors": [refused(A, "InsufficientInstanceCapacity")],
    }
    ec2 = ScriptedEc2(("create_fleet", answer))
    launched = pool_of(ec2).launch(nodes_for(an_ask(1)))
    assert ids_of(launched.nodes) == ["i-1"]
    assert list(launched.refusals) == ["spot/us-east-1a/p5.48xlarge"]


def test_with_fewer_machines_than_asked_the_rest_of_the_nodes_get_none() -> None:
    answer = {
        "Instances": [gave(A, "i-1")],
        "Errors": [refused(B, "UnfulfillableCapacity")],
    }
    ec2 = ScriptedEc2(("create_fleet", answer))
    nodes = nodes_for(an_ask(3), 3)
    launched = pool_of(ec2).launch(nodes)
    assert [node.id for node in launched.nodes] == [nodes[0].id]
    assert ec2.operations == ["create_fleet"], "asking again would be another request"


REFUSALS = [
    ("InsufficientInstanceCapacity", "capacity", "spot/us-east-1a/p5.48xlarge"),
    ("MaxSpotInstanceCountExceeded", "quota", "spot/*/P5"),
    ("VcpuLimitExceeded", "quota", "spot/*/P5"),
    ("InsufficientFreeAddressesInSubnet", "network", "*/subnet-a/*"),
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "permission", "spot/*/*"),
    ("UnauthorizedOperation", "permission", "*"),
    ("InvalidIamInstanceProfile.NotFound", "bug", "*"),
    ("InvalidParameterValue", "bug", "*"),
    ("InvalidLaunchTemplateName.NotFoundException", "bug", "*"),
]
"""What came as a failure inside EC2 is a refusal only where its code is known as one."""


@pytest.mark.parametrize(
    ("code", "kind", "key", "status"),
    [
        (*each, status)
        for each in REFUSALS
        for status in (200, 400, 500)
        if status != 500 or each[1] != "bug"
    ],
)
def test_a_refusal_has_ec2s_code_whether_it_comes_in_the_answer_or_instead_of_it(
    code: str, kind: str, key: str, status: int
) -> None:
    answer: Any = {"Errors": [refused(A, code, "EC2's words")]}
    if status != 200:
        answer = said(code, "EC2's words", status)
    ec2 = ScriptedEc2(("create_fleet", answer))
    launched = pool_of(ec2).launch(nodes_for(an_ask(1, A)))
    assert launched.nodes == ()
    ((found, made),) = launched.refusals.items()
    assert (found, made.kind, made.code) == (key, kind, code)
    assert made.text.startswith("EC2's words")
    assert made.until > made.at == EPOCH
    assert ec2.operations == ["create_fleet"], "nothing is tried behind the runner's back"


def test_a_throttled_request_is_sent_again_with_the_same_token() -> None:
    ec2 = ScriptedEc2(
        ("create_fleet", said("RequestLimitExceeded", status=503)),
        ("create_fleet", {"Instances": [gave(A, "i-1")]}),
    )
    assert ids_of(pool_of(ec2).launch(nodes_for(an_ask())).nodes) == ["i-1"]
    first, second = (asked for _, asked in ec2.asked)
    assert first == second


def test_what_is_throttled_for_long_is_asked_for_later_and_nobody_rests() -> None:
    ec2 = ScriptedEc2(*[("create_fleet", said("RequestLimitExceeded", status=503))] * 3)
    with pytest.raises(Unreachable, match="create_fleet"):
        pool_of(ec2).launch(nodes_for(an_ask()))


@pytest.mark.parametrize("answer", [lost(), said("InternalError", status=500)])
def test_a_lost_answer_is_not_repeated_but_looked_for_by_tag(answer: Exception) -> None:
    clock = ManualClock(EPOCH)
    ec2 = ScriptedEc2(("create_fleet", answer), ("describe_instances", listed(an_instance("i-1"))))
    pool, nodes = pool_of(ec2, clock), nodes_for(an_ask())
    with pytest.raises(Unreachable):
        pool.launch(nodes)
    assert ec2.operations == ["create_fleet"]
    clock.advance(5)
    assert ids_of(pool.launch(nodes).nodes) == ["i-1"]
    filters = {each["Name"]: each["Values"] for each in ec2.asked[1][1]["Filters"]}
    assert filters["tag:burst:launch"] == [LAUNCH]


def test_what_is_not_to_be_seen_yet_is_asked_for_with_the_same_token() -> None:
    clock = ManualClock(EPOCH)
    ec2 = ScriptedEc2(
        ("create_fleet", lost()),
        ("describe_instances", listed()),
        ("create_fleet", {"Instances": [gave(A, "i-1")]}),
    )
    pool, nodes = pool_of(ec2, clock), nodes_for(an_ask())
    with pytest.raises(Unreachable):
        pool.launch(nodes)
    clock.advance(5)
    assert ids_of(pool.launch(nodes).nodes) == ["i-1"]
    assert ec2.asked[0] == ec2.asked[2]


def test_where_only_some_are_to_be_seen_the_same_request_tells_of_all() -> None:
    ec2 = ScriptedEc2(
        ("describe_instances", listed(an_instance("i-2"))),
        ("create_fleet", {"Instances": [gave(A, "i-1", "i-2")]}),
    )
    launched = pool_of(ec2, ManualClock(EPOCH + 30)).launch(nodes_for(an_ask(2), 2))
    assert ids_of(launched.nodes) == ["i-1", "i-2"]


def test_an_error_at_the_second_time_does_not_hide_what_the_first_has_started() -> None:
    ec2 = ScriptedEc2(
        ("describe_instances", listed(an_instance("i-1"))),
        ("create_fleet", said("UnauthorizedOperation")),
    )
    launched = pool_of(ec2, ManualClock(EPOCH + 30)).launch(nodes_for(an_ask(2), 2))
    assert ids_of(launched.nodes) == ["i-1"]
    assert list(launched.refusals) == ["*"]


def test_an_old_intent_is_never_sent_and_what_came_of_it_is_taken() -> None:
    ec2 = ScriptedEc2(("describe_instances", listed(an_instance("i-1"))))
    launched = pool_of(ec2, ManualClock(EPOCH + 301)).launch(nodes_for(an_ask(2), 2))
    assert ids_of(launched.nodes) == ["i-1"]
    ec2 = ScriptedEc2(("describe_instances", listed()))
    assert pool_of(ec2, ManualClock(EPOCH + 301)).launch(nodes_for(an_ask())).nodes == ()


def test_a_machine_of_an_old_intent_that_has_ended_is_not_started_again() -> None:
    ec2 = ScriptedEc2(("describe_instances", listed(an_instance("i-1", state="terminated"))))
    launched = pool_of(ec2, ManualClock(EPOCH + 60)).launch(nodes_for(an_ask()))
    assert ids_of(launched.nodes) == ["i-1"], "which observing then says is dead"


def test_an_intent_of_a_runner_whose_clock_is_ahead_is_looked_for_first() -> None:
    ec2 = ScriptedEc2(("describe_instances", listed(an_instance("i-1"))))
    launched = pool_of(ec2, ManualClock(EPOCH - 200)).launch(nodes_for(an_ask()))
    assert ids_of(launched.nodes) == ["i-1"]


def test_the_same_token_with_other_parameters_is_looked_for_by_tag() -> None:
    ec2 = ScriptedEc2(
        ("create_fleet", said("IdempotentParameterMismatch")),
        ("describe_instances", listed(an_instance("i-1"))),
    )
    launched = pool_of(ec2).launch(nodes_for(an_ask()))
    assert ids_of(launched.nodes) == ["i-1"]
    assert launched.refusals == {}


def test_the_same_token_with_other_parameters_and_nothing_to_be_seen_is_not_known() -> None:
    ec2 = ScriptedEc2(
        ("create_fleet", said("IdempotentParameterMismatch")), ("describe_instances", listed())
    )
    with pytest.raises(Unreachable, match=LAUNCH):
        pool_of(ec2).launch(nodes_for(an_ask()))


def test_expired_credentials_are_looked_up_anew_once() -> None:
    ec2 = ScriptedEc2(
        ("create_fleet", said("RequestExpired")),
        ("create_fleet", {"Instances": [gave(A, "i-1")]}),
    )
    assert len(pool_of(ec2).launch(nodes_for(an_ask())).nodes) == 1
    assert ec2.sessions == 1
    ec2 = ScriptedEc2(*[("create_fleet", said("ExpiredToken"))] * 2)
    with pytest.raises(Unreachable, match="credentials"):
        pool_of(ec2).launch(nodes_for(an_ask()))


def test_of_an_intent_that_does_not_say_what_to_ask_only_what_is_there_is_taken() -> None:
    ec2 = ScriptedEc2(("describe_instances", listed(an_instance("i-1"))))
    assert ids_of(pool_of(ec2).launch(nodes_for({})).nodes) == ["i-1"]


def test_a_bad_profile_is_no_lack_of_capacity() -> None:
    code = "InvalidIamInstanceProfile.NotFound"
    ec2 = ScriptedEc2(("create_fleet", {"Errors": [refused(A, code), refused(B, code)]}))
    launched = pool_of(ec2).launch(nodes_for(an_ask()))
    assert {each.kind for each in launched.refusals.values()} == {RefusalKind.BUG}
