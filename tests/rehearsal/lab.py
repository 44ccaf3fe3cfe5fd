"""What the tests of the rehearsal cloud share: a server, clients, templates, and patience."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.exceptions import ClientError

from burst.core.aws.names import LAUNCH
from burst.runner.rehearsal.control import Ec2Control, Seen
from burst.runner.rehearsal.ec2.images import DEFAULT_IMAGE
from burst.runner.rehearsal.ec2.marks import marked

PATIENCE_S = 60.0
NOTHING = "#!/bin/sh\n"
"""User data of a machine that only stands there."""


def until(seen: Callable[[], Any], what: str = "it", patience: float = PATIENCE_S) -> Any:
    """The first true value of `seen`; a real process is waited for, so there is a real pause."""
    deadline = time.monotonic() + patience
    while True:
        found = seen()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


def client(service: str, url: str) -> Any:
    """Of boto3, which tries nothing twice."""
    from boto3.session import Session
    from botocore.config import Config

    session = Session(
        aws_access_key_id="testing", aws_secret_access_key="testing", region_name="us-east-1"
    )
    return session.client(
        service, endpoint_url=url, config=Config(retries={"total_max_attempts": 1})
    )


@dataclass
class Lab:
    """One model of EC2, as a client sees it."""

    url: str
    folder: Path
    server: subprocess.Popen[bytes]

    @cached_property
    def ec2(self) -> Any:
        return client("ec2", self.url)

    @cached_property
    def control(self) -> Ec2Control:
        return Ec2Control(self.url)

    @cached_property
    def subnets(self) -> dict[str, str]:
        """By zone."""
        found = self.ec2.describe_subnets()["Subnets"]
        return {each["AvailabilityZone"]: each["SubnetId"] for each in found}

    def template(self, script: str = NOTHING, **data: Any) -> str:
        """A new launch template; its name."""
        name = f"template-{uuid.uuid4().hex}"
        whole = {
            "ImageId": DEFAULT_IMAGE,
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
            "UserData": base64.b64encode(script.encode()).decode(),
            **data,
        }
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=whole)
        return name

    def fleet(
        self,
        template: str,
        count: int = 1,
        offers: Sequence[tuple[str, str]] = (("c5.large", "us-east-1a"),),
        *,
        market: str = "spot",
        options: dict[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """CreateFleet over offers of (type, zone)."""
        overrides = [
            {"InstanceType": name, "SubnetId": self.subnets[zone]} for name, zone in offers
        ]
        request = {
            "Type": "instant",
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateName": template,
                        "Version": "$Latest",
                    },
                    "Overrides": overrides,
                }
            ],
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": market,
            },
            "SpotOptions" if market == "spot" else "OnDemandOptions": options or {},
            **more,
        }
        found: dict[str, Any] = self.ec2.create_fleet(**request)
        return found

    def launch(self, script: str = NOTHING, count: int = 1, **more: Any) -> list[str]:
        """Machines that run `script`; their ids."""
        ids = ids_of(self.fleet(self.template(script), count, **more))
        assert len(ids) == count
        return ids

    def running(self, id: str) -> Seen:
        """The machine, once it has booted."""

        def seen() -> Seen | None:
            found = self.control.machine(id)
            return found if found.state == "running" else None

        found: Seen = until(seen, f"the boot of {id}")
        return found

    def gone(self, id: str) -> Seen:
        """The machine, once nothing of it runs."""

        def seen() -> Seen | None:
            found = self.control.machine(id)
            return found if found.gone is not None else None

        found: Seen = until(seen, f"the end of {id}")
        return found

    def console(self, id: str, text: str) -> str:
        """The machine's console, once it holds `text`."""
        seen: str = until(
            lambda: found if text in (found := self.control.console(id)) else "", repr(text)
        )
        return seen

    def state(self, id: str) -> dict[str, Any]:
        """The instance as DescribeInstances has it."""
        found = self.ec2.describe_instances(InstanceIds=[id])["Reservations"]
        instance: dict[str, Any] = found[0]["Instances"][0]
        return instance


def code_of(call: Callable[[], Any]) -> str:
    """EC2's code of the error that `call` ends with."""
    with pytest.raises(ClientError) as caught:
        call()
    code: str = caught.value.response["Error"]["Code"]
    return code


def ids_of(answer: dict[str, Any]) -> list[str]:
    """Of a CreateFleet's answer."""
    return [id for each in answer.get("Instances", []) for id in each["InstanceIds"]]


def codes_of(answer: dict[str, Any]) -> list[str]:
    return [each["ErrorCode"] for each in answer.get("Errors", [])]


def launch_tag(launch: str) -> list[dict[str, Any]]:
    """TagSpecifications of a request."""
    return [{"ResourceType": "instance", "Tags": [{"Key": LAUNCH, "Value": launch}]}]


def processes_of(folder: str | Path) -> list[psutil.Process]:
    """All that runs on the machine with that disk, or on any below that folder."""
    return list(marked(str(folder)))


def trees_in(folder: str | Path) -> list[psutil.Process]:
    """`processes_of`, with all below them, whatever their environment."""
    found: dict[int, psutil.Process] = {}
    for root in processes_of(folder):
        try:
            found |= {each.pid: each for each in [root, *root.children(recursive=True)]}
        except psutil.NoSuchProcess:
            continue  # it has just ended
    return list(found.values())


@contextmanager
def lab(folder: Path, boot: float = 0.05, events: str = "") -> Iterator[Lab]:
    """A server in a process of its own."""
    program = (sys.executable, "-m", "burst.runner.rehearsal.ec2", "--folder", str(folder))
    command = (*program, "--events", events)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--boot", str(boot)], stdout=log, stderr=log, env=dict(os.environ)
        )
    made: Lab | None = None
    try:
        until(lambda: (folder / "url").exists() or server.poll() is not None, "the server")
        assert server.poll() is None, (folder / "log").read_text()
        made = Lab((folder / "url").read_text(), folder, server)
        yield made
    finally:
        if made is not None and "ec2" in vars(made):
            made.ec2.close()
        server.kill()
        server.wait()
        until(lambda: not processes_of(folder), "the end of all machines")
