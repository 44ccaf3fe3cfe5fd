"""What is broken by hand in a cluster that was built is found, in the rehearsal cloud."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pulumi import automation, export

from burst.cli.root import cli
from burst.cli.session import Session
from burst.core.aws.names import CLUSTER, bucket_name
from burst.core.config.cluster import ClusterConfig
from burst.infra.facts import Facts
from burst.infra.preflight import Check, Verdict, gather, prepare
from burst.infra.program import build
from burst.infra.settings import Bundle, Settings
from burst.infra.standing.inspecting import inspect
from burst.runner.rehearsal.servers import serve
from tests.infra.double.launching import engine
from tests.infra.preflight.clients import ACCOUNT, IMAGE, SPOT, client, cluster

REGION = "us-east-1"
P5 = "{kind: aws, instance_types: [p5.48xlarge], max_nodes: 2, efa: true}"
LAB = [{"Name": f"tag:{CLUSTER}", "Values": ["lab"]}]


@dataclass(frozen=True)
class Built:
    """A cluster that stands."""

    environ: Mapping[str, str]
    config: ClusterConfig
    facts: Facts

    def look(self) -> dict[str, Check]:
        return {each.name: each for each in inspect(self.config, self.facts, self.environ)}

    def client(self, service: str) -> Any:
        return client(service, self.environ)


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with serve(tmp_path_factory.mktemp("cloud"), boot=0.05) as servers:
        yield servers.environ


@pytest.fixture(scope="module")
def built(environ: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("stack")
    config = cluster(spot=SPOT, big=P5)
    facts = gather(config, environ)
    prepare(config, environ)
    packed = folder / "empty.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("main.py", "")
    bundle = Bundle(packed, "0" * 64, "3.12", "x86_64")
    settings = Settings(config, "cluster: lab\n", facts, bundle, bundle)

    def program() -> None:
        for name, value in build(settings).items():
            export(name, value)

    with engine(folder / "pulumi", environ) as double:
        stack = automation.create_or_select_stack(
            "lab",
            project_name="burst",
            program=program,
            opts=automation.LocalWorkspaceOptions(
                work_dir=str(folder),
                env_vars=dict(double.environ),
                pulumi_command=automation.PulumiCommand(root=str(double.root)),
            ),
        )
        with warnings.catch_warnings():
            # Packages of the provider warn of classes of their own when they are looked into.
            warnings.simplefilter("ignore", DeprecationWarning)
            stack.up()
    return Built(environ, config, facts)


def test_a_cluster_that_is_not_built_is_told_as_that(environ: Mapping[str, str]) -> None:
    config = cluster("other")
    found = inspect(config, gather(config, environ), environ)
    assert [(each.name, each.verdict) for each in found] == [("built", Verdict.WARNING)]


def doctor(built: Built, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """`burst doctor --cloud --json` in a folder with the cluster's file."""
    for name, value in built.environ.items():
        monkeypatch.setenv(name, value)
    aws = f"aws:\n  region: {REGION}\n  image: {IMAGE}\n"
    text = f"cluster: lab\n{aws}pools:\n  spot: {SPOT}\n  big: {P5}\n"
    (folder / "burst.yaml").write_text(text)
    session = Session(cwd=folder)
    rows: list[Any] = json.loads(
        CliRunner().invoke(cli, ["doctor", "--cloud", "--json"], obj=session).stdout
    )
    session.store.close()
    return rows


