"""The model answers as EC2 does, to boto3."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from burst.core.aws.names import LAUNCH
from burst.core.errors import NotFound, Refused
from burst.runner.rehearsal.ec2.images import DEFAULT_IMAGE, PARAMETERS
from tests.rehearsal.lab import Lab, client, code_of, ids_of, launch_tag

A, B, E = "us-east-1a", "us-east-1b", "us-east-1e"
CPU, BIG = "c5.large", "p5.48xlarge"
GANG = {
    "SingleInstanceType": True,
    "SingleAvailabilityZone": True,
    "MinTargetCapacity": 2,
    "AllocationStrategy": "price-capacity-optimized",
}


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
