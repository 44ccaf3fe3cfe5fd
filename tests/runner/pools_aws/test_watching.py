"""Observing, ending and finding machines: unknown is not dead, and billed is not gone."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import Refused, Unreachable
from burst.core.model import Node
from burst.runner.pools.aws.fleet import OWN_GROUP
from burst.runner.pools.port import Leftover, Liveness
from tests.runner.pools_aws.house import (
    EPOCH,
    LAUNCH,
    A,
    Answer,
    ScriptedEc2,
    an_ask,
    an_instance,
    listed,
    lost,
    moment,
    nodes_for,
    pool_of,
    said,
)

GROUP = f"burst-lab-{LAUNCH}"
GANG = an_ask(2, A, whole=True, group=OWN_GROUP)


def with_machine(id: str = "i-1", ask: Any = None, **fields: Any) -> Node:
    (node,) = nodes_for(ask or an_ask(), 1, handle={"instance": id}, launched=EPOCH, **fields)
    return node


@pytest.mark.parametrize(
    ("state", "liveness"),
    [
        ("pending", Liveness.ALIVE),
        ("running", Liveness.ALIVE),
        ("stopping", Liveness.ALIVE),
        ("stopped", Liveness.ALIVE),
        ("shutting-down", Liveness.ALIVE),
        ("terminated", Liveness.DEAD),
    ],
)
def test_a_machine_is_alive_until_ec2_says_terminated(state: str, liveness: Liveness) -> None:
    node = with_machine()
    ec2 = ScriptedEc2(("describe_instances", listed(an_instance("i-1", state=state))))
    assert pool_of(ec2).observe([node]) == {node.id: liveness}


def test_all_machines_are_seen_in_one_look_of_as_many_pages_as_it_has() -> None:
    nodes = [with_machine(f"i-{number}") for number in range(3)]
    nodes = [node.model_copy(update={"id": f"{node.id}{n}"}) for n, node in enumerate(nodes)]
    ec2 = ScriptedEc2(
        ("describe_instances", listed(an_instance("i-0"), an_instance("i-1"), more="2")),
        ("describe_instances", listed(an_instance("i-2", state="terminated"))),
    )
    assert list(pool_of(ec2).observe(nodes).values()) == [
        Liveness.ALIVE,
        Liveness.ALIVE,
        Liveness.DEAD,
    ]
    assert ec2.asked[1][1]["NextToken"] == "2"
    assert pool_of(ScriptedEc2()).observe([]) == {}, "and none without a node to look for"


@pytest.mark.parametrize(
    ("ec2_date", "own_date", "liveness"),
    [
        (EPOCH + 1, EPOCH + 1, Liveness.UNKNOWN),
        (EPOCH + 599, EPOCH + 3000, Liveness.UNKNOWN),
        (EPOCH + 601, EPOCH - 3000, Liveness.DEAD),
    ],
)
def test_what_is_not_listed_is_unknown_for_a_while_by_ec2s_clock_and_then_dead(
    ec2_date: float, own_date: float, liveness: Liveness
) -> None:
    node = with_machine()
    ec2 = ScriptedEc2(("describe_instances", listed()), date=ec2_date)
    assert pool_of(ec2, ManualClock(own_date)).observe([node]) == {node.id: liveness}


@pytest.mark.parametrize("ahead", [-300.0, 300.0])
def test_the_clock_of_whoever_wrote_the_intent_does_not_count(ahead: float) -> None:
    node = with_machine(ask={**an_ask(), "ahead": ahead}, requested=EPOCH - ahead)
    for after, liveness in ((599, Liveness.UNKNOWN), (601, Liveness.DEAD)):
        ec2 = ScriptedEc2(("describe_instances", listed()), date=EPOCH + after)
        assert pool_of(ec2).observe([node]) == {node.id: liveness}


def test_where_ec2s_clock_was_not_known_there_is_time_for_clocks_that_differ() -> None:
    node = with_machine().model_copy(update={"ask": {}})
    for after, liveness in ((1199, Liveness.UNKNOWN), (1201, Liveness.DEAD)):
        ec2 = ScriptedEc2(("describe_instances", listed()))
        assert pool_of(ec2, ManualClock(EPOCH + after)).observe([node])[node.id] is liveness


def test_a_node_without_a_machine_is_never_alive_and_dead_only_when_none_can_come() -> None:
    (node,) = nodes_for(an_ask())

    def seen(after: float, *instances: Any) -> Liveness:
        ec2 = ScriptedEc2(("describe_instances", listed(*instances)), date=EPOCH + after)
        return pool_of(ec2, ManualClock(EPOCH + after)).observe([node])[node.id]

    assert seen(1) is Liveness.UNKNOWN
    assert seen(601) is Liveness.DEAD
    assert seen(601, an_instance("i-9")) is Liveness.UNKNOWN, "that one may be its own"
    assert seen(601, an_instance("i-9", launch="launch-other")) is Liveness.DEAD
    assert seen(601, an_instance("i-9", state="terminated")) is Liveness.DEAD


@pytest.mark.parametrize(
    "answer",
    [said("RequestLimitExceeded", status=503), lost(), said("InternalError", status=500)],
)
def test_what_cannot_be_seen_is_unknown(answer: Exception) -> None:
    node = with_machine()
    ec2 = ScriptedEc2(*[("describe_instances", answer)] * 3)
    assert pool_of(ec2).observe([node]) == {node.id: Liveness.UNKNOWN}


def test_what_may_not_be_seen_is_unknown() -> None:
    node = with_machine()
    ec2 = ScriptedEc2(("describe_instances", said("UnauthorizedOperation")))
    assert pool_of(ec2).observe([node]) == {node.id: Liveness.UNKNOWN}


def ended(id: str, state: str = "shutting-down") -> dict[str, Any]:
    return {"TerminatingInstances": [{"InstanceId": id, "CurrentState": {"Name": state}}]}


def test_ending_is_one_request() -> None:
    ec2 = ScriptedEc2(("terminate_instances", ended("i-1")))
    pool_of(ec2).terminate(with_machine())
    assert ec2.asked == [("terminate_instances", {"InstanceIds": ["i-1"]})]


def test_ending_what_ec2_does_not_show_yet_is_not_taken_for_done() -> None:
    node = with_machine()
    ec2 = ScriptedEc2(("terminate_instances", said("InvalidInstanceID.NotFound", date=EPOCH + 2)))
    with pytest.raises(Unreachable, match=node.id):
        pool_of(ec2).terminate(node)


def test_ending_what_ec2_has_forgotten_is_done() -> None:
    ec2 = ScriptedEc2(
        ("terminate_instances", said("InvalidInstanceID.NotFound", date=EPOCH + 4000))
    )
    pool_of(ec2).terminate(with_machine())


def test_a_placement_group_goes_with_its_last_machine() -> None:
    node = with_machine(ask=GANG)
    ec2 = ScriptedEc2(("terminate_instances", ended("i-1")))
    pool_of(ec2).terminate(node)
    unknown, in_use = said("InvalidPlacementGroup.Unknown"), said("InvalidPlacementGroup.InUse")
    answers: tuple[Answer, ...] = ({}, unknown, in_use)
    for answer in answers:
        ec2 = ScriptedEc2(
            ("terminate_instances", ended("i-1", "terminated")), ("delete_placement_group", answer)
        )
        pool_of(ec2).terminate(node)
        assert ec2.asked[1][1] == {"GroupName": GROUP}


def test_a_node_that_never_had_a_machine_may_be_ended() -> None:
    (alone,) = nodes_for(an_ask(1))
    ec2 = ScriptedEc2(
        ("describe_instances", listed(an_instance("i-7"), an_instance("i-8", state="terminated"))),
        ("terminate_instances", ended("i-7")),
    )
    pool_of(ec2).terminate(alone)
    assert ec2.asked[1][1] == {"InstanceIds": ["i-7"]}, "its answer was lost, and it did come"
    pool_of(ScriptedEc2()).terminate(nodes_for(an_ask(2), 2)[0])


def test_one_wrong_id_does_not_keep_the_others_alive() -> None:
    (node,) = nodes_for(an_ask(1))
    ec2 = ScriptedEc2(
        ("describe_instances", listed(an_instance("i-7"), an_instance("i-8"))),
        ("terminate_instances", said("InvalidInstanceID.NotFound")),
        ("terminate_instances", said("InvalidInstanceID.NotFound")),
        ("terminate_instances", ended("i-8")),
    )
    pool_of(ec2).terminate(node)
    assert [asked.get("InstanceIds") for _, asked in ec2.asked[1:]] == [
        ["i-7", "i-8"],
        ["i-7"],
        ["i-8"],
    ]


def test_ending_that_is_refused_says_so() -> None:
    ec2 = ScriptedEc2(("terminate_instances", said("UnauthorizedOperation", "You may not.")))
    with pytest.raises(Refused, match="terminate_instances") as caught:
        pool_of(ec2).terminate(with_machine())
    assert "You may not." in caught.value.why


def test_every_machine_that_is_billed_is_found_by_its_tags_with_its_age_by_ec2s_clock() -> None:
    ec2 = ScriptedEc2(
        (
            "describe_instances",
            listed(
                an_instance("i-2", launch="launch-other", made=EPOCH - 50),
                an_instance("i-1", state="shutting-down"),
                an_instance("i-3", state="terminated"),
            ),
        ),
        ("terminate_instances", ended("i-1")),
        date=EPOCH + 10,
    )
    pool = pool_of(ec2, ManualClock(EPOCH + 9999))
    machines = pool.machines()
    assert [(each.id, each.launch, each.age) for each in machines] == [
        ("i-1", LAUNCH, 10.0),
        ("i-2", "launch-other", 60.0),
    ]
    assert machines[0].handle["instance"] == "i-1"
    filters = {each["Name"]: each["Values"] for each in ec2.asked[0][1]["Filters"]}
    assert filters == {"tag:burst:cluster": ["lab"], "tag:burst:pool": ["spot"]}
    pool.end(machines[0])
    assert ec2.asked[1][1] == {"InstanceIds": ["i-1"]}


def test_the_end_of_the_console_is_shown_also_where_there_is_no_latest() -> None:
    ec2 = ScriptedEc2(
        ("get_console_output", said("UnsupportedOperation")),
        ("get_console_output", {"Output": "x" * 9000 + "the last line\n"}),
    )
    said_last = pool_of(ec2).console(with_machine())
    assert said_last.endswith("the last line\n")
    assert len(said_last) == 8000
    assert pool_of(ScriptedEc2()).console(nodes_for(an_ask())[0]) == ""
    gone = ScriptedEc2(*[("get_console_output", said("InvalidInstanceID.NotFound"))] * 2)
    assert pool_of(gone).console(with_machine()) == ""


@pytest.mark.parametrize(
    ("code", "taken"),
    [
        ("Server.SpotInstanceTermination", True),
        ("Server.SpotInstanceShutdown", True),
        ("Server.InsufficientInstanceCapacity", True),
        ("Server.InternalError", True),
        ("Client.InstanceInitiatedShutdown", False),
        ("Client.UserInitiatedShutdown", False),
        ("Client.InternalError", False),
    ],
)
def test_what_ec2_ended_is_told_from_what_ended_by_itself(code: str, taken: bool) -> None:
    why = {"Code": code, "Message": f"{code}: the words of EC2"}
    instance = an_instance("i-1", state="terminated", StateReason=why)
    pool = pool_of(ScriptedEc2(("describe_instances", listed(instance))))
    found = pool.withdrawn(with_machine())
    assert bool(found) is taken
    for offer, refusal in found.items():
        assert offer == A.key
        assert (refusal.code, refusal.text) == (code, "the words of EC2")


@pytest.mark.parametrize("instances", [(), (an_instance("i-1", state="running"),)])
def test_nothing_is_told_of_an_end_that_is_not_to_be_seen(instances: Any) -> None:
    pool = pool_of(ScriptedEc2(("describe_instances", listed(*instances))))
    assert pool.withdrawn(with_machine()) == {}


OWN = [{"Key": "burst:cluster", "Value": "lab"}, {"Key": "burst:pool", "Value": "spot"}]
TAGS = [*OWN, {"Key": "burst:launch", "Value": LAUNCH}]


def test_what_outlived_the_machines_is_listed_with_one_request_of_each_kind() -> None:
    disk = {"VolumeId": "vol-1", "CreateTime": moment(EPOCH - 100), "Tags": TAGS}
    ec2 = ScriptedEc2(
        ("describe_instances", listed(an_instance("i-1", group="burst-lab-used"))),
        ("describe_volumes", {"Volumes": [disk]}),
        (
            "describe_network_interfaces",
            {"NetworkInterfaces": [{"NetworkInterfaceId": "eni-1", "TagSet": OWN}]},
        ),
        (
            "describe_placement_groups",
            {
                "PlacementGroups": [
                    {"GroupName": "burst-lab-used", "Tags": TAGS},
                    {"GroupName": GROUP, "Tags": TAGS},
                ]
            },
        ),
    )
    assert pool_of(ec2).leftovers() == [
        Leftover("volume", "vol-1", 100.0, LAUNCH, "spot"),
        Leftover("network interface", "eni-1", None, pool="spot"),
        Leftover("placement group", GROUP, None, LAUNCH, "spot"),
    ]
    for _, asked in ec2.asked[1:]:
        names = {each["Name"] for each in asked["Filters"]}
        assert {"tag:burst:cluster", "tag:burst:pool"} < names


@pytest.mark.parametrize(
    ("leftover", "operation", "asked", "gone", "in_use"),
    [
        (
            Leftover("volume", "vol-1", None),
            "delete_volume",
            {"VolumeId": "vol-1"},
            "InvalidVolume.NotFound",
            "VolumeInUse",
        ),
        (
            Leftover("network interface", "eni-1", None),
            "delete_network_interface",
            {"NetworkInterfaceId": "eni-1"},
            "InvalidNetworkInterfaceID.NotFound",
            "InvalidNetworkInterface.InUse",
        ),
        (
            Leftover("placement group", GROUP, None),
            "delete_placement_group",
            {"GroupName": GROUP},
            "InvalidPlacementGroup.Unknown",
            "InvalidPlacementGroup.InUse",
        ),
    ],
)
def test_a_leftover_is_removed_and_one_in_use_is_not(
    leftover: Leftover, operation: str, asked: dict[str, str], gone: str, in_use: str
) -> None:
    ec2 = ScriptedEc2(
        (operation, {}),
        (operation, said(gone)),
        (operation, said(in_use)),
        (operation, said("UnauthorizedOperation")),
    )
    pool = pool_of(ec2)
    assert pool.remove(leftover)
    assert pool.remove(leftover), "which somebody else has removed"
    assert not pool.remove(leftover)
    with pytest.raises(Refused):
        pool.remove(leftover)
    assert ec2.asked[0][1] == asked