@pytest.mark.slow
def test_a_cluster_that_was_built_is_as_its_file_says_until_a_hand_changes_it(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = doctor(built, tmp_path, monkeypatch)
    assert [row for row in rows if not row["ok"] or row["warning"]] == []
    assert [row["name"] for row in rows][-2:] == ["nodes of spot", "nodes of big"]

    found = built.look()
    assert {name: each.verdict for name, each in found.items()} == dict.fromkeys(
        ["reach", "among nodes", "launch templates", "node bundle", "runner"], Verdict.OK
    ), found

    ec2, events = built.client("ec2"), built.client("events")
    endpoints = ec2.describe_vpc_endpoints(Filters=LAB)["VpcEndpoints"]
    (s3,) = [each["VpcEndpointId"] for each in endpoints if each["ServiceName"].endswith("s3")]
    ec2.delete_vpc_endpoints(VpcEndpointIds=[s3])

    (group,) = [
        each["GroupId"]
        for each in ec2.describe_security_groups(Filters=LAB)["SecurityGroups"]
        if each["GroupName"].endswith("nodes")
    ]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=itself)

    named = {"LaunchTemplateName": "burst/lab/spot"}
    made = ec2.create_launch_template_version(
        **named, SourceVersion="1", LaunchTemplateData={"ImageId": "ami-0b0a57de1ea2a1a02"}
    )["LaunchTemplateVersion"]["VersionNumber"]
    ec2.modify_launch_template(**named, DefaultVersion=str(made))

    bucket = bucket_name("lab", ACCOUNT, REGION)
    built.client("s3").delete_object(Bucket=bucket, Key=f"cluster/node-{'0' * 64}.zip")

    (schedule, *_) = [each["Name"] for each in events.list_rules(NamePrefix="burst-lab")["Rules"]]
    events.disable_rule(Name=schedule)

    found = built.look()
    assert found["reach"].verdict is Verdict.FAILED
    assert "to the bucket from us-east-1a, us-east-1b" in found["reach"].found
    assert found["among nodes"].verdict is Verdict.FAILED
    assert "no rule for itself, out" in found["among nodes"].found
    assert found["launch templates"].verdict is Verdict.WARNING
    assert "burst/lab/spot: ImageId" in found["launch templates"].found
    assert "burst/lab/big" not in found["launch templates"].found
    assert found["node bundle"].verdict is Verdict.FAILED
    assert found["runner"].verdict is Verdict.FAILED
    assert schedule in found["runner"].found
    assert all(each.mend for each in found.values())


def test_a_gateway_that_the_file_asks_for_is_looked_for(built: Built) -> None:
    assert built.config.aws is not None
    wanted = built.config.aws.model_copy(update={"nat": True, "endpoints": ("images",)})
    asks = replace(built, config=built.config.model_copy(update={"aws": wanted}))
    assert "ways out" not in built.look()
    before = asks.look()["ways out"]
    assert before.verdict is Verdict.FAILED
    assert "the NAT gateway, the endpoint of ecr.api, the endpoint of ecr.dkr" in before.found

    ec2 = built.client("ec2")
    (subnet, *_) = ec2.describe_subnets(Filters=LAB)["Subnets"]
    tags = [{"Key": CLUSTER, "Value": "lab"}]
    gateway = ec2.create_nat_gateway(
        SubnetId=subnet["SubnetId"],
        AllocationId=ec2.allocate_address(Domain="vpc")["AllocationId"],
        TagSpecifications=[{"ResourceType": "natgateway", "Tags": tags}],
    )["NatGateway"]["NatGatewayId"]
    endpoints = [
        ec2.create_vpc_endpoint(
            VpcId=subnet["VpcId"],
            ServiceName=f"com.amazonaws.{REGION}.{service}",
            VpcEndpointType="Interface",
            SubnetIds=[subnet["SubnetId"]],
            TagSpecifications=[{"ResourceType": "vpc-endpoint", "Tags": tags}],
        )["VpcEndpoint"]["VpcEndpointId"]
        for service in ("ecr.api", "ecr.dkr")
    ]
    unrouted = asks.look()["ways out"]
    assert unrouted.verdict is Verdict.FAILED
    assert "no route to the NAT gateway from us-east-1a" in unrouted.found
    tables = ec2.describe_route_tables(Filters=LAB)["RouteTables"]
    out = [
        {"RouteTableId": t["RouteTableId"], "DestinationCidrBlock": "0.0.0.0/0"} for t in tables
    ]
    for route in out:
        ec2.create_route(**route, NatGatewayId=gateway)
    assert asks.look()["ways out"].verdict is Verdict.OK
    ec2.delete_nat_gateway(NatGatewayId=gateway)
    assert "the NAT gateway" in asks.look()["ways out"].found
    for route in out:  # the cluster is other tests' too
        ec2.delete_route(**route)
    ec2.delete_vpc_endpoints(VpcEndpointIds=endpoints)


def test_a_cluster_without_pools_in_aws_has_its_runner_looked_at_alone(
    built: Built, environ: Mapping[str, str]
) -> None:
    bare = replace(built, config=built.config.model_copy(update={"pools": {}}))
    assert list(bare.look()) == ["runner"]
    config = cluster("other").model_copy(update={"pools": {}})
    assert [each.name for each in inspect(config, built.facts, environ)] == ["built"]
