"""The rehearsal's model of EC2 in this process, on a clock by hand: no socket, no thread, no boot.

A botocore client speaks to it as to EC2: what is sent is signed and serialized, what comes back is
parsed, and all that lies between is the model that rehearsals run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from burst.core.aws.names import tag_list, tags_of, template_name
from burst.core.aws.templates import NodeMachine, template_data
from burst.core.clock import ManualClock
from burst.runner.rehearsal.ec2.cloud import Cloud
from burst.runner.rehearsal.ec2.gates import Gates
from burst.runner.rehearsal.ec2.machine import Machine, Reason, State

CLUSTER, POOL = "lab", "spot"
ZONES = ("us-east-1a", "us-east-1b")
TYPES = ("c5.large", "m5.large")
START = 1_800_000_000.0
_NO_DISK = Path("/nonexistent")
_OF_THE_CATALOG = (
    "DescribeSubnets",
    "DescribeInstanceTypes",
    "DescribeInstanceTypeOfferings",
    "DescribeSpotPriceHistory",
)
"""What says the same every time, and is slow to say."""


@dataclass
class _Timer:
    at: float
    act: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class StillCloud(Cloud):
    """Machines that are there and run nothing; what happens later happens when the clock says."""

    ending: float = 4.0
    """Seconds from the end of a machine until EC2 calls it terminated."""
    due: list[_Timer] = field(default_factory=list)

    def _later(
        self, machine: Machine, name: str, seconds: float, act: Callable[[Machine], None]
    ) -> None:
        timer = _Timer(self.clock.now() + seconds, lambda: act(machine))
        held: dict[str, Any] = machine.timers
        held[name] = timer
        self.due.append(timer)

    def _boot(self, machine: Machine) -> None:
        if machine.state is State.PENDING:
            machine.booted = self.clock.now()
            self._set(machine, State.RUNNING, Reason.NONE)

    def _gone(self, machine: Machine) -> None:
        self.due.append(
            _Timer(self.clock.now() + self.ending, lambda: _gone_for_good(self, machine))
        )

    def tick(self) -> bool:
        """Do what is due by now; whether there was any."""
        now = self.clock.now()
        ready = sorted((each for each in self.due if each.at <= now), key=lambda each: each.at)
        self.due = [each for each in self.due if each.at > now and not each.cancelled]
        for timer in ready:
            if not timer.cancelled:
                with self.lock:
                    timer.act()
        return bool(ready)


def _gone_for_good(cloud: Cloud, machine: Machine) -> None:
    Cloud._gone(cloud, machine)


class Model:
    """One a process, as moto's state is the process's; emptied for every life."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self._gates = Gates()
        self.cloud = self._new_cloud()
        self.client = self._client()
        self._said: dict[tuple[bytes, Any], tuple[int, Mapping[str, str], bytes]] = {}
        self._aws = self._wsgi()
        self._furnish()

    def empty(self) -> None:
        """No machine, no rule, no fault, and the clock at its start."""
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.ec2.models import ec2_backends
        from moto.moto_api._internal import mock_random

        from burst.core import ids
        from burst.runner.rehearsal.ec2.patched.install import RehearsalEC2

        mock_random.seed(1)
        made: Any = ids
        made.chance = Random(1)
        backend: Any = ec2_backends[DEFAULT_ACCOUNT_ID]["us-east-1"]
        for each in ("reservations", "volumes", "enis"):
            getattr(backend, each).clear()
        for id in self.cloud.machines:  # the next ones have the same ids
            backend.tags.pop(id, None)
        self.clock = ManualClock(START)
        self.cloud = RehearsalEC2.cloud = self._new_cloud()
        if not backend.launch_templates:  # another test of this process has reset moto
            self._said.clear()
            self._furnish()

    def living(self) -> list[Machine]:
        """Machines that cost money."""
        return [each for each in self.cloud.machines.values() if each.ended is None]

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.cloud.tick()

    def _new_cloud(self) -> StillCloud:
        cloud = StillCloud(_NO_DISK, lambda machine: {}, "", clock=self.clock, gates=self._gates)
        cloud.settings.boot = 12.0
        return cloud

    def _sight(self, operation: str) -> Any:
        """All that an answer to a look depends on; None for other calls, which are not kept."""
        if operation in _OF_THE_CATALOG:
            return tuple(self.cloud.prices.items())
        if operation != "DescribeInstances":
            return None
        now = self.clock.now() if self.cloud.settings.listed_after else 0.0
        machines = self.cloud.machines.values()
        return now, tuple(
            (each.id, each.state, each.reason, each.launched, *each.body.tags().items())
            for each in machines
        )

    def _furnish(self) -> None:
        """Subnets and the launch template of a cluster."""
        client = self.client
        subnets = client.describe_subnets()["Subnets"]
        mine = [each["SubnetId"] for each in subnets if each["AvailabilityZone"] in ZONES]
        client.create_tags(Resources=mine, Tags=tag_list(tags_of(CLUSTER)))
        group = client.describe_security_groups()["SecurityGroups"][0]["GroupId"]
        image = client.register_image(Name="a node's")["ImageId"]
        data = template_data(
            NodeMachine(image, "burst-lab-node", (group,)), tags_of(CLUSTER, POOL), "#!/bin/sh\n"
        )
        client.create_launch_template(
            LaunchTemplateName=template_name(CLUSTER, POOL), LaunchTemplateData=data
        )

    def _client(self) -> Any:
        from boto3.session import Session
        from botocore.config import Config

        session = Session(
            aws_access_key_id="testing", aws_secret_access_key="testing", region_name="us-east-1"
        )
        client = session.client("ec2", config=Config(retries={"total_max_attempts": 1}))
        client.meta.events.register("before-send.ec2", self._answer)
        return client

    def _wsgi(self) -> Any:
        from burst.runner.rehearsal.ec2.app import App
        from burst.runner.rehearsal.ec2.patched.install import RehearsalEC2, install

        install(self.cloud)

        def aws(environ: dict[str, Any], start: Any) -> list[bytes]:
            from werkzeug.wrappers import Request

            request: Any = Request(environ)
            request.from_wsgi_server, request.raw_path = True, request.path
            status, headers, body = RehearsalEC2.dispatch(
                request, request.url, dict(request.headers)
            )
            start(f"{status} said", list(headers.items()))
            return [body.encode() if isinstance(body, str) else body]

        return lambda environ, start: App(self.cloud, aws)(environ, start)

    def _answer(self, request: Any, **_: Any) -> Any:
        """What a socket would bring, for botocore."""
        from botocore.awsrequest import AWSResponse

        body = request.body if isinstance(request.body, bytes) else str(request.body).encode()
        sight = self._sight(_operation(body))
        said = self._said.get((body, sight)) if sight is not None else None
        if said is None:
            said = self._ask(request, body)
        if sight is not None and said[0] == 200:
            self._said[body, sight] = said
        status, headers, data = said
        dated = {**headers, "date": formatdate(self.clock.now(), usegmt=True)}
        return AWSResponse(request.url, status, dated, _Raw(data))

    def _ask(self, request: Any, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        address = urlsplit(request.url)
        environ: dict[str, Any] = {
            "REQUEST_METHOD": request.method,
            "PATH_INFO": address.path or "/",
            "QUERY_STRING": address.query,
            "SERVER_NAME": address.hostname,
            "SERVER_PORT": "443",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": address.netloc,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": BytesIO(body),
            "wsgi.url_scheme": "https",
        }
        for name, value in request.headers.items():
            key = name.upper().replace("-", "_")
            text = value.decode() if isinstance(value, bytes) else str(value)
            environ[key if key.startswith("CONTENT_") else f"HTTP_{key}"] = text
        said: list[Any] = []
        data = b"".join(self._aws(environ, lambda *what: said.extend(what)))
        status, headers = said[0], said[1]
        return int(status.split()[0]), {k.lower(): v for k, v in headers}, data


@dataclass(frozen=True)
class Skewed:
    """The clock of a machine that is wrong by `ahead` seconds."""

    model: Model
    ahead: float = 0.0

    def now(self) -> float:
        return self.model.clock.now() + self.ahead

    def monotonic(self) -> float:
        return self.model.clock.now()

    def sleep(self, seconds: float) -> None:
        """Nobody waits here: time passes between turns alone."""


@dataclass
class _Raw:
    data: bytes

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.data


def _operation(body: bytes) -> str:
    return parse_qs(body.decode()).get("Action", [""])[0]


@cache
def the_model() -> Model:
    return Model()
