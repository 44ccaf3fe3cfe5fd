"""Taking machines away while trials train on them, as a scenario says."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError
from burst.core.model import Allocation, Node, Trial
from burst.core.states import AllocationState, TrialState
from burst.core.store.port import Store
from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.scenario import Capacity, Loss, Scenario, progress_of

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2
_NO_CAPACITY = "InsufficientInstanceCapacity"
_NONE_THERE = "We currently do not have sufficient capacity in the zone you requested."


@dataclass(frozen=True)
class Taken:
    """A machine that was taken away, and what ran there."""

    loss: Loss
    at: float
    """When the cloud said so, or did it."""
    instance: str
    node: str
    trial: str
    attempt: int
    batches: int
    """That the trial was known to have trained."""


@dataclass
class Losing:
    """A thread that watches one experiment and does to its machines what the scenario says."""

    scenario: Scenario
    store: Store
    experiment: str
    control: Ec2Control
    clock: Clock = field(default_factory=SystemClock)
    taken: list[Taken] = field(default_factory=list)
    most: dict[tuple[str, int], int] = field(default_factory=dict)
    """By trial and attempt: the most batches that the trial was seen to have trained."""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="losing", daemon=True)

    def __enter__(self) -> Losing:
        for each in self.scenario.capacity:
            self._limit(each)
        self._thread.start()
        return self

    def _limit(self, capacity: Capacity) -> None:
        ends = any(
            each.zone == capacity.zone and each.since > capacity.since
            for each in self.scenario.capacity
        )
        if capacity.machines == 0 and not capacity.since and not ends:
            # As an offer that is asked for and refused, rather than one that is never chosen.
            self.control.refuse(_NO_CAPACITY, _NONE_THERE, zone=capacity.zone)
            return
        since = self.clock.now() + capacity.since if capacity.since else 0.0
        self.control.set_capacity(capacity.machines, zone=capacity.zone, since=since)

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """Take the next machine away if its time has come."""
        trials = self.store.children(Trial, self.experiment)
        for trial in trials:
            seen = self.most.get((trial.id, trial.attempts), 0)
            self.most[trial.id, trial.attempts] = max(seen, trial.done.batches)
        left = self.scenario.losses[len(self.taken) :]
        if not left or progress_of(trials) < left[0].progress:
            return
        running = {trial.id: trial for trial in trials if trial.state is TrialState.RUNNING}
        gone = {each.node for each in self.taken}
        nodes = [node for node in self.store.live(Node) if node.id not in gone]
        found = choose(left[0], running, self.store.live(Allocation), nodes)
        if found is None:
            return
        allocation, node = found
        instance = str(node.handle["instance"])
        self.control.interrupt(instance, left[0].notice)
        trial = running[allocation.trial]
        self.taken.append(
            Taken(
                loss=left[0],
                at=self.clock.now(),
                instance=instance,
                node=node.id,
                trial=trial.id,
                attempt=allocation.attempt,
                batches=trial.done.batches,
            )
        )

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            try:
                self.look()
            except BurstError as error:
                log.debug("looking for a machine to take away: %s", error)


def choose(
    loss: Loss,
    running: Mapping[str, Trial],
    allocations: Sequence[Allocation],
    nodes: Sequence[Node],
) -> tuple[Allocation, Node] | None:
    """The machine to take away: one of `nodes` on which a trial trains. None while there is none.

    Args:
        running: by id, trials that hold slots.
    """
    by_id = {node.id: node for node in nodes}
    hosts = [
        (allocation, by_id[share.node])
        for allocation in sorted(allocations, key=lambda each: each.id)
        if allocation.trial in running and allocation.state is AllocationState.RUNNING
        for share in allocation.shares
        if share.node in by_id
        and by_id[share.node].handle.get("instance")
        and by_id[share.node].draining is None
        and running[allocation.trial].training_since is not None
    ]
    return hosts[int(loss.choice * len(hosts))] if hosts else None
