"""Both servers come up together, and nothing of them is left when they end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from burst.core.aws.names import CLUSTER
from burst.core.blobs import open_blobs
from burst.core.config.cluster import Aws, AwsPool, ClusterConfig
from burst.core.errors import BurstError
from burst.core.store import open_store
from burst.runner.rehearsal import extra
from burst.runner.rehearsal.account import Account, build_account
from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.servers import Servers, serve
from tests.rehearsal.lab import client, trees_in, until

CONFIG = ClusterConfig(
    cluster="lab",
    aws=Aws(region="us-east-1"),
    pools={
        "spot": AwsPool(
            kind="aws", instance_types=("p5.48xlarge", "p4d.24xlarge"), max_nodes=4, efa=True
        ),
        "cpu": AwsPool(kind="aws", instance_types=("c5.large", "c5.xlarge"), max_nodes=2),
    },
)
FILE = "cluster: lab\n"
SERVING = """
import sys
from pathlib import Path
from burst.runner.rehearsal.servers import serve
with serve(Path(sys.argv[1]), boot=0.05) as servers:
    print(servers.ec2, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serve(tmp_path_factory.mktemp("servers"), boot=0.05) as made:
        yield made


@pytest.fixture(scope="module")
def account(servers: Servers) -> Account:
    return build_account(CONFIG, FILE, servers.environ)


@pytest.fixture
def as_client(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in servers.environ.items():
        monkeypatch.setenv(name, value)


def test_a_client_needs_the_environment_alone(
    servers: Servers, account: Account, as_client: None
) -> None:
    store = open_store(account.store)
    assert store.newest_cursor() == store.events().cursor
    store.close()
    assert open_blobs(account.blobs).get("cluster/burst.yaml") == FILE.encode()


def test_the_account_has_a_private_subnet_in_every_zone(
    servers: Servers, account: Account
) -> None:
    ec2 = client("ec2", servers.ec2)
    filters = [{"Name": f"tag:{CLUSTER}", "Values": ["lab"]}]
    subnets = ec2.describe_subnets(Filters=filters)["Subnets"]
    zones = ec2.describe_availability_zones()["AvailabilityZones"]
    assert {each["AvailabilityZone"] for each in subnets} == {each["ZoneName"] for each in zones}
    assert not any(each["MapPublicIpOnLaunch"] for each in subnets)
    assert {each["VpcId"] for each in subnets} == {account.vpc}
    ec2.close()


def test_the_security_group_lets_its_members_talk_both_ways(
    servers: Servers, account: Account
) -> None:
    ec2 = client("ec2", servers.ec2)
    found = ec2.describe_security_groups(GroupIds=[account.security_group])["SecurityGroups"][0]
    for rules in (found["IpPermissions"], found["IpPermissionsEgress"]):
        pairs = [pair["GroupId"] for rule in rules for pair in rule["UserIdGroupPairs"]]
        assert account.security_group in pairs
    ec2.close()


def test_types_with_cards_of_their_own_have_a_template_of_their_own(
    servers: Servers, account: Account
) -> None:
    assert list(account.templates) == [
        "burst/lab/spot/p5.48xlarge",
        "burst/lab/spot/p4d.24xlarge",
        "burst/lab/cpu",
    ]
    ec2 = client("ec2", servers.ec2)
    found = ec2.describe_launch_template_versions(
        LaunchTemplateName="burst/lab/spot/p4d.24xlarge", Versions=["$Latest"]
    )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert [each["InterfaceType"] for each in found["NetworkInterfaces"]] == [
        "efa",
        *["efa-only"] * 3,
    ]
    ec2.close()


def test_a_machine_of_the_account_finds_the_servers(servers: Servers, account: Account) -> None:
    ec2 = client("ec2", servers.ec2)
    override = {"InstanceType": "c5.large", "SubnetId": account.subnets["us-east-1a"]}
    named = {"LaunchTemplateName": "burst/lab/cpu", "Version": "$Latest"}
    made = ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": named, "Overrides": [override]}],
        TargetCapacitySpecification={
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "spot",
        },
    )
    ec2.close()
    id = made["Instances"][0]["InstanceIds"][0]
    control = Ec2Control(servers.ec2)
    folder = Path(control.machine(id).folder)
    known = folder / "etc/burst/node.env"
    text = until(
        lambda: found if known.exists() and "BURST_STORE" in (found := known.read_text()) else "",
        "what a node has to know",
    )
    assert f"BURST_STORE='{account.store}'" in text
    assert "BURST_CLUSTER=blobs:cluster/burst.yaml" in text


def test_whoever_only_asks_for_a_rehearsal_loads_no_server() -> None:
    code = (
        "import sys, burst.runner.rehearsal.servers, burst.runner.rehearsal.account\n"
        "heavy = {'moto', 'boto3', 'botocore', 'flask', 'werkzeug', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stderr


def test_whoever_lacks_the_servers_is_told_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "_NEEDED", {"no_such_module": "moto[server]"})
    with pytest.raises(BurstError) as caught:
        extra.check_extra()
    assert "'.[rehearse]'" in caught.value.mend


def test_a_server_that_does_not_come_up_is_told_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "ec2").mkdir()
    (tmp_path / "ec2" / "images.json").mkdir()
    with pytest.raises(BurstError) as caught, serve(tmp_path):
        pass
    assert "images.json" in caught.value.why
    assert servers_in(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, None])
def test_nothing_is_left_whatever_ends_the_servers(tmp_path: Path, number: int | None) -> None:
    folder = tmp_path / "servers"
    with subprocess.Popen(
        [sys.executable, "-c", SERVING, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        ec2 = client("ec2", url)
        ec2.run_instances(
            ImageId=next(iter(ec2.describe_images()["Images"]))["ImageId"],
            InstanceType="c5.large",
            MinCount=1,
            MaxCount=1,
            UserData="#!/bin/sh\nenv -i sleep 1000 & sleep 1000 &\n",
        )
        ec2.close()
        tree = until(lambda: trees_in(folder / "ec2"), "the machine")
        if number is None:
            process.communicate()
        else:
            process.send_signal(number)
    until(lambda: not any(each.is_running() for each in tree), "the end of the machine")
    until(lambda: not servers_in(folder), "the end of the servers")


def servers_in(folder: Path) -> list[psutil.Process]:
    found = []
    for each in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in each.info["cmdline"] or ()):
            found.append(each)
    return found
