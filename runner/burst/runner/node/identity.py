"""Which node a machine is: the one of its launch that names it, or one that is still free.

Runner and machines give nodes away at once, so each writes only together with every other node of
the launch that is free, in one commit: what changes any of them meanwhile makes it a conflict, and
who has it decides again. So no machine has two nodes, and no node two machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burst.core.chance import chance
from burst.core.clock import Clock, ManualClock
from burst.core.errors import Conflict, Refused, UsageError
from burst.core.ids import made_at, new_id
from burst.core.model import Event, Node
from burst.core.store import Store
from burst.core.store.port import MAX_WRITES, Append, Put, Write

INSTANCE = "instance"
"""In a node's handle: the machine's own name."""
_CONFLICTS = 100
_LONGEST_WAIT_S = 0.2
_EARLIER_S = 60.0


@dataclass(frozen=True)
class Mine:
    """The machine has this node."""

    node: Node


@dataclass(frozen=True)
class Free:
    """The machine may have `node`, as long as none of `others` was taken meanwhile."""

    node: Node
    others: tuple[Node, ...]


@dataclass(frozen=True)
class Over:
    """The machine's node was given up, so the machine is not wanted any more."""

    node: Node


@dataclass(frozen=True)
class Unknown:
    """Every node of the launch has a machine, or none is there to be seen."""


Choice = Mine | Free | Over | Unknown


def choose(nodes: Sequence[Node], instance: str) -> Choice:
    """Which of a launch's `nodes` the machine called `instance` is. Pure."""
    mine = [node for node in nodes if node.handle.get(INSTANCE) == instance]
    live = [node for node in mine if not _is_over(node)]
    if live:
        return Mine(min(live, key=lambda node: (node.registered is None, node.id)))
    if mine:
        return Over(mine[0])
    free = sorted(
        (node for node in nodes if INSTANCE not in node.handle and not _is_over(node)),
        key=lambda node: node.id,
    )
    return Free(free[0], tuple(free[1:])) if free else Unknown()


def _is_over(node: Node) -> bool:
    return node.terminating is not None or node.gone is not None


def nodes_of(store: Store, launch: str, pool: str) -> list[Node]:
    """The nodes of a launch as the store has them now, never as an index had them.

    Ids sort by their time, so those made since the launch are few, however many there were before.
    """
    since = _just_before(launch)
    if since:
        found = store.children(Node, "", after=since)
    else:
        found = [store.get(Node, node.id) for node in store.live(Node, pool)]
    return [node for node in found if node.launch == launch]


def claim(
    store: Store, launch: str, pool: str, instance: str, clock: Clock, *, take: bool = True
) -> Mine | Over | Unknown:
    """The node of the machine called `instance`, given to it now if it has none. Idempotent.

    Args:
        take: whether to take one that is free; else only what was given to it already counts.

    Raises:
        Conflict: others were faster every time.
        Unreachable: the store did not answer; call again.
    """
    for _ in range(_CONFLICTS):
        choice = choose(nodes_of(store, launch, pool), instance)
        if not isinstance(choice, Free):
            return choice
        if not take:
            return Unknown()
        node = given(choice.node, instance, clock.now())
        try:
            store.commit(*writes_of(node, choice.others, instance, clock.now()))
        except Conflict:
            clock.sleep(chance.uniform(0, _LONGEST_WAIT_S))  # so that many spread out
            continue
        return Mine(node.model_copy(update={"version": node.version + 1}))
    raise Conflict(f"no node of {launch} could be had for {instance}: others were faster")


def given(node: Node, instance: str, now: float) -> Node:
    """The node, with a machine."""
    handle = {**node.handle, INSTANCE: instance}
    return node.model_copy(update={"handle": handle, "launched": node.launched or now})


def writes_of(node: Node, others: Sequence[Node], instance: str, now: float) -> tuple[Write, ...]:
    """The commit that gives `node` its machine, if none of `others` has changed.

    A gang of more nodes than one commit takes is checked as far as that goes.
    """
    event = Event(
        subject=node.id,
        name="node.launched",
        text=f"it is machine {instance}",
        at=now,
        data={"pool": node.pool, INSTANCE: instance},
    )
    return (Put(node), *map(Put, others[: MAX_WRITES - 2]), Append(event))


def surplus(instance: str, launch: str) -> Refused:
    """For a machine that no node of its launch needs."""
    return Refused(
        f"machine {instance} is one too many",
        why=f"every node of its request {launch} has a machine, or none of them is wanted",
        mend="nothing: it ends itself",
    )


def _just_before(launch: str) -> str:
    """An id beyond which all nodes of the launch lie; empty where its name does not tell."""
    try:
        made = made_at(launch)
    except UsageError:
        return ""
    return new_id("node", ManualClock(made - _EARLIER_S))
