"""An agent's writes to an Allocation: each one step along its states, under its trial's token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from burst.core.clock import Clock
from burst.core.errors import BurstError, Conflict, Fenced, Unreachable
from burst.core.model import Allocation, Drain, Exit, Json
from burst.core.states import AllocationState, Reason, advance, can_advance, is_terminal
from burst.core.store import event_of, update
from burst.core.store.port import Append, Fence, Put, Store, Write
from burst.runner.agent.ends.gang import combine, is_gang, nodes_of

_RETRY_S = 1.0


class Overtaken(BurstError):
    """The allocation has gone on without this agent: lost, or another state than it needs."""


def step(
    store: Store,
    allocation: str,
    to: AllocationState,
    reason: Reason,
    clock: Clock,
    **facts: Any,
) -> Allocation:
    """The allocation in state `to`, with `facts` set in the same commit. Idempotent.

    Raises:
        Overtaken: the state that it is in has no edge to `to`, or its token is old.
        NotFound, Conflict, Unreachable: as the store says.
    """

    def change(record: Allocation) -> tuple[Write, ...]:
        if record.state is to:
            return ()
        return _stepped(record, to, reason, clock.now(), facts)

    return _change(store, allocation, change, clock)


def _stepped(
    record: Allocation, to: AllocationState, reason: Reason, now: float, facts: Mapping[str, Any]
) -> tuple[Write, ...]:
    if not can_advance(record.state, to):
        raise Overtaken(f"{record.id} is {record.state}", why=str(record.reason))
    changed, transition = advance(record, to, reason, now)
    return (
        Put(changed.model_copy(update=dict(facts))),
        Append(event_of(transition, record.experiment)),
        Fence(record.trial, record.token),
    )


def _change(
    store: Store, id: str, change: Callable[[Allocation], tuple[Write, ...]], clock: Clock
) -> Allocation:
    try:
        return update(store, Allocation, id, change, clock=clock)
    except Fenced as error:
        raise Overtaken(f"{id} was overtaken by a newer allocation") from error


def note_network(
    store: Store,
    allocation: str,
    node: str,
    network: Mapping[str, Json],
    clock: Clock,
    rendezvous: str = "",
) -> Allocation:
    """Note what the ranks of `node` talk over, and where all of them meet if this node says so.
    Idempotent.

    Raises:
        Overtaken: the allocation is over, or its token is old.
        NotFound, Conflict, Unreachable: as the store says.
    """

    def change(record: Allocation) -> tuple[Write, ...]:
        if is_terminal(record.state):
            raise Overtaken(f"{record.id} is {record.state}", why=str(record.reason))
        noted = {**record.network, node: network}
        met = rendezvous or record.rendezvous
        if noted == record.network and met == record.rendezvous:
            return ()
        changed = record.model_copy(update={"network": noted, "rendezvous": met})
        return Put(changed), Fence(record.trial, record.token)

    return _change(store, allocation, change, clock)


def _end_part(
    store: Store, id: str, node: str, exit: Exit, clock: Clock, had_ranks: bool
) -> Allocation:
    """Write how the part of `node` ended. The last one of a gang releases the allocation, with
    what all parts came to. Idempotent."""

    def change(record: Allocation) -> tuple[Write, ...]:
        if record.state is AllocationState.RELEASED or node in record.ends:
            return ()
        now, order = clock.now(), nodes_of(record)
        facts: dict[str, Any] = {}
        whole = exit
        if is_gang(record):
            ends = {**record.ends, node: exit}
            network = {k: v for k, v in record.network.items() if k != node or had_ranks}
            facts = {"ends": ends, "network": network}
            if set(order) - set(ends):
                return Put(record.model_copy(update=facts)), Fence(record.trial, record.token)
            whole = combine(ends, order)
        facts |= {"exit": whole, "ended": now}
        return _stepped(record, AllocationState.RELEASED, reason_of(whole), now, facts)

    return _change(store, id, change, clock)


def release(
    store: Store,
    allocation: str,
    node: str,
    exit: Exit,
    clock: Clock,
    may_go_on: Callable[[], bool],
    had_ranks: bool = True,
) -> bool:
    """Release what the allocation holds on `node`, trying while `may_go_on`; whether it is
    released. The allocation itself is so when that was all of it.

    Args:
        exit: how the node's part ended.
        had_ranks: whether its ranks were started.

    False where others decided of it meanwhile, or the store stayed away.
    """
    while True:
        try:
            _end_part(store, allocation, node, exit, clock, had_ranks)
            return True
        except (Overtaken, Fenced):
            return False
        except (Unreachable, Conflict):
            if not may_go_on():
                return False
            clock.sleep(_RETRY_S)


def note_drain(store: Store, allocation: str, drain: Drain, clock: Clock) -> None:
    """Tell the others that this agent has asked the ranks to leave. Idempotent."""
    record = store.get(Allocation, allocation)
    if is_terminal(record.state) or record.state is AllocationState.DRAINING:
        return
    reason = Reason(code=drain.cause.value, text=_DRAIN_TEXTS.get(drain.cause.value, ""))
    step(store, allocation, AllocationState.DRAINING, reason, clock, drain=drain)


_DRAIN_TEXTS = {
    "node": "its node leaves",
    "lease": "its agent could not renew its lease",
    "notice": "its machine will be taken away",
}


def reason_of(exit: Exit) -> Reason:
    """The reason of a release, as `burst show` prints it."""
    if exit.failure is None:
        return Reason(code=exit.kind.value)
    failure = exit.failure
    text = ": ".join(part for part in (failure.kind, failure.message) if part)
    return Reason(code=exit.kind.value, text=text[: 500 - len(failure.where)] + failure.where)
