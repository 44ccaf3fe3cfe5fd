"""`burst up` and `burst down` as a person types them, over a rehearsal cloud and a double of
Pulumi's command."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from boto3.session import Session as BotoSession
from click.testing import CliRunner, Result

from burst.cli.root import cli
from burst.cli.session import Session
from burst.infra import planning
from burst.infra.account.removing import find_things
from burst.infra.account.sorts import Look, Thing
from burst.infra.bundle import build_bundle
from burst.infra.preflight.asking import Asking
from burst.infra.settings import Bundle
from burst.runner.rehearsal.servers import Servers, serve
from tests.infra.double.launching import engine

ACCOUNT, REGION = "123456789012", "us-east-1"
IMAGE = (
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/"
    "base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
FILE = """
cluster: {cluster}
aws: {{region: us-east-1, image: "{image}"}}
pools:
  desk: {{kind: local, slots: 1}}
  spot: {{kind: aws, instance_types: [c5.large], slots_per_node: 1, max_nodes: 2}}
"""
OTHER_POOL = "  big: {kind: aws, instance_types: [p4d.24xlarge], max_nodes: 2, efa: true}\n"


@dataclass
class Person:
    """Somebody with a cluster file, credentials, and a BURST_HOME."""

    cluster: str
    folder: Path
    bundles: Path
    """What was packed once is packed for all."""

    @property
    def file(self) -> Path:
        return self.folder / "burst.yaml"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def moves(self) -> None:
        """To another machine: all that this one knew is gone."""
        shutil.rmtree(self.home / "pulumi")

    def types(self, *args: str, status: int = 0, answers: str = "", **environ: str) -> Result:
        """
        Args:
            answers: what is typed when it asks; nobody can be asked unless a test says so.
        """
        self.home.mkdir(exist_ok=True)
        if not (self.home / "bundles").exists():
            (self.home / "bundles").symlink_to(self.bundles)
        session = Session(
            environ={**os.environ, "BURST_HOME": str(self.home), "COLUMNS": "120", **environ},
            cwd=self.folder,
        )
        result = CliRunner().invoke(cli, args, obj=session, input=answers)
        assert result.exit_code == status, result.output
        return result

    def lines(self, *args: str, status: int = 0) -> list[dict[str, Any]]:
        """What it prints with `--json`."""
        printed = self.types(*args, "--json", status=status).stdout
        return [json.loads(line) for line in printed.splitlines()]

    def recorded(self) -> set[tuple[str, str]]:
        """Type and id of all that Pulumi's record has."""
        place = self.home / "pulumi" / f"{ACCOUNT}-{REGION}" / ".pulumi" / "stacks" / "burst"
        held = json.loads((place / f"{self.cluster}.json").read_text())
        resources = held["checkpoint"]["latest"].get("resources") or []
        return {(each["type"], each.get("id", "")) for each in resources}

    def things(self) -> list[Thing]:
        """All that carries the cluster's tag, the data too."""
        found, unseen = find_things(self.look(), data=True)
        assert unseen == []
        return found

    def counts(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for each in self.things():
            found[each.kind] = found.get(each.kind, 0) + 1
        return found

    def look(self) -> Look:
        return Look(self.cluster, ACCOUNT, REGION, Asking(REGION, os.environ))


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serve(tmp_path_factory.mktemp("cloud")) as found:
        yield found


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@cache
def pack_once(folder: Path, **asked: Any) -> Bundle:
    """To look through all that is to be packed takes a second of each `burst up`; that a second
    call gives the same is for the tests of `build_bundle`."""
    return build_bundle(folder, **asked)


@pytest.fixture
def person(
    request: pytest.FixtureRequest,
    servers: Servers,
    bundles: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Person]:
    """Of a cluster that has the name of the test, more or less, so that none meets another's."""
    number = crc32(request.node.nodeid.encode()) % 1_000_000
    monkeypatch.setattr(planning, "build_bundle", lambda _, **asked: pack_once(bundles, **asked))
    with engine(tmp_path / "pulumi", servers.environ) as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        for name in ("PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE"):
            monkeypatch.delenv(name, raising=False)
        cluster, folder = f"c{number:06d}", tmp_path / "mine"
        folder.mkdir()
        (folder / "burst.yaml").write_text(FILE.format(cluster=cluster, image=IMAGE))
        yield Person(cluster, folder, bundles)
        _remove_networks(servers)
    gc.collect()  # what Pulumi's library leaves where a program is broken off is this test's


def _remove_networks(servers: Servers) -> None:
    """An account has five at the most, and all tests have one account: what a test leaves standing
    would be another's to stumble over."""
    person = BotoSession(aws_access_key_id=ACCOUNT, aws_secret_access_key="testing")
    ec2 = person.client("ec2", region_name=REGION, endpoint_url=servers.ec2)
    mine = [{"Name": "is-default", "Values": ["false"]}]
    for vpc in [each["VpcId"] for each in ec2.describe_vpcs(Filters=mine)["Vpcs"]]:
        within = [{"Name": "vpc-id", "Values": [vpc]}]
        endpoints = ec2.describe_vpc_endpoints(Filters=within)["VpcEndpoints"]
        if endpoints:
            ec2.delete_vpc_endpoints(VpcEndpointIds=[each["VpcEndpointId"] for each in endpoints])
        for subnet in ec2.describe_subnets(Filters=within)["Subnets"]:
            ec2.delete_subnet(SubnetId=subnet["SubnetId"])
        for table in ec2.describe_route_tables(Filters=within)["RouteTables"]:
            if not any(each["Main"] for each in table["Associations"]):
                ec2.delete_route_table(RouteTableId=table["RouteTableId"])
        for group in ec2.describe_security_groups(Filters=within)["SecurityGroups"]:
            if group["GroupName"] != "default":
                ec2.delete_security_group(GroupId=group["GroupId"])
        attached = [{"Name": "attachment.vpc-id", "Values": [vpc]}]
        for gateway in ec2.describe_internet_gateways(Filters=attached)["InternetGateways"]:
            here = {"InternetGatewayId": gateway["InternetGatewayId"]}
            ec2.detach_internet_gateway(**here, VpcId=vpc)
            ec2.delete_internet_gateway(**here)
        ec2.delete_vpc(VpcId=vpc)
