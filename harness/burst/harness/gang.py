"""Runs the ranks of this node with torch's elastic launcher, and ends with the status of the rank
that failed first. For a rank that could not say how it ended, it does."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from burst.core.errors import ExitCode
from burst.core.launch import APART, LaunchSpec, Outcome, read_launch, write_failure
from burst.core.model import ExitKind, Failure
from burst.harness.heartbeat import Heartbeat

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

_LOOPBACK = "127.0.0.1"
_MEET_WITHIN_S = 60


def run(spec: LaunchSpec) -> int:
    """Start the ranks and wait for them; returns this process's exit status."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=spec.nodes,
        max_nodes=spec.nodes,
        nproc_per_node=spec.ranks_per_node,
        run_id=spec.allocation,
        rdzv_backend="c10d",
        rdzv_endpoint=spec.rendezvous or f"{_LOOPBACK}:0",
        rdzv_configs=_rendezvous(spec),
        max_restarts=0,
        monitor_interval=0.1,
        local_addr=_name_of_node(spec),
        signals_to_handle="SIGTERM",
        shutdown_timeout=int(spec.config.get("drain_grace", 120)),
    )
    heartbeat = _listen(spec)
    try:
        elastic_launch(config, sys.executable)("-m", "burst.harness.rank")
    except ChildFailedError as error:
        _, first = error.get_first_failure()
        note_ends(spec, error.failures.values())
        return first.exitcode if first.exitcode > 0 else 128 - first.exitcode
    except SignalException:
        return 0
    except RendezvousError as error:
        cause = error.__cause__ or error
        text = f"the nodes of the gang could not meet at {spec.rendezvous}: {cause}"
        return _blame_the_world(spec, text)
    finally:
        heartbeat.close()
    return 0


def _blame_the_world(spec: LaunchSpec, text: str) -> int:
    """The launchers did not meet, or lost each other: nothing that the ranks could help."""
    rank = spec.node_rank * spec.ranks_per_node
    if Outcome.read(spec.path) is None:
        Outcome(kind=ExitKind.INFRASTRUCTURE, text=text).write(spec.path)
        write_failure(spec.path, rank, Failure(kind=APART, message=text, rank=rank), time.time())
    return int(ExitCode.UNREACHABLE)


def _listen(spec: LaunchSpec) -> Heartbeat:
    """Have this process end, and its ranks with it, where another node falls silent."""

    def lost(text: str) -> None:
        os._exit(_blame_the_world(spec, text))

    heartbeat = Heartbeat(spec.node_rank, spec.nodes, lost)
    if spec.nodes > 1:
        address, _, port = spec.rendezvous.rpartition(":")
        heartbeat.start(address, int(port))
    return heartbeat


def note_ends(spec: LaunchSpec, failures: Iterable[ProcessFailure]) -> None:
    """Leave for the agent what is known of ranks that failed without a word.

    Only of those that failed first: the launcher then ends the others, and lists them as well.
    After rank 0's last word nothing is lost by how a process came to its end.
    """
    found = list(failures)
    first = min(each.timestamp for each in found)  # in seconds, and ending the others takes longer
    if Outcome.read(spec.path) is not None:
        return
    for each in found:
        rank = spec.node_rank * spec.ranks_per_node + each.local_rank
        told = (spec.path / "failures" / f"rank{rank}.json").exists()
        if each.timestamp == first and each.exitcode != -signal.SIGTERM and not told:
            ended = Failure(kind=_name(each.exitcode), rank=rank, exit_code=each.exitcode)
            write_failure(spec.path, rank, ended, time.time())


def _name(exit_code: int) -> str:
    return signal.Signals(-exit_code).name if exit_code < 0 else f"exit {exit_code}"


def _name_of_node(spec: LaunchSpec) -> str:
    """Torch orders nodes by these. The first one's is also where its ranks are found; the others'
    come after any address, in their own order."""
    if spec.node_rank:
        return f"~{spec.node_rank:05d}"
    return spec.rendezvous.rpartition(":")[0] or _LOOPBACK


def _rendezvous(spec: LaunchSpec) -> dict[str, object]:
    """Whoever hosts it is said, since guessing by names fails where a host has several. All nodes
    are ready when they come here, so none is waited for long."""
    return {
        "is_host": spec.node_rank == 0,
        "timeout": _MEET_WITHIN_S,
        "read_timeout": _MEET_WITHIN_S,
        "join_timeout": _MEET_WITHIN_S,
        "last_call_timeout": 1,
        "keep_alive_interval": 1,
        "keep_alive_max_attempt": 3,
    }


if __name__ == "__main__":
    launched = read_launch()
    if launched is None:
        sys.exit("BURST_LAUNCH is not set")
    sys.exit(run(launched))
