"""A fleet of the model's answers as one of EC2's does, to boto3."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from burst.core.aws.names import LAUNCH
from tests.rehearsal.lab import Lab, code_of, codes_of, ids_of, launch_tag

A, B, E = "us-east-1a", "us-east-1b", "us-east-1e"
CPU, BIG = "c5.large", "p5.48xlarge"
GANG = {
    "SingleInstanceType": True,
    "SingleAvailabilityZone": True,
    "MinTargetCapacity": 2,
    "AllocationStrategy": "price-capacity-optimized",
}


def test_a_fleet_gives_machines_of_what_it_was_asked(cloud: Lab) -> None:
    made = cloud.fleet(
        cloud.template(), 2, [(CPU, A), (CPU, B)], TagSpecifications=launch_tag("launch-1")
    )
    assert codes_of(made) == []
    ids = ids_of(made)
    assert len(set(ids)) == 2
    seen = cloud.state(ids[0])
    tags = {each["Key"]: each["Value"] for each in seen["Tags"]}
    assert tags[LAUNCH] == "launch-1"
    assert tags["aws:ec2:fleet-id"] == made["FleetId"]
    assert (seen["InstanceType"], seen["InstanceLifecycle"]) == (CPU, "spot")
    assert seen["SpotInstanceRequestId"]
    assert seen["MetadataOptions"]["HttpTokens"] == "required"
    assert seen["MetadataOptions"]["InstanceMetadataTags"] == "enabled"
    facts = cloud.control.machine(ids[0])
    assert facts.zone == seen["Placement"]["AvailabilityZone"]
    assert facts.market == "spot"


def test_an_instance_on_demand_costs_more_and_says_what_it_is(cloud: Lab) -> None:
    spot = cloud.launch()
    demand = cloud.launch(market="on-demand")
    assert "InstanceLifecycle" not in cloud.state(demand[0])
    assert cloud.control.machine(spot[0]).price < cloud.control.machine(demand[0]).price


def test_a_fleet_says_both_what_it_started_and_what_was_refused(cloud: Lab) -> None:
    cloud.control.set_capacity(1, type=CPU, zone=A)
    cloud.control.set_price(0.001, type=CPU, zone=A, market="spot")
    made = cloud.fleet(cloud.template(), 3, [(CPU, A), (CPU, B)])
    assert len(ids_of(made)) == 3
    assert codes_of(made) == ["InsufficientInstanceCapacity"]
    refused = made["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]
    assert (refused["InstanceType"], refused["AvailabilityZone"]) == (CPU, A)
    assert made["Errors"][0]["Lifecycle"] == "spot"


def test_a_gang_is_started_whole_where_it_fits(cloud: Lab) -> None:
    cloud.control.set_capacity(1, type=CPU, zone=A)
    made = cloud.fleet(cloud.template(), 2, [(CPU, A), (CPU, B)], options=GANG)
    zones = {cloud.control.machine(id).zone for id in ids_of(made)}
    assert (len(ids_of(made)), zones) == (2, {B})


def test_a_gang_that_fits_nowhere_is_not_started_at_all(cloud: Lab) -> None:
    before = len(cloud.control.machines())
    cloud.control.set_capacity(1, type=CPU)
    made = cloud.fleet(cloud.template(), 2, [(CPU, A), (CPU, B)], options=GANG)
    assert ids_of(made) == []
    assert set(codes_of(made)) == {"InsufficientInstanceCapacity"}
    assert len(cloud.control.machines()) == before


def test_capacity_that_comes_later_is_there_later_and_not_before(cloud: Lab) -> None:
    template = cloud.template()
    cloud.control.set_capacity(0, type=CPU)
    cloud.control.set_capacity(1, type=CPU, since=time.time() + 3600)
    assert ids_of(cloud.fleet(template)) == []
    cloud.control.set_capacity(1, type=CPU, since=time.time() - 1)
    assert len(ids_of(cloud.fleet(template))) == 1
    assert codes_of(cloud.fleet(template)) == ["InsufficientInstanceCapacity"]


def test_what_has_ended_is_capacity_again(cloud: Lab) -> None:
    cloud.control.set_capacity(1, type=CPU)
    first = cloud.launch()
    assert ids_of(cloud.fleet(cloud.template())) == []
    cloud.ec2.terminate_instances(InstanceIds=first)
    cloud.gone(first[0])
    assert len(ids_of(cloud.fleet(cloud.template()))) == 1


def unknown_group(cloud: Lab) -> dict[str, Any]:
    return cloud.fleet(cloud.template(Placement={"GroupName": "no-such-group"}))


def unknown_subnet(cloud: Lab) -> dict[str, Any]:
    cloud.subnets["nowhere"] = "subnet-0000000000000000f"
    return cloud.fleet(cloud.template(), offers=[(CPU, "nowhere")])


def unknown_type(cloud: Lab) -> dict[str, Any]:
    return cloud.fleet(cloud.template(), offers=[("c5.tiny", A)])


def too_cheap(cloud: Lab) -> dict[str, Any]:
    override = {"InstanceType": CPU, "SubnetId": cloud.subnets[A], "MaxPrice": "0.000001"}
    named = {"LaunchTemplateName": cloud.template(), "Version": "$Latest"}
    configs = [{"LaunchTemplateSpecification": named, "Overrides": [override]}]
    return cloud.fleet("", LaunchTemplateConfigs=configs)


def no_quota(cloud: Lab, market: str) -> dict[str, Any]:
    cloud.control.set_quota(0, market=market)
    return cloud.fleet(cloud.template(), market=market)


def no_capacity(cloud: Lab) -> dict[str, Any]:
    cloud.control.set_capacity(0, market="spot")
    return cloud.fleet(cloud.template())


def two_addresses(cloud: Lab) -> dict[str, Any]:
    interface = {"AssociatePublicIpAddress": True, "InterfaceType": "efa"}
    cards = [
        {**interface, "DeviceIndex": min(card, 1), "NetworkCardIndex": card} for card in (0, 1)
    ]
    return cloud.fleet(cloud.template(NetworkInterfaces=cards), offers=[(BIG, A)])


def efa_on_a_type_without(cloud: Lab) -> dict[str, Any]:
    cards = [{"DeviceIndex": 0, "InterfaceType": "efa"}]
    return cloud.fleet(cloud.template(NetworkInterfaces=cards))


def cluster_of_what_cannot(cloud: Lab) -> dict[str, Any]:
    name = f"group-{uuid.uuid4().hex}"
    cloud.ec2.create_placement_group(GroupName=name, Strategy="cluster")
    template = cloud.template(Placement={"GroupName": name})
    return cloud.fleet(template, offers=[("t3.micro", A)])


def no_spot_role(cloud: Lab) -> dict[str, Any]:
    cloud.control.refuse("AuthFailure.ServiceLinkedRoleCreationNotPermitted", market="spot")
    return cloud.fleet(cloud.template())


REFUSED: list[tuple[Callable[[Lab], dict[str, Any]], str]] = [
    (no_capacity, "InsufficientInstanceCapacity"),
    (lambda cloud: no_quota(cloud, "spot"), "MaxSpotInstanceCountExceeded"),
    (lambda cloud: no_quota(cloud, "on-demand"), "VcpuLimitExceeded"),
    (no_spot_role, "AuthFailure.ServiceLinkedRoleCreationNotPermitted"),
    (too_cheap, "SpotMaxPriceTooLow"),
    (unknown_group, "InvalidPlacementGroup.Unknown"),
    (cluster_of_what_cannot, "InvalidParameterCombination"),
    (unknown_subnet, "InvalidSubnetID.NotFound"),
    (lambda cloud: cloud.fleet(cloud.template(), offers=[(CPU, E)]), "InvalidFleetConfiguration"),
    (
        lambda cloud: cloud.fleet(cloud.template(), offers=[("c5.tiny", A)]),
        "InvalidParameterValue",
    ),
    (lambda cloud: cloud.fleet(cloud.template(ImageId="ami-00000000")), "InvalidAMIID.NotFound"),
    (
        lambda cloud: cloud.fleet(cloud.template(SecurityGroupIds=["sg-00000000"])),
        "InvalidGroup.NotFound",
    ),
    (two_addresses, "InvalidParameterCombination"),
    (efa_on_a_type_without, "InvalidParameterCombination"),
]


@pytest.mark.parametrize(("ask", "code"), REFUSED)
def test_a_fleet_names_the_error_of_each_offer(
    cloud: Lab, ask: Callable[[Lab], dict[str, Any]], code: str
) -> None:
    made = ask(cloud)
    assert ids_of(made) == []
    assert codes_of(made) == [code]
    assert made["Errors"][0]["ErrorMessage"]


FAILS: list[tuple[Callable[[Lab], Any], str]] = [
    (lambda cloud: cloud.fleet("no-such-template"), "InvalidLaunchTemplateName.NotFoundException"),
    (
        lambda cloud: cloud.fleet(cloud.template(), options={"MinTargetCapacity": 1}),
        "InvalidParameterCombination",
    ),
    (lambda cloud: cloud.fleet(cloud.template(), Type="maintain"), "UnsupportedOperation"),
    (
        lambda cloud: cloud.ec2.describe_instances(InstanceIds=["x-1"]),
        "InvalidInstanceID.Malformed",
    ),
    (
        lambda cloud: cloud.ec2.describe_instances(InstanceIds=["i-0000000000000000f"]),
        "InvalidInstanceID.NotFound",
    ),
    (
        lambda cloud: cloud.ec2.terminate_instances(
            InstanceIds=[*cloud.launch(), "i-0000000000000000f"]
        ),
        "InvalidInstanceID.NotFound",
    ),
    (
        lambda cloud: cloud.ec2.get_console_output(InstanceId="i-0000000000000000f"),
        "InvalidInstanceID.NotFound",
    ),
    (
        lambda cloud: cloud.ec2.delete_placement_group(GroupName="no-such-group"),
        "InvalidPlacementGroup.Unknown",
    ),
    (
        lambda cloud: cloud.ec2.describe_placement_groups(GroupNames=["no-such-group"]),
        "InvalidPlacementGroup.Unknown",
    ),
    (lambda cloud: cloud.fleet(cloud.template(), DryRun=True), "DryRunOperation"),
]


@pytest.mark.parametrize(("call", "code"), FAILS)
def test_a_call_fails_with_the_code_that_ec2_has(
    cloud: Lab, call: Callable[[Lab], Any], code: str
) -> None:
    assert code_of(lambda: call(cloud)) == code


def test_one_wrong_id_ends_none(cloud: Lab) -> None:
    ids = cloud.launch()
    wrong = [*ids, "i-0000000000000000f"]
    code_of(lambda: cloud.ec2.terminate_instances(InstanceIds=wrong))
    assert cloud.control.machine(ids[0]).ended is None


def test_the_same_token_is_the_same_fleet(cloud: Lab) -> None:
    template, token = cloud.template(), uuid.uuid4().hex
    first = cloud.fleet(template, 2, ClientToken=token)
    again = cloud.fleet(template, 2, ClientToken=token)
    assert ids_of(again) == ids_of(first)
    assert again["FleetId"] == first["FleetId"]


def test_the_same_token_repeats_a_refusal_although_there_is_capacity_now(cloud: Lab) -> None:
    template, token = cloud.template(), uuid.uuid4().hex
    cloud.control.set_capacity(0, type=CPU)
    assert ids_of(cloud.fleet(template, ClientToken=token)) == []
    cloud.control.reset_rules()
    assert codes_of(cloud.fleet(template, ClientToken=token)) == ["InsufficientInstanceCapacity"]


def test_the_same_token_with_other_parameters_is_refused(cloud: Lab) -> None:
    template, token = cloud.template(), uuid.uuid4().hex
    cloud.fleet(template, 1, ClientToken=token)
    code = code_of(lambda: cloud.fleet(template, 2, ClientToken=token))
    assert code == "IdempotentParameterMismatch"


def test_the_same_token_is_the_same_instance(cloud: Lab) -> None:
    asked = {
        "LaunchTemplate": {"LaunchTemplateName": cloud.template()},
        "InstanceType": CPU,
        "SubnetId": cloud.subnets[A],
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": uuid.uuid4().hex,
    }
    first, again = (cloud.ec2.run_instances(**asked) for _ in range(2))
    assert first["Instances"][0]["InstanceId"] == again["Instances"][0]["InstanceId"]
    code = code_of(lambda: cloud.ec2.run_instances(**{**asked, "MaxCount": 2}))
    assert code == "IdempotentParameterMismatch"
