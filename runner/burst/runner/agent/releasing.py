"""An agent's writes to an Allocation: each one step along its states, under its trial's token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from burst.core.clock import Clock
from burst.core.errors import BurstError, Conflict, Fenced, Unreachable
from burst.core.model import Allocation, Drain, Exit
from burst.core.states import AllocationState, Reason, advance, can_advance, is_terminal
from burst.core.store import event_of, update
from burst.core.store.port import Append, Fence, Put, Store, Write

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
        if not can_advance(record.state, to):
            raise Overtaken(f"{record.id} is {record.state}", why=str(record.reason))
        changed, transition = advance(record, to, reason, clock.now())
        return (
            Put(changed.model_copy(update=facts)),
            Append(event_of(transition, record.experiment)),
            Fence(record.trial, record.token),
        )

    try:
        return update(store, Allocation, allocation, change, clock=clock)
    except Fenced as error:
        raise Overtaken(f"{allocation} was overtaken by a newer allocation") from error


def release(
    store: Store,
    allocation: str,
    exit: Exit,
    clock: Clock,
    may_go_on: Callable[[], bool],
) -> bool:
    """Release the allocation with `exit`, trying while `may_go_on`; whether it is released.

    False where others decided of it meanwhile, or the store stayed away.
    """
    facts: Mapping[str, Any] = {"exit": exit, "ended": clock.now()}
    while True:
        try:
            step(store, allocation, AllocationState.RELEASED, reason_of(exit), clock, **facts)
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
}


def reason_of(exit: Exit) -> Reason:
    """The reason of a release, as `burst show` prints it."""
    if exit.failure is None:
        return Reason(code=exit.kind.value)
    failure = exit.failure
    text = ": ".join(part for part in (failure.kind, failure.message) if part)
    return Reason(code=exit.kind.value, text=text[:500])
