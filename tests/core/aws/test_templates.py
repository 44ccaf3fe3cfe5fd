"""Launch templates: what every machine of a pool is made with."""

from __future__ import annotations

import base64

import pytest

from burst.core.aws.instance_types import InstanceType, known_type, on_demand_price, read_type
from burst.core.aws.names import tags_of
from burst.core.aws.templates import (
    NodeMachine,
    efa_interfaces,
    node_environ,
    template_data,
    template_for,
)
from burst.core.errors import ConfigError

MACHINE = NodeMachine("resolve:ssm:/aws/service/some/image", "burst-lab-node", ("sg-1", "sg-2"))
TAGS = tags_of("lab", "spot")


def known(name: str) -> InstanceType:
    kind = known_type(name)
    assert kind is not None
    return kind


def test_a_machine_ends_itself_for_good_and_leaves_no_disk_behind() -> None:
    data = template_data(MACHINE, TAGS, "true")
    assert data["InstanceInitiatedShutdownBehavior"] == "terminate"
    (disk,) = data["BlockDeviceMappings"]
    assert disk["Ebs"]["DeleteOnTermination"]
    assert disk["Ebs"]["Encrypted"]
    assert disk["Ebs"]["VolumeType"] == "gp3"
    tagged = {each["ResourceType"]: each["Tags"] for each in data["TagSpecifications"]}
    assert set(tagged) == {"instance", "volume", "network-interface"}
    assert all({"Key": "burst:cluster", "Value": "lab"} in tags for tags in tagged.values())


def test_metadata_needs_a_token_reaches_into_containers_and_has_the_tags() -> None:
    assert template_data(MACHINE, TAGS, "true")["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 2,
        "InstanceMetadataTags": "enabled",
    }


def test_an_image_may_be_named_by_a_parameter() -> None:
    data = template_data(MACHINE, TAGS, "true")
    assert data["ImageId"] == "resolve:ssm:/aws/service/some/image"
    assert data["IamInstanceProfile"] == {"Name": "burst-lab-node"}


@pytest.mark.parametrize(
    ("name", "efa", "efa_only"),
    [
        ("p4d.24xlarge", 1, 3),
        ("p5.48xlarge", 8, 24),
        ("p5e.48xlarge", 8, 24),
        ("p5en.48xlarge", 1, 15),
        ("g6e.48xlarge", 1, 3),
        ("p6-b200.48xlarge", 1, 7),
        ("p6-b300.48xlarge", 0, 16),
        ("hpc7a.96xlarge", 1, 1),
    ],
)
def test_every_network_card_has_one_adapter_and_the_first_has_the_address(
    name: str, efa: int, efa_only: int
) -> None:
    kind = known(name)
    interfaces = efa_interfaces(kind, ["sg-1"])
    kinds = [each["InterfaceType"] for each in interfaces]
    assert kinds.count("efa") == efa
    assert kinds.count("efa-only") == efa_only
    assert efa + efa_only == kind.efa
    assert [each["NetworkCardIndex"] for each in interfaces] == list(range(kind.cards))
    assert [each["DeviceIndex"] for each in interfaces] == [0] + [1] * (kind.cards - 1)
    assert kinds[0] != "efa-only"
    assert all(each["DeleteOnTermination"] for each in interfaces)
    assert not any("AssociatePublicIpAddress" in each for each in interfaces)


def test_a_type_without_adapters_has_ordinary_interfaces_and_the_pools_template() -> None:
    data = template_data(MACHINE, TAGS, "true", kind=known("g5.xlarge"), efa=True)
    assert "NetworkInterfaces" not in data
    assert data["SecurityGroupIds"] == ["sg-1", "sg-2"]
    assert template_for("lab", "spot", known("g5.xlarge"), efa=True) == "burst/lab/spot"


def test_a_type_with_adapters_has_a_template_of_its_own_if_the_pool_wants_them() -> None:
    kind = known("p5.48xlarge")
    data = template_data(MACHINE, TAGS, "true", kind=kind, efa=True)
    assert len(data["NetworkInterfaces"]) == 32
    assert data["NetworkInterfaces"][0]["Groups"] == ["sg-1", "sg-2"]
    assert "SecurityGroupIds" not in data, "EC2 takes one or the other"
    assert template_for("lab", "spot", kind, efa=True) == "burst/lab/spot/p5.48xlarge"
    assert template_for("lab", "spot", kind, efa=False) == "burst/lab/spot"


def test_the_boot_script_travels_as_base64_and_may_not_be_longer_than_ec2_takes() -> None:
    data = template_data(MACHINE, TAGS, "#!/bin/bash\ntrue\n")
    assert base64.b64decode(data["UserData"]) == b"#!/bin/bash\ntrue\n"
    with pytest.raises(ConfigError, match="pool spot"):
        template_data(MACHINE, TAGS, "x" * 16385)


def test_a_value_of_two_lines_is_refused_rather_than_run() -> None:
    with pytest.raises(ConfigError, match="BURST_STORE"):
        node_environ("sqlite:///a\nrm -rf /", "s3://b", "us-east-1")


def test_slots_are_gpus_or_else_vcpus() -> None:
    assert known("p5.48xlarge").slots == 8
    assert known("c5.2xlarge").slots == 8
    assert known("p5.48xlarge").family == "p5"
    assert known_type("z9.huge") is None


def test_prices_are_of_one_region_and_where_they_are_not_known_there_is_none() -> None:
    assert on_demand_price("g5.xlarge", "us-east-1") == 1.006
    assert on_demand_price("g5.xlarge", "sa-east-1") is None
    assert on_demand_price("p6-b300.48xlarge", "us-east-1") is None
    assert on_demand_price("z9.huge", "us-east-1") is None


def test_what_ec2_says_of_a_type_is_read() -> None:
    answer = {
        "InstanceType": "p5.48xlarge",
        "VCpuInfo": {"DefaultVCpus": 192},
        "GpuInfo": {"Gpus": [{"Count": 8}]},
        "NetworkInfo": {"MaximumNetworkCards": 32, "EfaInfo": {"MaximumEfaInterfaces": 32}},
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "spread"]},
    }
    assert read_type(answer) == known("p5.48xlarge")
    part = {"Count": 0, "LogicalGpuCount": 1, "GpuPartitionSize": 0.125}
    shared = {**answer, "InstanceType": "g6f.large", "GpuInfo": {"Gpus": [part]}}
    assert read_type(shared).slots == 1, "an eighth of a GPU is still one to train on"
    bare = read_type({"InstanceType": "t3.micro", "VCpuInfo": {"DefaultVCpus": 2}})
    assert bare == InstanceType("t3.micro", gpus=0, vcpus=2, efa=0, cards=1, cluster=False)
