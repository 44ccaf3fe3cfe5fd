"""Carrying out a plan: every part of it is one commit that names what the plan was made from."""

from __future__ import annotations

import logging
from functools import partial

from burst.core.errors import Refused
from burst.core.ids import new_id
from burst.core.model import Allocation, DrainCause, Event, Node, Supply, Trial
from burst.core.states import AllocationState, Reason, TrialState
from burst.core.store.port import Append, Put, Write
from burst.core.units import counted
from burst.runner.enforce import config_of
from burst.runner.plan import Plan, plan
from burst.runner.plan.snapshot import Launch, Start, Yield
from burst.runner.pools.port import NothingOpen
from burst.runner.reconcile.context import Context, View
from burst.runner.reconcile.launching import intend
from burst.runner.reconcile.limits import book_misfit
from burst.runner.reconcile.reading import snapshot_of
from burst.runner.supply import after_asked
from burst.runner.transitions import move
from burst.runner.wishes import ask_to_leave

log = logging.getLogger(__name__)

KEEP_EVERY_S = 5.0
"""Between two words to an agent that its node is to stay; what it leaves for a runner to decide
(`burst.runner.agent.serving.stay`) is three times as long."""
_WAITS_A_COMMIT = 40


def reconcile_planning(ctx: Context, view: View) -> tuple[float | None, list[Node]]:
    """Plan and act. Returns seconds until the plan would differ by itself, and the nodes whose
    intents were written, which are yet to be launched."""
    made = plan(snapshot_of(ctx, view))
    Acting(ctx, view).carry_out(made)
    created: list[Node] = []
    supplies = dict(view.supplies)
    for each in made.launches:
        if not ctx.acts_for(each.pool):
            continue
        ctx.attempt(partial(_intend, ctx, view, supplies, each, created))
    next_in = None if made.next is None else max(0.0, made.next - ctx.clock.now())
    return next_in, created


def _intend(
    ctx: Context, view: View, supplies: dict[str, Supply], asked: Launch, created: list[Node]
) -> None:
    supply = supplies[asked.pool]
    if asked.pool not in ctx.limits:
        return  # it was booked a moment ago that the pool can have no machine
    try:
        nodes = intend(ctx, view, supply, asked)
    except NothingOpen:
        raise
    except Refused as error:
        book_misfit(ctx, supply, error)
        del ctx.limits[asked.pool]
        return
    if nodes:  # the next launch of this pass writes the book that this one has written
        written = after_asked(supply)
        supplies[asked.pool] = written.model_copy(update={"version": supply.version + 1})
        created += nodes


class Acting:
    """The versions that the plan was made from, and those that acting on it has made."""

    def __init__(self, ctx: Context, view: View) -> None:
        self.ctx = ctx
        self.nodes = {node.id: node for node in view.nodes}
        self.trials = {trial.id: trial for trial in view.trials}
        self.experiments = {each.id: each for each in view.experiments}
        self.allocations = {each.id: each for each in view.allocations}

    def carry_out(self, made: Plan) -> None:
        for start in made.starts:
            self._start(start)
        for leave in made.yields:
            self._yield(leave)
        for id in made.drains:
            self._drain(self.nodes[id])
        self.ctx.kept = {id: at for id, at in self.ctx.kept.items() if id in made.keeps}
        for id in made.keeps:
            self._keep(self.nodes[id])
        changed: list[Trial] = []
        for wait in made.waits:
            trial = self.trials[wait.trial]
            if trial.wait != wait.reason or trial.wait_until != wait.until:
                told = {"wait": wait.reason, "wait_until": wait.until}
                changed.append(trial.model_copy(update=told))
        self._tell(changed)

    def _start(self, start: Start) -> None:
        """Allocation, trial and nodes in one commit: who read one of them before is refused."""
        ctx, now = self.ctx, self.ctx.clock.now()
        trial = self.trials[start.trial]
        experiment = self.experiments[trial.experiment]
        reason = Reason(
            code="planned", text=f"{counted(trial.slots, 'slot')} in pool {start.pool}"
        )
        running, told = move(
            trial,
            TrialState.RUNNING,
            reason,
            now,
            experiment=trial.experiment,
            token=trial.token + 1,
            attempts=trial.attempts + 1,
            pool=start.pool,
            training_since=None,
            wait=None,
            wait_until=None,
            wanted=None,
        )
        requested = Allocation(
            id=new_id("alloc", ctx.clock),
            state_since=now,
            trial=trial.id,
            experiment=trial.experiment,
            pool=start.pool,
            attempt=running.attempts,
            token=running.token,
            shares=start.shares,
            created=now,
        )
        assigned, event = move(
            requested, AllocationState.ASSIGNED, reason, now, experiment=trial.experiment
        )
        taken = [
            self.nodes[share.node].model_copy(update={"idle_since": None})
            for share in start.shares
        ]
        writes: list[Write] = [Put(assigned), event, Put(running), told, *map(Put, taken)]
        capped = config_of(experiment).resources.max_slots is not None
        if capped:
            # Two runners that start trials of one experiment on different nodes meet here.
            writes.append(Put(experiment))
        if ctx.commit(*writes):
            log.info("trial %s starts attempt %d in %s", trial.id, running.attempts, start.pool)
            for node in taken:
                self.nodes[node.id] = node.model_copy(update={"version": node.version + 1})
            if capped:
                self.experiments[experiment.id] = experiment.model_copy(
                    update={"version": experiment.version + 1}
                )

    def _yield(self, leave: Yield) -> None:
        allocation = self.allocations[leave.allocation]
        experiment = self.experiments[allocation.experiment]
        reason = Reason(code="preempted", text=f"it makes room for {leave.to}")
        now, grace = self.ctx.clock.now(), config_of(experiment).drain_grace
        writes = ask_to_leave(allocation, DrainCause.PREEMPT, reason, now, grace)
        if writes:
            self.ctx.commit(*writes)

    def _drain(self, node: Node) -> None:
        now = self.ctx.clock.now()
        changed = node.model_copy(update={"draining": now, "cordoned": node.cordoned or now})
        self.ctx.commit(Put(changed), Append(_node_event(node, "draining", "it had no work", now)))

    def _keep(self, node: Node) -> None:
        """Tell the node's agent that somebody waits for it, since it leaves by itself otherwise.

        How long ago it was told is measured from when this runner saw the word, so that runners
        whose clocks differ do not tell it in turns.
        """
        ctx, now = self.ctx, self.ctx.clock.monotonic()
        mark, since = ctx.kept.get(node.id, (None, now))
        if mark != node.wanted_at:
            mark, since = node.wanted_at, now
            ctx.kept[node.id] = mark, since
        if mark is None or now - since >= KEEP_EVERY_S:
            ctx.commit(Put(node.model_copy(update={"wanted_at": ctx.clock.now()})))

    def _tell(self, trials: list[Trial]) -> None:
        """Store why trials wait. Nobody acts on it, so a conflict is left to the next pass."""
        for first in range(0, len(trials), _WAITS_A_COMMIT):
            batch = [Put(trial) for trial in trials[first : first + _WAITS_A_COMMIT]]
            if not self.ctx.commit(*batch):
                for put in batch:
                    self.ctx.commit(put)


def _node_event(node: Node, name: str, text: str, at: float) -> Event:
    return Event(subject=node.id, name=f"node.{name}", text=text, at=at, data={"pool": node.pool})
