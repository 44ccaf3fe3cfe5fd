"""A cluster in a rehearsal cloud of which every call is kept, by whoever makes it: nodes, the
runner and people have access keys of their own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.session import Session

from burst.core.aws.booting import node_script
from burst.core.aws.instance_types import known_type
from burst.core.aws.names import bucket_name, role_name, table_name, tag_list, tags_of
from burst.core.aws.templates import (
    CLUSTER_FILE,
    NodeMachine,
    node_environ,
    template_data,
    template_for,
)
from burst.core.store.dynamodb.items import table_schema
from burst.core.testing.ministack import ministack
from burst.infra.components.function import environ_of
from burst.infra.policies.documents import as_text
from burst.infra.policies.people import viewer_policy
from burst.infra.policies.place import Place
from burst.infra.policies.trusts import trust_of
from burst.infra.settings import Settings
from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.imds import CREDENTIALS
from tests.infra.recording import Call, Recorder
from tests.infra.registering import settings_for
from tests.infra.requests import Account, Template
from tests.rehearsal.lab import processes_of, until

NODE = CREDENTIALS["AWS_ACCESS_KEY_ID"]
RUNNER, VIEWER, SUBMITTER, AUDITOR = "runner", "viewer", "submitter", "auditor"
BUILDER = "builder"
POOL, ZONE = "spot", "us-east-1a"
TYPES = ("c5.large", "c5d.large")
"""Between two EC2 is asked for its guess."""
IMAGE = (
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/"
    "base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
FILE = f"""
cluster: lab
aws: {{region: us-east-1, image: "{IMAGE}"}}
pools:
  {POOL}:
    {{kind: aws, instance_types: [{", ".join(TYPES)}], slots_per_node: 1, max_nodes: 3, idle: 5s}}
"""
_COMMANDS = """
import json, sys
from burst.cli.root import cli
for words in json.loads(sys.argv[1]):
    try:
        cli.main(words)
    except SystemExit as end:
        if end.code:
            raise
"""
_RUNNER = """
import time
from burst.runner.lambda_handler import handler
while True:
    handler({}, None)
    time.sleep(0.5)
"""


@dataclass
class RecordedCloud:
    settings: Settings
    account: Account
    recorder: Recorder
    control: Ec2Control
    environ: Mapping[str, str]
    """Where the servers are, for everybody."""
    work: Path
    """The folder of people, with the cluster file and what they run."""
    ec2: Any
    """boto3's, unrecorded."""

    def burst(self, person: str, *commands: str, status: int = 0) -> str:
        """Commands of a person, one after the other in one process; what they print."""
        words = [shlex.split(command) for command in commands]
        done = subprocess.run(
            [sys.executable, "-c", _COMMANDS, json.dumps(words)],
            cwd=self.work,
            env=self._own(person),
            capture_output=True,
            text=True,
            check=False,
            timeout=300.0,
        )
        assert done.returncode == status, f"{commands}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    @contextmanager
    def runner(self) -> Iterator[None]:
        """The function's own handler, called again and again."""
        log = self.work / "runner.log"
        environ = {**self._own(RUNNER), **environ_of(self.settings)}
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-c", _RUNNER], env=environ, stdout=sink, stderr=sink
            )
        try:
            yield
            assert process.poll() is None, log.read_text()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def calls(self, key: str) -> list[Call]:
        """Those that were signed with a key."""
        return [each for each in self.recorder.calls if each.key == key]

    def _own(self, key: str) -> dict[str, str]:
        places = {"BURST_HOME": str(self.work.parent / f"home-{key}")}
        return {**self.environ, **places, "AWS_ACCESS_KEY_ID": key}


@contextmanager
def recorded_cloud(folder: Path) -> Iterator[RecordedCloud]:
    """The servers with their proxies, and in them what the cluster of FILE has."""
    settings = settings_for(FILE)
    recorder = Recorder()
    with (
        ministack(folder / "ministack.log") as aws,
        recorder.before(aws) as aws_seen,
        _ec2(folder / "ec2", aws_seen) as model,
        recorder.before(model) as ec2_seen,
    ):
        work = folder / "work"
        work.mkdir()
        (work / "burst.yaml").write_text(settings.cluster_file)
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "BURST_"))}
        environ = {
            **ours,
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": settings.facts.region,
            "AWS_ENDPOINT_URL": aws_seen,
            "AWS_ENDPOINT_URL_EC2": ec2_seen,
            "AWS_ENDPOINT_URL_SSM": ec2_seen,
        }
        session = Session(
            aws_access_key_id=BUILDER,
            aws_secret_access_key="testing",
            region_name=settings.facts.region,
        )
        ec2 = session.client("ec2", endpoint_url=model)
        account = _network(ec2, settings)
        _storage(session, aws, settings)
        _others(session, aws, settings)
        yield RecordedCloud(settings, account, recorder, Ec2Control(model), environ, work, ec2)


