"""What every reconciler is handed: where state lives, the pools, and what was read this pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from burst.core.clock import Clock
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import BurstError, Conflict, NotFound
from burst.core.model import Allocation, Experiment, Node, Supply, Trial
from burst.core.store.port import Store, Write
from burst.core.workspace import Workspace
from burst.runner.enforce import config_of
from burst.runner.pools.port import Gone, Limits, Liveness, Pool
from burst.runner.reconcile.observer import Observer

log = logging.getLogger("burst.runner.reconcile")


@dataclass(frozen=True)
class View:
    """The live records, read once a pass.

    Nodes are read before allocations: a start writes its nodes, so whoever decides on a list of
    allocations that lacks one has an old version of its node too, and does not get it written.
    """

    supplies: Mapping[str, Supply]
    """By pool, those of nodes that the cluster file does not have any more too: its book, whose
    version gives the right to launch."""
    nodes: Sequence[Node]
    allocations: Sequence[Allocation]
    trials: Sequence[Trial]
    experiments: Sequence[Experiment]

    @classmethod
    def read(cls, store: Store, pools: Mapping[str, Pool]) -> View:
        nodes = store.live(Node)
        names = dict.fromkeys([*pools, *(node.pool for node in nodes)])
        return cls(
            supplies={name: supply_of(store, name) for name in names},
            nodes=nodes,
            allocations=store.live(Allocation),
            trials=store.live(Trial),
            experiments=[each for each in store.live(Experiment) if _is_readable(each)],
        )


def _is_readable(experiment: Experiment) -> bool:
    """Whether this burst can read its settings; one that it cannot must not stop the others."""
    try:
        config_of(experiment)
    except ValidationError as error:
        log.error("experiment %s is left alone: %s", experiment.id, error)
        return False
    return True


def supply_of(store: Store, pool: str) -> Supply:
    """The pool's book, which the first entry makes."""
    return store.find(Supply, pool) or Supply(id=pool)


@dataclass(frozen=True)
class Seen:
    """What was seen of something that should change, and since when by one's own clock."""

    mark: str
    since: float
    """On the clock that never goes back."""
    from_the_start: bool
    """Whether it was seen to become this; else it may have been so for long."""


@dataclass(frozen=True)
class Looked:
    """What a pool said of its nodes' machines."""

    at: float
    """On the clock that never goes back."""
    found: Mapping[str, Liveness]
    """By node id."""


@dataclass
class Context:
    """One runner's own: it may be lost at any time, and all that follows is waiting again."""

    ws: Workspace
    clock: Clock
    pools: Mapping[str, Pool]
    """Those of the cluster file."""
    observer: Observer
    elsewhere: frozenset[str] = frozenset()
    """Pools that are planned with, and whose machines another runner starts, watches and ends."""
    finder: Gone | None = None
    """Finds the pools that the file does not have any more; None where that is another's."""
    gone: dict[str, Pool] = field(default_factory=dict)
    """Those that were found: nothing is planned with them, and their machines leave."""
    swept: dict[str, str] = field(default_factory=dict)
    """By trial: the checkpoint after which retention was applied."""
    unfinished: set[str] = field(default_factory=set)
    """Trials with deleted checkpoints of which files are left, as a place did not answer."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """By running trial: its newest checkpoint."""
    looked: dict[str, Looked] = field(default_factory=dict)
    """By pool: its last look at its machines."""
    swept_at: dict[str, float] = field(default_factory=dict)
    """By pool: when its machines were last compared with the records, on the clock that never
    goes back."""
    strays: dict[str, int] = field(default_factory=dict)
    """By pool: machines that no record answered for at that look."""
    kept: dict[str, tuple[float | None, float]] = field(default_factory=dict)
    """By node: the newest word that it is to stay, and when it was seen on the clock that never
    goes back."""
    ageless: dict[str, frozenset[str]] = field(default_factory=dict)
    """By pool: what was left over at the last look and does not say how old it is."""
    limits: dict[str, Limits] = field(default_factory=dict)
    """By pool: what it can ever give, as it said last; without those that did not say."""
    again: bool = False
    """Whether something changed that another reconciler should see at once."""
    failed: bool = False
    """Whether a step of this pass could not be taken, and is to be tried again."""

    @property
    def store(self) -> Store:
        return self.ws.store

    @property
    def cluster(self) -> ClusterConfig:
        return self.ws.cluster

    def acts_for(self, pool: str) -> bool:
        """Whether the pool's machines are this runner's to start and end."""
        return pool in self.gone or (pool in self.pools and pool not in self.elsewhere)

    def pool(self, name: str) -> Pool:
        """One that this runner acts for."""
        return self.gone[name] if self.is_gone(name) else self.pools[name]

    def is_gone(self, pool: str) -> bool:
        """Whether the cluster file has it no more."""
        return pool in self.gone and pool not in self.pools

    def costs(self, pool: str) -> bool:
        """Whether its machines may be paid for."""
        known = self.limits.get(pool)
        return known is None or known.costs

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

    def attempt(self, step: Callable[[], object]) -> None:
        """Take one step, for one record. One that fails must not keep the others from theirs: it
        is logged, and the next pass tries again."""
        try:
            changed = step()
        except (Conflict, NotFound) as error:
            log.debug("left for the next pass: %s", error.what)
            self.again = True
        except BurstError as error:
            log.warning("%s", error)
            self.failed = True
        except Exception:
            log.exception("a step failed; it is tried again")
            self.failed = True
        else:
            self.again = self.again or bool(changed)


def make_context(
    ws: Workspace,
    clock: Clock,
    pools: Mapping[str, Pool],
    elsewhere: frozenset[str] = frozenset(),
    finder: Gone | None = None,
) -> Context:
    return Context(
        ws=ws,
        clock=clock,
        pools=pools,
        observer=Observer(clock),
        elsewhere=elsewhere,
        finder=finder,
    )
