"""What every reconciler is handed: where state lives, the pools, and what was read this pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from burst.core.clock import Clock
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import Conflict, NotFound
from burst.core.model import Allocation, Experiment, Lease, Node, Trial
from burst.core.store.port import Store, Write
from burst.core.workspace import Workspace
from burst.runner.pools.port import Pool
from burst.runner.reconcile.observer import Observer

log = logging.getLogger("burst.runner.reconcile")


@dataclass(frozen=True)
class View:
    """The live records, read once a pass.

    Nodes are read before allocations: a start writes its nodes, so whoever decides on a list of
    allocations that lacks one has an old version of its node too, and does not get it written.
    """

    guards: Mapping[str, Lease]
    """By pool: the record whose version gives the right to launch."""
    nodes: Sequence[Node]
    allocations: Sequence[Allocation]
    trials: Sequence[Trial]
    experiments: Sequence[Experiment]

    @classmethod
    def read(cls, store: Store, pools: Mapping[str, Pool]) -> View:
        guards = {name: _guard(store, name) for name in pools}
        return cls(
            guards=guards,
            nodes=store.live(Node),
            allocations=store.live(Allocation),
            trials=store.live(Trial),
            experiments=store.live(Experiment),
        )


def _guard(store: Store, pool: str) -> Lease:
    id = f"pool:{pool}"
    return store.find(Lease, id) or Lease(id=id)


@dataclass
class Context:
    """One runner's own: it may be lost at any time, and all that follows is waiting again."""

    ws: Workspace
    clock: Clock
    pools: Mapping[str, Pool]
    observer: Observer
    swept: dict[str, str] = field(default_factory=dict)
    """By trial: the checkpoint after which retention was applied."""
    again: bool = False
    """Whether something changed that another reconciler should see at once."""

    @property
    def store(self) -> Store:
        return self.ws.store

    @property
    def cluster(self) -> ClusterConfig:
        return self.ws.cluster

    def commit(self, *writes: Write) -> bool:
        """Commit; False where someone was faster, and then the next pass decides anew."""
        try:
            self.store.commit(*writes)
        except Conflict as error:
            log.debug("someone was faster: %s", error.what)
            self.again = True
            return False
        self.again = True
        return True

    def attempt(self, change: Callable[[], object]) -> None:
        """Do one read-modify-commit that retries by itself; what it loses, the next pass does."""
        try:
            changed = change()
        except (Conflict, NotFound) as error:
            log.debug("left for the next pass: %s", error.what)
            self.again = True
            return
        if changed:
            self.again = True


def make_context(ws: Workspace, clock: Clock, pools: Mapping[str, Pool]) -> Context:
    return Context(ws=ws, clock=clock, pools=pools, observer=Observer(clock))
