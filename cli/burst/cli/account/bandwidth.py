"""Measuring how fast a gang in a pool sums over its slots, by an experiment of burst's own."""

from __future__ import annotations

import logging
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from burst.cli.account.checks import row
from burst.cli.session import Session
from burst.cli.shapes import CheckJson
from burst.core.aws.fabric import Band, expected_band
from burst.core.errors import NotFound, Refused
from burst.core.model import Allocation, Experiment, Node, Trial
from burst.core.units import counted

if TYPE_CHECKING:
    from burst.runner.pools.port import Limits

METRIC = "bus_gb_per_s"
"""As `burst.harness.allreduce` reports it."""
_EXPERIMENT = """\
name: bandwidth
description: an all-reduce over {nodes}, by burst doctor
entrypoint: [python, -m, burst.harness.allreduce]
searcher: {{name: single, metric: {metric}, smaller_is_better: false, max_length: 5ba}}
resources: {{slots_per_trial: {slots}}}
max_restarts: 0
"""


def check_bandwidth(session: Session, pool: str) -> CheckJson:
    """Run the measurement to its end and judge it; whoever interrupts it cancels it.

    Raises:
        NotFound: no such pool.
        Refused: the pool has not two slots.
        BurstError: the store or the blobs did not answer.
    """
    limits = _limits(session, pool)
    nodes = min(2, limits.max_nodes)
    slots = nodes * limits.slots_per_node
    if slots < 2:
        raise Refused(
            f"pool {pool!r} has one slot",
            why="an all-reduce is over two or more",
            mend="measure in another pool",
        )
    over = f"{counted(slots, 'slot')} on {counted(nodes, 'node')}"
    session.note(f"measuring over {over} of pool {pool}" + (" …" if not limits.costs else
                 ", which are paid for meanwhile …"))  # fmt: skip
    experiment = _submit(session, pool, slots, nodes)
    try:
        _watch(session, experiment)
    except BaseException:
        _cancel(session, experiment)
        raise
    return _judged(session, pool, experiment)


def judged(
    label: str, measured: float, band: Band | None, over: str, instance_type: str
) -> CheckJson:
    """A figure against what is expected of the machines that it was measured on. Pure."""
    said = f"{measured:.2f} GB/s bus bandwidth over {over}"
    if band is None:
        of = f" for {instance_type}" if instance_type else ""
        return row(label, True, f"{said}; there is no figure{of} to compare it with")
    expected = f"expected {band.least:g} or more, about {band.usual:g} ({band.source})"
    if measured < band.least:
        mend = "see that EFA is in use: burst doctor --cloud, and NCCL_DEBUG=INFO in a trial"
        return row(label, False, f"{said}; {expected}", mend)
    return row(label, True, f"{said}; {expected}")


def _limits(session: Session, pool: str) -> Limits:
    from burst.runner.pools import open_pools

    pools = open_pools(session.workspace)
    if pool not in pools:
        raise NotFound(
            f"there is no pool {pool!r}", mend=f"name one of {', '.join(pools)} with --bandwidth"
        )
    return pools[pool].limits


def _submit(session: Session, pool: str, slots: int, nodes: int) -> Experiment:
    from burst.cli.submitting import prepare, submit

    with tempfile.TemporaryDirectory(prefix="burst-bandwidth-") as folder:
        file = Path(folder) / "exp.yaml"
        text = _EXPERIMENT.format(nodes=counted(nodes, "node"), metric=METRIC, slots=slots)
        file.write_text(text)
        prepared = prepare(session, file, None, (), [pool])
        return submit(session, prepared, new=True).experiment


def _watch(session: Session, experiment: Experiment) -> None:
    from burst.cli.elsewhere import driver_for
    from burst.cli.following import Follower
    from burst.cli.logs import log_to_stderr
    from burst.cli.presenting import Quiet
    from burst.cli.watching import watch

    log_to_stderr(logging.WARNING)
    follower = Follower(session.store, experiment.id, session.store.newest_cursor())
    with driver_for(session, experiment) as driver:
        watch(session, follower, Quiet(), until=lambda seen: seen.over, driver=driver)


def _cancel(session: Session, experiment: Experiment) -> None:
    from burst.cli.elsewhere import see_driven
    from burst.runner import commands

    with suppress(Refused):  # it came to its end meanwhile
        commands.cancel(session.workspace, experiment.id, clock=session.clock)
        see_driven(session, experiment)


def _judged(session: Session, pool: str, experiment: Experiment) -> CheckJson:
    label, store = f"bandwidth of {pool}", session.store
    trial = store.children(Trial, experiment.id)[0]
    point = trial.latest.get("validation")
    if point is None or METRIC not in point.metrics:
        said = f"it was not measured: {trial.reason or trial.state}"
        return row(label, False, said, f"burst logs {trial.id} has what its ranks wrote")
    attempt = store.children(Allocation, trial.id)[-1]
    machines = [store.get(Node, share.node) for share in attempt.shares]
    types = {str(each.facts.get("instance_type", "")) for each in machines}
    slots = sum(len(share.slots) for share in attempt.shares)
    device = machines[0].slots[0].device
    over = (
        f"{counted(slots, 'slot')} on {counted(len(machines), 'node')} "
        f"({'NCCL' if device == 'cuda' else 'gloo'}, {experiment.id})"
    )
    kind = types.pop() if len(types) == 1 else ""
    band = expected_band(kind, len(machines)) if device == "cuda" else None
    return judged(label, float(point.metrics[METRIC]), band, over, kind)
