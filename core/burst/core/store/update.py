"""Changing a record: read, decide, commit, and again from the start where someone was faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from burst.core.chance import chance
from burst.core.clock import Clock, SystemClock
from burst.core.errors import Conflict
from burst.core.model import Event, Record
from burst.core.states import Transition
from burst.core.store.port import Put, Store, Write

R = TypeVar("R", bound=Record)

_FIRST_WAIT_S = 0.005
_LONGEST_WAIT_S = 0.5
_SYSTEM_CLOCK = SystemClock()


def update(
    store: Store,
    kind: type[R],
    id: str,
    change: Callable[[R], Sequence[Write] | R | None],
    *,
    attempts: int = 12,
    clock: Clock = _SYSTEM_CLOCK,
) -> R:
    """Change one record by read-modify-commit; returns it as it stands afterwards.

    `change` is a pure decision: it is given the record as stored and returns the record to put,
    or all the writes of one commit, or None (or no writes) where there is nothing to do. It is
    called again with a fresh record after a conflict, up to `attempts` times in all, with waits
    that double from 5 ms to 0.5 s and are drawn at random, so that contenders spread out.

    Raises:
        NotFound: no such record.
        Fenced: a fence among the writes did not hold; trying again would not help.
        Conflict: others were faster every time.
    """
    longest = _FIRST_WAIT_S
    for left in reversed(range(attempts)):
        record = store.get(kind, id)
        decided = change(record)
        if decided is None:
            return record
        writes = (Put(decided),) if isinstance(decided, Record) else tuple(decided)
        try:
            store.commit(*writes)
        except Conflict:
            if not left:
                raise
            clock.sleep(chance.uniform(0, longest))
            longest = min(2 * longest, _LONGEST_WAIT_S)
            continue
        return _after(record, writes)
    raise ValueError("update needs at least one attempt")


def event_of(transition: Transition, experiment: str) -> Event:
    """The event that records a change of state, for the same commit as the record."""
    return Event(
        subject=transition.subject,
        experiment=experiment,
        name=f"{transition.kind}.{transition.after}",
        text=transition.reason.text,
        at=transition.at,
        data={"before": transition.before, "code": transition.reason.code},
    )


def _after(record: R, writes: Sequence[Write]) -> R:
    for write in writes:
        if isinstance(write, Put) and isinstance(write.record, type(record)):
            put = write.record
            if put.id == record.id:
                return put.model_copy(update={"version": put.version + 1})
    return record
