"""A gang between two network namespaces, which are to each other what two machines are: each has
its own interfaces and its own loopback, and one wire between them."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from burst.core.model import ExitKind
from burst.core.states import AllocationState, TrialState
from tests.exactness.gangs import Cluster, Ended

WHOLE = tuple(range(40))


@dataclass(frozen=True)
class Host:
    namespace: str
    interface: str
    address: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words that make a command run on this host."""
        return ("ip", "netns", "exec", self.namespace)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip`: install iproute2")
    mark = uuid.uuid4().hex[:6]
    pair = (
        Host(f"burst-{mark}-a", f"w{mark}a", "10.203.0.1"),
        Host(f"burst-{mark}-b", f"w{mark}b", "10.203.0.2"),
    )
    try:
        try:
            for host in pair:
                _ip("netns", "add", host.namespace)
            _ip("link", "add", pair[0].interface, "type", "veth", "peer", pair[1].interface)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        for host in pair:
            _ip("link", "set", host.interface, "netns", host.namespace)
            inside = ("-n", host.namespace)
            _ip(*inside, "addr", "add", f"{host.address}/24", "dev", host.interface)
            _ip(*inside, "link", "set", host.interface, "up")
            _ip(*inside, "link", "set", "lo", "up")
        yield pair
    finally:
        for host in pair:
            subprocess.run(["ip", "netns", "del", host.namespace], capture_output=True)


def _run(folder: Path, hosts: tuple[Host, ...], *marks: str) -> Ended:
    """Two ranks: one on each of two hosts, or both on the only one."""
    cluster = Cluster(folder, 2 // len(hosts))
    with cluster.nodes(len(hosts), [host.prefix for host in hosts]) as workspace:
        cluster.submit(2, marks)
        ended = cluster.finish(workspace)
        assert ended.trial.state is TrialState.COMPLETED, ended.trial.failure
        return ended


@pytest.mark.slow
def test_two_hosts_train_what_one_trains_and_resume_it(
    tmp_path: Path, hosts: tuple[Host, Host]
) -> None:
    one = _run(tmp_path / "one", hosts[:1])
    two = _run(tmp_path / "two", hosts, "pause-17")
    assert one.trained == two.trained == WHOLE
    assert one.ending == two.ending
    for attempt in two.attempts:
        noted = {each["address"]: each for each in attempt.network.values()}
        assert set(noted) == {host.address for host in hosts}
        for host in hosts:
            assert noted[host.address]["interface"] == host.interface
        first = attempt.network[attempt.shares[0].node]["address"]
        assert attempt.rendezvous.rpartition(":")[0] == first


@pytest.mark.slow
def test_a_rank_that_vanishes_on_one_host_ends_the_other_s_at_once(
    tmp_path: Path, hosts: tuple[Host, Host]
) -> None:
    ended = _run(tmp_path / "two", hosts, "exit-17")
    crashed = ended.attempts[0]
    assert crashed.state is AllocationState.RELEASED
    assert crashed.exit is not None
    assert crashed.exit.kind is ExitKind.CRASHED
    failure = crashed.exit.failure
    assert failure is not None
    assert (failure.kind, failure.rank, failure.node) == ("exit 3", 1, crashed.shares[1].node)
    assert crashed.ended is not None
    assert failure.at is not None
    assert crashed.ended - failure.at < 60
    assert ended.trained == (*range(18), *range(10, 40))
