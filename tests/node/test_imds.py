"""What a machine learns from its metadata service."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import Unreachable
from burst.runner.agent.host import MARGIN_S
from burst.runner.node.imds import Imds, Warned
from burst.runner.node.notices import Watcher, reclaim_of
from tests.node.imds_server import ImdsServer, iso


@pytest.fixture
def server() -> Iterator[ImdsServer]:
    with ImdsServer("i-7", **{"burst:launch": "launch-1", "burst:pool": "spot"}) as server:
        yield server


def _warned(server: ImdsServer) -> Warned:
    found = Imds(server.url).reclaim()
    assert found is not None
    return found


def test_a_machine_learns_who_it_is_and_whose(server: ImdsServer) -> None:
    found = Imds(server.url).identity()
    assert (found.instance, found.type, found.zone) == ("i-7", "c5.large", "us-east-1a")
    assert (found.region, found.address, found.image) == ("us-east-1", "10.0.0.7", "ami-1")
    assert found.tags == {"burst:launch": "launch-1", "burst:pool": "spot"}


def test_the_endpoint_of_the_environment_is_asked(
    server: ImdsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url + "/")
    assert Imds().identity().instance == "i-7"


def test_no_proxy_is_ever_asked(server: ImdsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert Imds(server.url).identity().instance == "i-7"


def test_a_token_that_has_had_its_time_is_fetched_anew(server: ImdsServer) -> None:
    imds = Imds(server.url)
    imds.identity()
    server.tokens.clear()
    assert imds.identity().instance == "i-7"


def test_one_token_serves_many_questions(server: ImdsServer) -> None:
    imds = Imds(server.url)
    imds.identity()
    imds.reclaim()
    assert len(server.tokens) == 1


def test_tags_that_may_not_be_read_are_none(server: ImdsServer) -> None:
    del server.answers["tags/instance"]
    assert Imds(server.url).identity().tags == {}


def test_a_machine_elsewhere_is_told_that_nothing_answers() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no instance metadata service answers") as raised:
            Imds(url).identity()
    assert "run this on an instance in EC2" in raised.value.mend


def test_a_service_that_hangs_is_given_up_within_its_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        with pytest.raises(Unreachable):
            Imds(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.1).reclaim()
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_refusal_is_told_and_is_no_notice(server: ImdsServer, status: int) -> None:
    server.failing = status
    with pytest.raises(Unreachable, match="refused to answer"):
        Imds(server.url).reclaim()


def test_without_a_notice_there_is_none(server: ImdsServer) -> None:
    assert Imds(server.url).reclaim() is None
    assert Imds(server.url).rebalance() is None


def test_a_notice_says_what_will_happen_when_and_how_long_that_is(server: ImdsServer) -> None:
    at = server.notice(120, "stop")
    found = _warned(server)
    assert (found.action, found.at) == ("stop", at)
    assert 117 < found.left <= 121


@pytest.mark.parametrize("ahead", [-300.0, 300.0])
def test_a_wrong_clock_here_changes_nothing_of_the_time_that_is_left(
    server: ImdsServer, ahead: float
) -> None:
    server.ahead = ahead
    server.notice(120)
    assert 117 < _warned(server).left <= 121


@pytest.mark.parametrize("text", ["", "soon", "[]", '{"action": "terminate", "time": "soon"}'])
def test_an_answer_that_is_no_notice_is_told_as_it_came(server: ImdsServer, text: str) -> None:
    server.answers["spot/instance-action"] = text
    with pytest.raises(Unreachable, match="answered something else"):
        Imds(server.url).reclaim()


def test_a_recommendation_says_when_it_was_given(server: ImdsServer) -> None:
    text = json.dumps({"noticeTime": iso(1_800_000_000)})
    server.answers["events/recommendations/rebalance"] = text
    assert Imds(server.url).rebalance() == 1_800_000_000.0


# --- the watcher --------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "kept"), [(120, MARGIN_S), (30, 15), (10, 5), (0, 0)])
def test_what_runs_has_left_a_safe_while_before_the_machine_goes(left: float, kept: float) -> None:
    found = reclaim_of(Warned("terminate", at=5000.0, left=left), now=1000.0)
    assert found.at == 5000.0
    assert found.deadline == 1000.0 + left - kept


class _Heard(Watcher):
    def __init__(self, server: ImdsServer) -> None:
        self.changes = 0
        super().__init__(Imds(server.url), ManualClock(), self._count)

    def _count(self) -> None:
        self.changes += 1


def test_a_notice_is_heard_once(server: ImdsServer) -> None:
    watcher = _Heard(server)
    watcher.look()
    assert watcher.reclaim is None
    at = server.notice(120)
    watcher.look()
    first = watcher.reclaim
    assert first is not None
    assert first.at == at
    watcher.look()
    assert watcher.reclaim is first
    assert watcher.changes == 1


def test_a_notice_that_is_gone_again_still_counts_and_a_sooner_one_replaces_it(
    server: ImdsServer,
) -> None:
    watcher = _Heard(server)
    server.notice(120)
    watcher.look()
    del server.answers["spot/instance-action"]
    watcher.look()
    assert watcher.reclaim is not None
    at = server.notice(60)
    watcher.look()
    assert watcher.reclaim.at == at


def test_a_service_that_fails_is_no_notice_and_is_asked_again(server: ImdsServer) -> None:
    watcher = _Heard(server)
    server.failing = 500
    server.notice(120)
    watcher.look()
    assert watcher.reclaim is None
    server.failing = 0
    watcher.look()
    assert watcher.reclaim is not None


def test_a_recommendation_is_heard_once_and_is_no_notice(server: ImdsServer) -> None:
    watcher = _Heard(server)
    text = json.dumps({"noticeTime": iso(1_800_000_000)})
    server.answers["events/recommendations/rebalance"] = text
    watcher.look()
    watcher.look()
    assert watcher.rebalance == 1_800_000_000.0
    assert watcher.reclaim is None
    assert watcher.changes == 1
