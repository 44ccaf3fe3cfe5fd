"""The model answers as EC2 does, to boto3."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from burst.core.aws.names import LAUNCH
from burst.core.errors import NotFound, Refused
from burst.runner.rehearsal.ec2.images import DEFAULT_IMAGE, PARAMETERS
from tests.rehearsal.lab import Lab, client, codes_of, ids_of, launch_tag

A, B, E = "us-east-1a", "us-east-1b", "us-east-1e"
CPU, BIG = "c5.large", "p5.48xlarge"
GANG = {
    "SingleInstanceType": True,
    "SingleAvailabilityZone": True,
    "MinTargetCapacity": 2,
    "AllocationStrategy": "price-capacity-optimized",
}


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    code: str = caught.value.response["Error"]["Code"]
    return code


# --- fleets -----------------------------------------------------------------------------------


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


# --- client tokens ----------------------------------------------------------------------------


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


# --- single instances -------------------------------------------------------------------------


def test_run_instances_takes_all_from_a_launch_template(cloud: Lab) -> None:
    template = cloud.template(
        InstanceMarketOptions={"MarketType": "spot"}, InstanceType=CPU, Placement={"GroupName": ""}
    )
    made = cloud.ec2.run_instances(
        LaunchTemplate={"LaunchTemplateName": template},
        SubnetId=cloud.subnets[B],
        MinCount=1,
        MaxCount=2,
    )["Instances"]
    assert [each["State"]["Name"] for each in made] == ["pending", "pending"]
    seen = cloud.state(made[0]["InstanceId"])
    assert (seen["InstanceType"], seen["InstanceLifecycle"]) == (CPU, "spot")
    assert seen["Placement"]["AvailabilityZone"] == B
    assert seen["MetadataOptions"]["HttpTokens"] == "required"


def test_run_instances_gives_between_the_least_and_the_most(cloud: Lab) -> None:
    asked = {"ImageId": DEFAULT_IMAGE, "InstanceType": CPU, "SubnetId": cloud.subnets[A]}
    cloud.control.set_capacity(2, type=CPU)
    made = cloud.ec2.run_instances(**asked, MinCount=1, MaxCount=5)
    assert len(made["Instances"]) == 2
    with pytest.raises(ClientError) as caught:
        cloud.ec2.run_instances(**asked, MinCount=1, MaxCount=1)
    assert caught.value.response["Error"]["Code"] == "InsufficientInstanceCapacity"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_a_type_that_a_zone_lacks_is_unsupported_there(cloud: Lab) -> None:
    asked = {"ImageId": DEFAULT_IMAGE, "InstanceType": CPU, "SubnetId": cloud.subnets[E]}
    code = code_of(lambda: cloud.ec2.run_instances(**asked, MinCount=1, MaxCount=1))
    assert code == "Unsupported"


def test_an_instance_has_an_interface_on_every_card_that_its_template_names(cloud: Lab) -> None:
    cards = [
        {
            "NetworkCardIndex": card,
            "DeviceIndex": min(card, 1),
            "InterfaceType": "efa-only" if card else "efa",
            "DeleteOnTermination": True,
        }
        for card in range(4)
    ]
    template = cloud.template(NetworkInterfaces=cards)
    ids = ids_of(cloud.fleet(template, offers=[("p4d.24xlarge", A)]))
    seen = cloud.state(ids[0])["NetworkInterfaces"]
    assert [
        (each["Attachment"]["NetworkCardIndex"], each["InterfaceType"], "PrivateIpAddress" in each)
        for each in seen
    ] == [(0, "efa", True), (1, "efa-only", False), (2, "efa-only", False), (3, "efa-only", False)]
    cloud.ec2.terminate_instances(InstanceIds=ids)
    cloud.gone(ids[0])
    left = cloud.ec2.describe_network_interfaces()["NetworkInterfaces"]
    mine = {each["NetworkInterfaceId"] for each in seen}
    assert not mine & {each["NetworkInterfaceId"] for each in left}


def test_addresses_come_back_when_machines_end(cloud: Lab) -> None:
    def free() -> int:
        found = cloud.ec2.describe_subnets(SubnetIds=[cloud.subnets[B]])["Subnets"][0]
        count: int = found["AvailableIpAddressCount"]
        return count

    before = free()
    ids = cloud.launch(offers=[(CPU, B)])
    assert free() == before - 1
    cloud.ec2.terminate_instances(InstanceIds=ids)
    cloud.gone(ids[0])
    assert free() == before


# --- visibility -------------------------------------------------------------------------------


def test_a_list_lags_behind_and_the_id_does_not(cloud: Lab) -> None:
    cloud.control.set_delays(listed_after=3600)
    launch = uuid.uuid4().hex
    ids = cloud.launch(TagSpecifications=launch_tag(launch))
    by_tag = [{"Name": f"tag:{LAUNCH}", "Values": [launch]}]
    assert cloud.ec2.describe_instances(Filters=by_tag)["Reservations"] == []
    assert cloud.state(ids[0])["InstanceId"] == ids[0]
    cloud.control.set_delays(listed_after=0)
    found = cloud.ec2.describe_instances(Filters=by_tag)["Reservations"]
    assert [each["Instances"][0]["InstanceId"] for each in found] == ids


def test_an_id_may_be_unknown_right_after_its_launch(cloud: Lab) -> None:
    cloud.control.set_delays(known_after=3600)
    ids = cloud.launch()
    for call in (cloud.ec2.describe_instances, cloud.ec2.terminate_instances):
        assert code_of(partial(call, InstanceIds=ids)) == "InvalidInstanceID.NotFound"
    cloud.control.set_delays(known_after=0)
    assert cloud.state(ids[0])["InstanceId"] == ids[0]


# --- placement groups -------------------------------------------------------------------------


def test_a_placement_group_is_made_found_used_and_deleted(cloud: Lab) -> None:
    name = f"group-{uuid.uuid4().hex}"
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "burst:cluster", "Value": name}]}]
    made = {"GroupName": name, "Strategy": "cluster"}
    cloud.ec2.create_placement_group(**made, TagSpecifications=tags)
    twice = code_of(lambda: cloud.ec2.create_placement_group(**made))
    assert twice == "InvalidPlacementGroup.Duplicate"
    found = cloud.ec2.describe_placement_groups(
        Filters=[{"Name": "tag:burst:cluster", "Values": [name]}]
    )["PlacementGroups"]
    assert [(each["GroupName"], each["State"]) for each in found] == [(name, "available")]
    ids = ids_of(cloud.fleet(cloud.template(Placement={"GroupName": name}), 2, options=GANG))
    assert cloud.state(ids[0])["Placement"]["GroupName"] == name
    in_use = code_of(lambda: cloud.ec2.delete_placement_group(GroupName=name))
    assert in_use == "InvalidPlacementGroup.InUse"
    cloud.ec2.terminate_instances(InstanceIds=ids)
    for id in ids:
        cloud.gone(id)
    cloud.ec2.delete_placement_group(GroupName=name)
    unknown = code_of(lambda: cloud.ec2.describe_placement_groups(GroupNames=[name]))
    assert unknown == "InvalidPlacementGroup.Unknown"


def test_a_request_may_name_the_placement_group_that_its_template_does_not(cloud: Lab) -> None:
    name = f"group-{uuid.uuid4().hex}"
    cloud.ec2.create_placement_group(GroupName=name, Strategy="cluster")
    override = {
        "InstanceType": CPU,
        "SubnetId": cloud.subnets[A],
        "Placement": {"GroupName": name},
    }
    named = {"LaunchTemplateName": cloud.template(), "Version": "$Latest"}
    configs = [{"LaunchTemplateSpecification": named, "Overrides": [override]}]
    made = cloud.fleet("", LaunchTemplateConfigs=configs)
    assert cloud.control.machine(ids_of(made)[0]).placement_group == name


# --- launch templates -------------------------------------------------------------------------


def test_a_new_version_has_what_its_source_has(cloud: Lab) -> None:
    name = cloud.template(InstanceType=CPU)
    cloud.ec2.create_launch_template_version(
        LaunchTemplateName=name, SourceVersion="1", LaunchTemplateData={"InstanceType": BIG}
    )
    found = cloud.ec2.describe_launch_template_versions(LaunchTemplateName=name, Versions=["2"])
    data = found["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert (data["InstanceType"], data["ImageId"]) == (BIG, DEFAULT_IMAGE)
    assert data["MetadataOptions"]["HttpTokens"] == "required"


def test_more_than_fifteen_templates_are_all_listed(cloud: Lab) -> None:
    names = [cloud.template() for _ in range(16)]
    found = cloud.ec2.describe_launch_templates(LaunchTemplateNames=names)["LaunchTemplates"]
    assert {each["LaunchTemplateName"] for each in found} == set(names)


def test_an_image_is_found_by_the_parameter_that_aws_keeps(cloud: Lab) -> None:
    parameter, image = next(iter(PARAMETERS.items()))
    ssm = client("ssm", cloud.url)
    assert ssm.get_parameter(Name=parameter)["Parameter"]["Value"] == image
    ssm.close()
    ids = ids_of(cloud.fleet(cloud.template(ImageId=f"resolve:ssm:{parameter}")))
    assert cloud.state(ids[0])["ImageId"] == image


# --- the spot market --------------------------------------------------------------------------


def test_spot_prices_differ_by_zone_and_are_below_those_on_demand(cloud: Lab) -> None:
    found = cloud.ec2.describe_spot_price_history(
        InstanceTypes=[BIG], ProductDescriptions=["Linux/UNIX"], StartTime=datetime.now(UTC)
    )["SpotPriceHistory"]
    prices = {each["AvailabilityZone"]: float(each["SpotPrice"]) for each in found}
    assert len(prices) == len(found) > 1
    assert len(set(prices.values())) > 1
    assert all(1 < price < 60 for price in prices.values())
    zone = min(prices, key=lambda each: prices[each])
    ids = ids_of(cloud.fleet(cloud.template(), offers=[(BIG, zone)]))
    assert cloud.control.machine(ids[0]).price == prices[zone]


def test_the_history_of_prices_comes_in_pages_newest_first(cloud: Lab) -> None:
    since = datetime.now(UTC) - timedelta(days=2)
    pages = cloud.ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=[BIG], AvailabilityZone=A, StartTime=since, PaginationConfig={"PageSize": 3}
    )
    found = [each for page in pages for each in page["SpotPriceHistory"]]
    dates = [each["Timestamp"] for each in found]
    assert len(found) >= 8
    assert dates == sorted(dates, reverse=True)
    assert len({each["SpotPrice"] for each in found}) > 1


def test_a_price_that_was_set_is_the_price(cloud: Lab) -> None:
    cloud.control.set_price(7.5, type=BIG, zone=A, market="spot")
    found = cloud.ec2.describe_spot_price_history(
        InstanceTypes=[BIG], AvailabilityZone=A, StartTime=datetime.now(UTC)
    )["SpotPriceHistory"]
    assert [float(each["SpotPrice"]) for each in found] == [7.5]


def test_placement_scores_follow_capacity(cloud: Lab) -> None:
    cloud.control.set_capacity(0, type=BIG, zone=A)
    asked = {"InstanceTypes": [BIG], "TargetCapacity": 4, "SingleAvailabilityZone": True}
    zones = cloud.ec2.describe_availability_zones()["AvailabilityZones"]
    names = {each["ZoneId"]: each["ZoneName"] for each in zones}
    scores = {
        names[each["AvailabilityZoneId"]]: each["Score"]
        for each in cloud.ec2.get_spot_placement_scores(**asked)["SpotPlacementScores"]
    }
    assert scores[A] == 1
    assert scores[B] == 9


# --- faults -----------------------------------------------------------------------------------


def test_a_call_can_fail_before_it_has_any_effect(cloud: Lab) -> None:
    template, before = cloud.template(), len(cloud.control.machines())
    cloud.control.fail("CreateFleet", "InternalError", times=1)
    with pytest.raises(ClientError) as caught:
        cloud.fleet(template)
    assert caught.value.response["Error"]["Code"] == "InternalError"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert len(cloud.control.machines()) == before
    assert len(ids_of(cloud.fleet(template))) == 1


def test_an_answer_can_be_lost_after_all_was_done(cloud: Lab) -> None:
    template, token = cloud.template(), uuid.uuid4().hex
    before = {each.id for each in cloud.control.machines()}
    cloud.control.fail("CreateFleet", when="after")
    with pytest.raises(ConnectionClosedError):
        cloud.fleet(template, ClientToken=token)
    started = [each.id for each in cloud.control.machines() if each.id not in before]
    assert len(started) == 1
    assert ids_of(cloud.fleet(template, ClientToken=token)) == started


def test_a_fault_of_one_operation_leaves_the_others_alone(cloud: Lab) -> None:
    cloud.control.fail("TerminateInstances", "UnauthorizedOperation")
    ids = cloud.launch()
    with pytest.raises(ClientError) as caught:
        cloud.ec2.terminate_instances(InstanceIds=ids)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    cloud.ec2.terminate_instances(InstanceIds=ids)


def test_throttled_calls_are_one_too_many_until_it_is_over(cloud: Lab) -> None:
    cloud.control.throttle("DescribeInstances", seconds=3600)
    for _ in range(3):
        assert code_of(cloud.ec2.describe_instances) == "RequestLimitExceeded"
    cloud.control.heal()
    cloud.ec2.describe_instances()


def test_calls_are_counted(cloud: Lab) -> None:
    before = cloud.control.calls().get("DescribeInstances", 0)
    cloud.ec2.describe_instances()
    assert cloud.control.calls()["DescribeInstances"] == before + 1


def test_whoever_asks_for_a_machine_that_there_is_not_is_told(cloud: Lab) -> None:
    with pytest.raises(NotFound):
        cloud.control.interrupt("i-0000000000000000f")


def test_what_is_on_demand_is_never_reclaimed_but_may_fail(cloud: Lab) -> None:
    id = cloud.launch(market="on-demand")[0]
    with pytest.raises(Refused):
        cloud.control.interrupt(id)
    cloud.control.interrupt(id, notice=None)
    assert cloud.gone(id).reason == "Server.InternalError"
    with pytest.raises(Refused):
        cloud.control.interrupt(id, notice=None)


def test_an_operation_that_there_is_not_is_told_in_words(cloud: Lab) -> None:
    with pytest.raises(ClientError) as caught:
        cloud.ec2.describe_capacity_block_offerings(CapacityDurationHours=24)
    assert caught.value.response["Error"]["Code"] == "UnsupportedOperation"


def test_a_template_keeps_its_own_tags_to_itself(cloud: Lab) -> None:
    tags = {"ResourceType": "launch-template", "Tags": [{"Key": "burst:cluster", "Value": "lab"}]}
    inner = {"ResourceType": "instance", "Tags": [{"Key": "burst:pool", "Value": "spot"}]}
    name = f"template-{uuid.uuid4().hex}"
    cloud.ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={"ImageId": DEFAULT_IMAGE, "TagSpecifications": [inner]},
        TagSpecifications=[tags],
    )
    found = cloud.ec2.describe_launch_templates(LaunchTemplateNames=[name])["LaunchTemplates"]
    assert found[0]["Tags"] == tags["Tags"]
    versions = cloud.ec2.describe_launch_template_versions(LaunchTemplateName=name)
    data = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert data["TagSpecifications"] == [inner]


def test_nothing_is_left_of_a_machine_that_has_ended(cloud: Lab) -> None:
    def left() -> tuple[int, int]:
        volumes = cloud.ec2.describe_volumes()["Volumes"]
        return len(volumes), len(cloud.ec2.describe_network_interfaces()["NetworkInterfaces"])

    disk = {
        "DeviceName": "/dev/sda1",
        "Ebs": {"VolumeSize": 200, "VolumeType": "gp3", "DeleteOnTermination": True},
    }
    before = left()
    ids = ids_of(cloud.fleet(cloud.template(BlockDeviceMappings=[disk]), 2))
    assert left() == (before[0] + 2, before[1] + 2)
    cloud.ec2.terminate_instances(InstanceIds=ids)
    for id in ids:
        cloud.gone(id)
    assert left() == before


def test_many_clients_at_once_never_get_more_than_there_is(cloud: Lab) -> None:
    cloud.control.set_capacity(5, type=CPU)
    template = cloud.template()
    assert cloud.subnets  # read once, before the threads need them
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: ids_of(cloud.fleet(template)), range(8)))
    assert sum(map(len, found)) == 5
