"""From the live records to the plan's snapshot of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from burst.core.config.cluster import AwsPool, LocalPool, SlurmPool, StaticPool
from burst.core.model import Allocation, DrainCause, Experiment, Node, Trial
from burst.core.states import ExperimentState, NodeState, Reason, TrialState
from burst.runner.enforce import config_of
from burst.runner.plan.reasons import PAUSED_EXPERIMENT, PAUSED_TRIAL
from burst.runner.plan.snapshot import PlanNode, PlanPool, Run, Snapshot, Want
from burst.runner.pools.port import Limits
from burst.runner.proof import admitted, losing_pools
from burst.runner.reconcile.context import Context, View
from burst.runner.reconcile.exits import BACKING_OFF
from burst.runner.supply import is_misfit, trouble

_COMING = (NodeState.REQUESTED, NodeState.LAUNCHED, NodeState.REGISTERED)
QUIET_S = 1.0
"""Without a new arrival, before a pool that costs money is asked for nodes."""
_NODE_LEAVES = (DrainCause.NOTICE, DrainCause.NODE)
_STOPPING = Reason(code="experiment-stopping", text="its experiment is ending")


def snapshot_of(ctx: Context, view: View) -> Snapshot:
    """What the plan looks at. Costs what is live."""
    experiments = {each.id: each for each in view.experiments}
    now = ctx.clock.now()
    losing = losing_pools(ctx.cluster.pools)
    wants = [
        _want(trial, experiments[trial.experiment], losing, now)
        for trial in view.trials
        if trial.state is TrialState.WAITING and trial.experiment in experiments
    ]
    wants += _about_to_wait(view, experiments, losing, now)
    caps = {id: config_of(each).resources.max_slots for id, each in experiments.items()}
    return Snapshot(
        now=now,
        wants=tuple(wants),
        runs=tuple(_run(each, experiments) for each in view.allocations),
        nodes=tuple(
            PlanNode(
                id=node.id,
                pool=node.pool,
                slots=tuple(slot.index for slot in node.slots),
                idle_since=node.idle_since,
                cell=node.cell,
            )
            for node in view.nodes
            if node.state is NodeState.READY and node.cordoned is None
        ),
        pools=tuple(_pool(ctx, view, name) for name in ctx.pools),
        max_slots={id: cap for id, cap in caps.items() if cap is not None},
        preemption=ctx.cluster.scheduler.preemption,
    )


def _want(trial: Trial, experiment: Experiment, losing: Mapping[str, bool], now: float) -> Want:
    config = config_of(experiment)
    hold, until = _hold(trial, experiment, now)
    pools, closed = admitted(trial, losing)
    return Want(
        trial=trial.id,
        experiment=trial.experiment,
        slots=trial.slots,
        pools=pools,
        priority=config.resources.priority,
        queued=trial.queued,
        blocked=frozenset(trial.blocked_nodes),
        single_node=config.resources.is_single_node,
        hold=hold,
        hold_until=until,
        closed=closed,
        burst_after=config.resources.burst_after,
    )


def _about_to_wait(
    view: View, experiments: Mapping[str, Experiment], losing: Mapping[str, bool], now: float
) -> list[Want]:
    """Trials that leave because their node does: their next one is asked for before they have."""
    trials = {trial.id: trial for trial in view.trials}
    found = []
    for allocation in view.allocations:
        trial, experiment = trials.get(allocation.trial), experiments.get(allocation.experiment)
        drained = allocation.drain is not None and allocation.drain.cause in _NODE_LEAVES
        if not drained or trial is None or experiment is None:
            continue
        goes_on = trial.state is TrialState.RUNNING and trial.wanted is None
        if goes_on and experiment.state is ExperimentState.ACTIVE:
            found.append(replace(_want(trial, experiment, losing, now), leaving=True, hold=None))
    return found


def _hold(trial: Trial, experiment: Experiment, now: float) -> tuple[Reason | None, float | None]:
    if experiment.state is ExperimentState.PAUSED:
        return PAUSED_EXPERIMENT, None
    if experiment.state is not ExperimentState.ACTIVE:
        return _STOPPING, None
    if trial.wanted is TrialState.PAUSED:
        return PAUSED_TRIAL, None
    backing_off = trial.wait is not None and trial.wait.code == BACKING_OFF
    if backing_off and trial.wait_until is not None and now < trial.wait_until:
        return trial.wait, trial.wait_until
    return None, None


def _run(allocation: Allocation, experiments: dict[str, Experiment]) -> Run:
    experiment = experiments.get(allocation.experiment)
    drain = allocation.drain
    return Run(
        allocation=allocation.id,
        trial=allocation.trial,
        experiment=allocation.experiment,
        pool=allocation.pool,
        priority=config_of(experiment).resources.priority if experiment else 1,
        shares=allocation.shares,
        since=allocation.created,
        leaving=drain is not None,
        yielding=drain is not None and drain.cause is DrainCause.PREEMPT,
    )


def _pool(ctx: Context, view: View, name: str) -> PlanPool:
    pool, config, supply = ctx.pools[name], ctx.cluster.pools.get(name), view.supplies[name]
    there = [node for node in view.nodes if node.pool == name]
    coming = [node for node in there if node.state in _COMING and not _problems(node)]
    whole = Counter(node.launch for node in coming if node.whole)
    cells = {node.launch: node.cell for node in coming if node.cell}
    idle = config.idle if isinstance(config, LocalPool | SlurmPool | AwsPool) else None
    costly = isinstance(config, AwsPool)
    limits = ctx.limits.get(name) or Limits(slots_per_node=0, max_nodes=len(there))
    return PlanPool(
        name=name,
        slots_per_node=limits.slots_per_node,
        max_nodes=limits.max_nodes,
        launches=not isinstance(config, StaticPool),
        idle=idle,
        nodes=len(there),
        coming=len(coming),
        coming_whole=tuple(whole[request] for request in sorted(whole)),
        coming_cells=tuple(cells.get(request, "") for request in sorted(whole)),
        trouble="; ".join(filter(None, [trouble(supply), *_unfit(there)])),
        retry_at=pool.closed_until(supply, ctx.clock.now()),
        stopped=str(supply.stopped or ""),
        misfit=is_misfit(supply),
        min_nodes=config.min_nodes if isinstance(config, AwsPool) else 0,
        quiet=QUIET_S if costly else 0.0,
    )


def _problems(node: Node) -> list[str]:
    return [str(problem) for problem in node.facts.get("problems", [])]


def _unfit(nodes: list[Node]) -> list[str]:
    """What keeps machines that are there from taking work."""
    return [problem for node in nodes if node.ready is None for problem in _problems(node)]
