"""What `burst down` does before anything is removed: trials are paused with a checkpoint, and
every machine of the cluster is ended, by its tag alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burst.cli.driver import Driver
from burst.core.clock import Clock
from burst.core.errors import BurstError, Refused, Unreachable
from burst.core.model import Allocation, Experiment, Trial
from burst.core.states import ExperimentState
from burst.core.units import counted, format_duration
from burst.core.workspace import Workspace
from burst.runner import commands
from burst.runner.enforce import grace_of
from burst.runner.pools.aws.ec2 import Ec2
from burst.runner.pools.aws.leftovers import find_leftovers, remove_leftover
from burst.runner.pools.aws.machines import Machines

_LOOK_EVERY_S = 2.0
_LATER_S = 60.0
"""Beyond the grace of a drain, for whoever reconciles to hear of it."""
_ENDED_WITHIN_S = 900.0
"""A machine that shuts down may take AWS minutes."""
_LEFTOVERS_S = 60.0


@dataclass(frozen=True)
class Live:
    """What the records say is not over."""

    experiments: tuple[Experiment, ...]
    trials: int
    """That train just now."""

    def __bool__(self) -> bool:
        return bool(self.experiments)

    @property
    def words(self) -> str:
        named = ", ".join(f"{each.id} ({each.name})" for each in self.experiments)
        train = f"{counted(self.trials, 'trial')} in training" if self.trials else "none trains"
        return f"{counted(len(self.experiments), 'live experiment')}: {named}; {train}"


def live_in(ws: Workspace) -> Live:
    """
    Raises:
        BurstError: the store does not answer.
    """
    experiments = tuple(ws.store.live(Experiment))
    running = {each.trial for each in ws.store.live(Allocation)}
    return Live(experiments, len(running))


def pause_all(ws: Workspace, live: Live, clock: Clock, tell: Callable[[str], None]) -> None:
    """Pause every live experiment, and wait until nothing trains any more: then all is in the
    bucket. Idempotent.

    Raises:
        Refused: something has not checkpointed in time.
        BurstError: the store does not answer.
    """
    for each in live.experiments:
        if each.state is ExperimentState.ACTIVE:
            commands.pause(ws, each.id, clock=clock)
            tell(f"paused {each.id} ({each.name}): `burst resume {each.id}` goes on with it")
    if not ws.store.live(Allocation):
        return
    patience = _LATER_S + max((grace_of(each) for each in live.experiments), default=0.0)
    until = clock.monotonic() + patience
    with Driver(ws) as driver:
        while left := ws.store.live(Allocation):
            if driver.error is not None:
                raise driver.error
            if clock.monotonic() >= until:
                raise _not_drained(ws, left, patience)
            clock.sleep(_LOOK_EVERY_S)
    tell("all that trained has checkpointed")


def machines_of(cluster: str, region: str, pool: str = "") -> list[str]:
    """Ids of the machines that carry the cluster's tag, in whatever pool, and have not ended.

    Args:
        pool: of this one alone.

    Raises:
        BurstError: EC2 does not answer.
    """
    sight = Machines(cluster, pool, Ec2(region)).look()
    return sorted(each.id for each in sight.instances.values() if each.alive)


def end_machines(cluster: str, region: str, clock: Clock, tell: Callable[[str], None]) -> int:
    """End every one of them, and what they leave behind; returns how many there were, once EC2
    says that none is left. Idempotent.

    Raises:
        Unreachable: some have not ended within a quarter of an hour.
        BurstError: EC2 does not answer, or refused.
    """
    ec2 = Ec2(region)
    machines, until = Machines(cluster, "", ec2), clock.monotonic() + _ENDED_WITHIN_S
    seen: set[str] = set()
    while True:
        alive = sorted(each.id for each in machines.look().instances.values() if each.alive)
        if not alive:
            break
        fresh = [each for each in alive if each not in seen]
        if fresh:
            tell(f"ending {counted(len(fresh), 'machine')}: {', '.join(fresh)}")
        seen |= set(alive)
        machines.end(alive)
        if clock.monotonic() >= until:
            raise Unreachable(
                f"EC2 still has {counted(len(alive), 'machine')}: {', '.join(alive)}",
                why=f"they were told to end {format_duration(_ENDED_WITHIN_S)} ago",
                mend="run `burst down` again: it looks for them first",
            )
        clock.sleep(_LOOK_EVERY_S)
    _remove_leftovers(ec2, cluster, clock, tell)
    return len(seen)


def _remove_leftovers(ec2: Ec2, cluster: str, clock: Clock, tell: Callable[[str], None]) -> None:
    """Disks, interfaces and placement groups; they may be in use for a while after the machine."""
    until = clock.monotonic() + _LEFTOVERS_S
    while True:
        left = []
        for each in find_leftovers(ec2, cluster, "", ()):
            if remove_leftover(ec2, each):
                tell(f"removed {each.kind} {each.id}")
            else:
                left.append(each)
        if not left or clock.monotonic() >= until:
            return
        clock.sleep(_LOOK_EVERY_S)


def _not_drained(ws: Workspace, left: Sequence[Allocation], patience: float) -> BurstError:
    trials = [ws.store.find(Trial, each.trial) for each in left]
    named = ", ".join(sorted(each.id for each in trials if each is not None))
    return Refused(
        f"{named} has not checkpointed within {format_duration(patience)}; nothing was removed",
        why="it was told to pause; see `burst why`, and `burst logs` of it",
        mend="run `burst down` again, which waits anew; or add --now, which ends it: what it did "
        "since its newest checkpoint is lost",
    )
