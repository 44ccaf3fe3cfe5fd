"""Runs the ranks of this node with torch's elastic launcher, and ends with the status of the rank
that failed first."""

from __future__ import annotations

import os
import sys

from burst.core.launch import LaunchSpec, read_launch


def run(spec: LaunchSpec) -> int:
    """Start the ranks and wait for them; returns this process's exit status."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=spec.nodes,
        max_nodes=spec.nodes,
        nproc_per_node=spec.ranks_per_node,
        run_id=spec.allocation,
        rdzv_backend="c10d",
        rdzv_endpoint=os.environ.get("BURST_RENDEZVOUS", "127.0.0.1:0"),
        rdzv_configs=_rendezvous(spec),
        max_restarts=0,
        monitor_interval=0.1,
        local_addr="127.0.0.1" if spec.nodes == 1 else None,
        signals_to_handle="SIGTERM",
        shutdown_timeout=int(spec.config.get("drain_grace", 120)),
    )
    try:
        elastic_launch(config, sys.executable)("-m", "burst.harness.rank")
    except ChildFailedError as error:
        _, first = error.get_first_failure()
        return first.exitcode if first.exitcode > 0 else 128 - first.exitcode
    except SignalException:
        return 0
    return 0


def _rendezvous(spec: LaunchSpec) -> dict[str, object]:
    if spec.nodes == 1:
        return {"is_host": True, "timeout": 60}
    return {"is_host": spec.node_rank == 0, "timeout": 600}


if __name__ == "__main__":
    launched = read_launch()
    if launched is None:
        sys.exit("BURST_LAUNCH is not set")
    sys.exit(run(launched))
