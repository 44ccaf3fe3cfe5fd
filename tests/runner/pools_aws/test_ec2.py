"""The client: who asks, where, and what is said when nobody answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import Refused, Unauthorized, Unreachable
from burst.runner.pools.aws import ec2 as client
from burst.runner.pools.aws.ec2 import Ec2, Waits, date_of
from tests.runner.pools_aws.house import (
    EPOCH,
    NO_WAIT,
    ScriptedEc2,
    http_date,
    listed,
    lost,
    said,
)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither credentials nor a region, whoever runs the tests."""
    for name in ("PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """EC2 where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", url)
        yield


def test_without_a_region_it_is_said_where_to_write_it() -> None:
    with pytest.raises(Refused, match="in which region") as caught:
        Ec2("", NO_WAIT).call("describe_instances")
    assert "burst.yaml" in caught.value.mend


@pytest.mark.usefixtures("closed_port")
def test_without_credentials_it_is_said_how_to_get_some() -> None:
    with pytest.raises(Unauthorized, match="no AWS credentials") as caught:
        Ec2("us-east-1", NO_WAIT).call("describe_instances")
    assert "aws sso login" in caught.value.mend


@pytest.mark.usefixtures("closed_port")
def test_where_nobody_listens_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "testing")
    ec2 = Ec2("us-east-1", NO_WAIT)
    with pytest.raises(Unreachable, match="describe_instances"):
        ec2.call("describe_instances")
    assert ec2.guess("describe_instances") is None
    ec2.close()


@pytest.fixture
def silent_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """EC2 where connections are accepted and nothing is ever said."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "testing")
    with socket.create_server(("127.0.0.1", 0), backlog=64) as held:
        monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", f"http://127.0.0.1:{held.getsockname()[1]}")
        yield held


def connections(held: socket.socket) -> int:
    held.setblocking(False)
    found = 0
    with suppress(BlockingIOError):
        while True:
            held.accept()[0].close()
            found += 1
    return found


def test_where_nothing_is_said_a_look_is_over_soon_and_the_next_ones_wait_their_time(
    silent_port: socket.socket,
) -> None:
    clock = ManualClock(EPOCH)
    ec2 = Ec2("us-east-1", NO_WAIT, clock, Waits(look=0.05, fleet=3600.0))
    for operation in ("describe_instances", "describe_subnets", "terminate_instances"):
        with pytest.raises(Unreachable, match="describe_instances"):
            ec2.call(operation)
    assert ec2.guess("get_spot_placement_scores") is None
    assert connections(silent_port) == NO_WAIT.attempts, "only the first of them was sent"
    clock.advance(5.0)
    with pytest.raises(Unreachable, match="describe_subnets"):
        ec2.call("describe_subnets")
    assert connections(silent_port) == NO_WAIT.attempts
    ec2.close()


def test_machines_are_asked_for_with_more_patience_and_once(silent_port: socket.socket) -> None:
    ec2 = Ec2("us-east-1", NO_WAIT, ManualClock(EPOCH), Waits(look=3600.0, fleet=0.05))
    configs = [
        {"LaunchTemplateSpecification": {"LaunchTemplateName": "burst/lab/spot", "Version": "1"}}
    ]
    target = {"TotalTargetCapacity": 1}
    with pytest.raises(Unreachable, match="create_fleet"):
        ec2.ask_once(
            "create_fleet", LaunchTemplateConfigs=configs, TargetCapacitySpecification=target
        )
    assert connections(silent_port) == 1
    ec2.close()


def test_what_a_pass_waits_for_a_silent_ec2_is_about_ten_seconds() -> None:
    waits = Waits()
    assert client._RETRIES.within_s + waits.look <= 11.0
    assert waits.fleet >= 30.0


def test_what_failed_on_the_way_is_asked_again_and_what_must_not_be_is_not() -> None:
    for failure in (lost(), said("InternalError", status=500), said("Unavailable", status=503)):
        ec2 = ScriptedEc2(("describe_instances", failure), ("describe_instances", listed()))
        ec2.call("describe_instances")
        ec2 = ScriptedEc2(("create_fleet", failure))
        with pytest.raises(Unreachable):
            ec2.ask_once("create_fleet")


def test_how_far_ec2s_clock_is_ahead_is_known_from_its_last_answer() -> None:
    ec2 = ScriptedEc2(("describe_instances", listed()), date=EPOCH - 240)
    ec2.call("describe_instances")
    assert ec2.ahead == -240.0


@pytest.mark.parametrize("headers", [{}, {"date": "yesterday"}, {"date": ""}])
def test_an_answer_without_a_date_has_none(headers: dict[str, str]) -> None:
    assert date_of({"ResponseMetadata": {"HTTPHeaders": headers}}) is None
    assert date_of({}) is None
    there = {"ResponseMetadata": {"HTTPHeaders": {"date": http_date(EPOCH)}}}
    assert date_of(there) == EPOCH


class _Garbled(BaseHTTPRequestHandler):
    """What a proxy in between answers in EC2's place."""

    def do_POST(self) -> None:
        body = b"<html>please log in"
        self.send_response(502)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def test_an_answer_that_is_none_of_ec2s_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "testing")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Garbled) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", f"http://127.0.0.1:{server.server_port}")
        ec2 = Ec2("us-east-1", NO_WAIT)
        try:
            with pytest.raises(Unreachable, match="describe_instances"):
                ec2.call("describe_instances")
        finally:
            ec2.close()
            server.shutdown()
            thread.join()