@contextmanager
def _ec2(folder: Path, aws: str) -> Iterator[str]:
    """The model of EC2, whose machines know the proxy of all else."""
    folder.mkdir()
    program = (sys.executable, "-m", "burst.runner.rehearsal.ec2", "--folder", str(folder))
    machines = ("--boot", "0.2", "--machine-environ", f"AWS_ENDPOINT_URL={aws}")
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([*program, *machines], stdout=log, stderr=log)
    try:
        until(lambda: (folder / "url").exists() or server.poll() is not None, "the model of EC2")
        assert server.poll() is None, (folder / "log").read_text()
        yield (folder / "url").read_text()
    finally:
        server.kill()
        server.wait()
        until(lambda: not processes_of(folder), "the end of all machines")


def _network(ec2: Any, settings: Settings) -> Account:
    """A subnet, the group of the nodes, and the pool's launch template, tagged as all is."""
    account = Account(Place.of(settings), {})

    def tagged(kind: str) -> list[dict[str, Any]]:
        return [{"ResourceType": kind, "Tags": tag_list(settings.tags())}]

    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(
        VpcId=vpc,
        CidrBlock="10.0.0.0/20",
        AvailabilityZone=ZONE,
        TagSpecifications=tagged("subnet"),
    )["Subnet"]["SubnetId"]
    group = ec2.create_security_group(
        GroupName="nodes",
        Description="nodes",
        VpcId=vpc,
        TagSpecifications=tagged("security-group"),
    )["GroupId"]
    account.tags.update({subnet: settings.tags(), group: settings.tags()})
    kind = known_type(TYPES[0])
    assert kind is not None
    name = template_for(settings.cluster, POOL, kind, efa=False)
    environ = node_environ(settings.store, settings.blobs, settings.facts.region)
    machine = NodeMachine(settings.aws.image, role_name(settings.cluster, "node"), (group,))
    boot = node_script(environ, max_life=3600.0)
    tags = tags_of(settings.cluster, POOL)
    data = template_data(machine, tags, boot, kind=kind)
    ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData=data,
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": tag_list(tags)}],
    )
    account.templates = {
        name: Template(
            tags=tags,
            makes={
                each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]}
                for each in data["TagSpecifications"]
            },
            image=data["ImageId"],
            role=account.place.role("node"),
            groups=(group,),
        )
    }
    return account


def _storage(session: Any, aws: str, settings: Settings) -> None:
    dynamodb = session.client("dynamodb", endpoint_url=aws)
    dynamodb.create_table(**table_schema(table_name(settings.cluster)))
    bucket = bucket_name(settings.cluster, settings.facts.account, settings.facts.region)
    s3 = session.client("s3", endpoint_url=aws)
    s3.create_bucket(Bucket=bucket)
    key = CLUSTER_FILE.removeprefix("blobs:")
    s3.put_object(Bucket=bucket, Key=key, Body=settings.cluster_file.encode())


def _others(session: Any, aws: str, settings: Settings) -> None:
    """One of each of the other kinds of which an audit reads the tags."""
    tags, name = tag_list(settings.tags()), f"burst-{settings.cluster}-one"
    document = as_text(trust_of(Place.of(settings), "ec2"))
    iam = session.client("iam", endpoint_url=aws)
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=document, Tags=tags)
    iam.create_instance_profile(InstanceProfileName=name, Tags=tags)
    policy = as_text(viewer_policy(settings))
    iam.create_policy(PolicyName=name, PolicyDocument=policy, Tags=tags)
    events = session.client("events", endpoint_url=aws)
    events.put_rule(Name=name, ScheduleExpression="rate(1 hour)", State="DISABLED", Tags=tags)
    session.client("sns", endpoint_url=aws).create_topic(Name=name, Tags=tags)
    session.client("cloudwatch", endpoint_url=aws).put_metric_alarm(
        AlarmName=name,
        Namespace="burst",
        MetricName="strays",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        Threshold=0,
        Tags=tags,
    )
