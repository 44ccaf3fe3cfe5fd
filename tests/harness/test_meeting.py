"""Launchers and ranks that cannot meet."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from burst.core.errors import ExitCode, Unreachable
from burst.core.launch import LaunchSpec, Outcome, failures_left
from burst.core.model import ExitKind
from burst.harness import gang
from burst.harness.distributed import Place, join_gang
from burst.harness.leaving import status_of
from burst.runner.agent.hardware.network import free_port


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which something else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield int(other.getsockname()[1])


def _spec(folder: Path, node_rank: int, port: int) -> LaunchSpec:
    return LaunchSpec(
        folder=str(folder),
        store_url="memory:",
        blobs_url="",
        checkpoints_url="",
        experiment="",
        trial="",
        allocation="alloc-1m3k9zq4w73",
        node="",
        attempt=1,
        token=1,
        hparams={},
        seed=0,
        config={},
        nodes=2,
        node_rank=node_rank,
        ranks_per_node=2,
        rendezvous=f"127.0.0.1:{port}",
    )


def test_a_port_that_another_program_took_is_no_fault_of_the_trial(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    for name, value in (environ | {"MASTER_PORT": str(taken)}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unreachable, match="has taken their port") as raised:
        join_gang(Place(rank=0, size=2, local_size=2), "cpu")
    assert status_of(raised.value)[1] is ExitKind.INFRASTRUCTURE


@pytest.mark.parametrize("node_rank", [0, 1])
def test_launchers_that_cannot_meet_say_so_soon_and_blame_the_world(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch, node_rank: int
) -> None:
    monkeypatch.setattr(gang, "_MEET_WITHIN_S", 1)
    port = taken if node_rank == 0 else free_port("127.0.0.1")
    assert gang.run(_spec(tmp_path, node_rank, port)) == ExitCode.UNREACHABLE
    outcome = Outcome.read(tmp_path)
    assert outcome is not None
    assert outcome.kind is ExitKind.INFRASTRUCTURE
    ((rank, (_, failure)),) = failures_left(tmp_path).items()
    assert rank == 2 * node_rank
    assert f"could not meet at 127.0.0.1:{port}" in failure.message


def test_torch_orders_nodes_as_their_shares_are(tmp_path: Path) -> None:
    names = [gang._name_of_node(_spec(tmp_path, rank, 29500)) for rank in range(80)]
    assert names == sorted(names)
    assert names[0] == "127.0.0.1"
