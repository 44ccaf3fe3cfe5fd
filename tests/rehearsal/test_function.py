"""The runner as a function: its zip file, run by the rehearsed account, called by its triggers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest

from burst.core.aws.metrics import CLUSTER_DIMENSION, DOLLARS_PER_HOUR, NODES, STRAYS
from burst.core.aws.names import function_name, table_name
from burst.core.config.load import load_experiment, parse_cluster
from burst.core.workspace import open_workspace
from burst.infra.bundle import build_bundle
from burst.infra.settings import Bundle
from burst.runner.commands.submit import submit
from burst.runner.rehearsal.account import Account, build_account
from burst.runner.rehearsal.control import Ec2Control, Seen
from burst.runner.rehearsal.servers import Servers, serve
from tests.rehearsal.lab import client, until

CLUSTER = """
cluster: lab
aws: {region: us-east-1}
pools:
  spot: {kind: aws, instance_types: [c5.large], max_nodes: 2, slots_per_node: 1}
"""
EXPERIMENT = """
entrypoint: [sh, -c, sleep 600]
searcher: {name: single, metric: loss, max_length: 1ba}
"""
SHORT_S = 15
"""Of which a call works a third, so that it returns while the test watches."""
NEW = {"eventName": ["INSERT"], "dynamodb": {"Keys": {"pk": {"S": ["new/experiment"]}}}}
WARNING = {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]}


@dataclass
class Cloud:
    """An account with the function in it, and nothing that calls it."""

    servers: Servers
    account: Account
    function: str
    """Its ARN."""

    def client(self, service: str) -> Any:
        return client(service, self.servers.aws)

    @cached_property
    def control(self) -> Ec2Control:
        return Ec2Control(self.servers.ec2)

    def call(self, event: dict[str, Any]) -> Any:
        """What the handler answers."""
        found = self.client("lambda").invoke(
            FunctionName=self.function, Payload=json.dumps(event).encode()
        )
        answer = json.loads(found["Payload"].read())
        assert "FunctionError" not in found, answer
        return answer

    def calls(self) -> int:
        """How often the function was called so far, and has returned."""
        return sum("REPORT" in line for line in self.log())

    def log(self) -> list[str]:
        """All that the function has written."""
        logs, group = self.client("logs"), f"/aws/lambda/{function_name('lab')}"
        if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            return []
        return [
            event["message"]
            for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]
            for event in logs.get_log_events(
                logGroupName=group, logStreamName=stream["logStreamName"]
            )["events"]
        ]

    def measured(self) -> dict[str, Any]:
        """What CloudWatch would make metrics of, of the last call that told any."""
        lines = [json.loads(line) for line in self.log() if line.startswith('{"_aws"')]
        return lines[-1] if lines else {}

    def listen(self) -> None:
        """The trigger of new experiments."""
        dynamodb = self.client("dynamodb")
        dynamodb.update_table(
            TableName=table_name("lab"),
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
        )
        stream = dynamodb.describe_table(TableName=table_name("lab"))["Table"]["LatestStreamArn"]
        self.client("lambda").create_event_source_mapping(
            EventSourceArn=stream,
            FunctionName=self.function,
            StartingPosition="LATEST",
            FilterCriteria={"Filters": [{"Pattern": json.dumps(NEW)}]},
        )

    def rule(self, name: str, **what: str) -> None:
        events = self.client("events")
        events.put_rule(Name=name, **what)
        events.put_targets(Rule=name, Targets=[{"Id": "runner", "Arn": self.function}])

    def submit(self, folder: Path) -> None:
        """As a person does who has nothing but credentials."""
        (folder / "code").mkdir(parents=True)
        (folder / "exp.yaml").write_text(EXPERIMENT)
        (folder / "burst.yaml").write_text(CLUSTER)
        environ = {
            "BURST_HOME": str(folder / "home"),
            "BURST_STORE": self.account.store,
            "BURST_BLOBS": self.account.blobs,
        }
        ws = open_workspace(environ, folder)
        submit(ws, load_experiment(folder / "exp.yaml"), folder / "code", owner="somebody")
        ws.store.close()

    def living(self) -> list[Seen]:
        return [each for each in self.control.machines() if each.ended is None]


PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("bundles")
    return build_bundle(folder, what="runner", python=PYTHON, machine=os.uname().machine)


@pytest.fixture
def cloud(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with serve(tmp_path / "servers", boot=0.2) as servers:
        account = build_account(parse_cluster(CLUSTER, "burst.yaml"), CLUSTER, servers.environ)
        for name, value in servers.environ.items():
            monkeypatch.setenv(name, value)
        aws = Cloud(servers, account, "")
        role = aws.client("iam").create_role(
            RoleName="burst-lab-runner", AssumeRolePolicyDocument="{}"
        )["Role"]["Arn"]
        variables = {
            "BURST_STORE": account.store,
            "BURST_BLOBS": account.blobs,
            "BURST_CLUSTER": "blobs:cluster/burst.yaml",
        }
        aws.function = aws.client("lambda").create_function(
            FunctionName=function_name("lab"),
            Runtime=f"python{PYTHON}",
            Role=role,
            Handler="burst.runner.lambda_handler.handler",
            Code={"ZipFile": bundle.path.read_bytes()},
            Timeout=SHORT_S,
            MemorySize=512,
            Environment={"Variables": variables},
        )["FunctionArn"]
        yield aws
    until(lambda: not processes_below(tmp_path / "servers"), "the end of the function")


def processes_below(folder: Path) -> list[psutil.Process]:
    """All that runs a program from there."""
    found = []
    for each in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in each.info["cmdline"] or ()):
            found.append(each)
    return found


@pytest.mark.slow
def test_an_experiment_that_is_submitted_calls_the_function_which_starts_a_machine(
    cloud: Cloud, tmp_path: Path
) -> None:
    assert cloud.call({})["passes"] == 1  # nothing is there, so it returns at once
    cloud.listen()
    cloud.submit(tmp_path / "person")
    [machine] = until(cloud.living, "a machine")
    assert (machine.type, machine.market) == ("c5.large", "spot")
    said = until(cloud.measured, "what it measured")
    assert (said[CLUSTER_DIMENSION], said[NODES], said[STRAYS]) == ("lab", 1, 0)
    assert said[DOLLARS_PER_HOUR] > 0


@pytest.mark.slow
def test_a_warning_of_ec2_calls_the_function_which_replaces_the_machine(
    cloud: Cloud, tmp_path: Path
) -> None:
    """Of a machine that cannot speak any more, so that the event alone tells of it; and nothing
    else calls the function."""
    cloud.listen()
    cloud.submit(tmp_path / "person")
    [machine] = until(cloud.living, "a machine")
    until(lambda: "registered" in cloud.control.console(machine.id), "its agent")
    cloud.rule("warnings", EventPattern=json.dumps(WARNING))
    cloud.control.partition(machine.id)
    cloud.control.interrupt(machine.id, 120.0)
    [_, other] = until(lambda: both(cloud.control.machines), "a replacement")
    noticed = cloud.control.machine(machine.id).noticed
    assert noticed is not None
    assert other.launched - noticed < 30.0  # three or so where nothing else runs
    assert cloud.control.machine(machine.id).ended is None


def both(machines: Callable[[], list[Seen]]) -> list[Seen]:
    found = machines()
    return found if len(found) == 2 else []


@pytest.mark.slow
def test_the_schedule_calls_the_function_every_minute(cloud: Cloud) -> None:
    cloud.rule("minutely", ScheduleExpression="rate(1 minute)")
    assert cloud.calls() == 0
    until(lambda: cloud.calls() == 1, "the first call", patience=180.0)
