"""The right to act: renewed, revoked, taken over, and given up in time without the store."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.clock import ManualClock
from burst.core.errors import Refused, Unreachable
from burst.core.model import Lease
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put, Write
from burst.runner.agent.running.schedule import Step
from burst.runner.agent.serving.lease import Keeper, Term, take

NODE = "node-00000000000"


class Shaky(MemoryStore):
    """A store that fails as told: before it writes, or after, with the answer lost."""

    def __init__(self) -> None:
        super().__init__()
        self.before = self.after = False
        self.on_commit: Callable[[], None] = lambda: None

    def commit(self, *writes: Write) -> None:
        self.on_commit()
        if self.before:
            raise Unreachable("no answer")
        super().commit(*writes)
        if self.after:
            raise Unreachable("the answer was lost")


class Held:
    """A lease that was just taken, with everything around it."""

    def __init__(self, length: float = 30.0) -> None:
        self.store, self.clock = Shaky(), ManualClock()
        self.term = Term(length, self.clock.monotonic())
        self.begun = self.clock.monotonic()
        self.lost = 0
        lease = take(self.store, NODE, length, proven_dead=False, clock=self.clock)
        self.keeper = Keeper(self.store, lease, self.term, self.clock, self._lose)

    def _lose(self) -> None:
        self.lost += 1

    def due(self) -> Step:
        now = self.clock.monotonic()
        return self.term.schedule(now).due(now)

    def revoke(self) -> None:
        lease = self.store.get(Lease, NODE)
        self.store.commit(Put(lease.model_copy(update={"revoked": True})))


def test_each_renewal_is_a_heartbeat_and_a_whole_new_length() -> None:
    held = Held()
    before = held.store.get(Lease, NODE).version
    held.clock.advance(10)
    assert held.keeper.renew()
    assert held.store.get(Lease, NODE).version == before + 1
    assert held.term.end == held.clock.monotonic() + 30


def test_the_length_counts_from_before_the_renewal_that_succeeded() -> None:
    held = Held()
    held.clock.advance(10)
    held.store.on_commit = lambda: held.clock.advance(7)
    assert held.keeper.renew()
    assert held.term.end == held.begun + 10 + 30


def test_a_store_that_is_away_costs_the_lease_only_when_its_length_is_over() -> None:
    held = Held()
    held.store.before = True
    steps = []
    for _ in range(31):
        held.keeper.renew()
        steps.append(held.due())
        held.clock.advance(1)
    assert steps[19] is Step.NOTHING
    assert steps[20] is Step.ASK
    assert steps[28] is Step.KILL
    assert held.lost == 0


def test_a_store_that_comes_back_in_time_costs_nothing() -> None:
    held = Held()
    held.store.before = True
    held.clock.advance(15)
    assert not held.keeper.renew()
    held.store.before = False
    assert held.keeper.renew()
    held.clock.advance(19)
    assert held.due() is Step.NOTHING


def test_a_revoked_lease_ends_everything_at_once() -> None:
    held = Held()
    held.revoke()
    assert not held.keeper.renew()
    assert held.lost == 1
    assert held.term.taken_away == "the lease was revoked"
    assert held.due() is Step.KILL


def test_a_renewal_whose_answer_was_lost_is_known_again_as_our_own() -> None:
    held = Held()
    held.store.after = True
    assert not held.keeper.renew()
    held.store.after = False
    assert not held.keeper.renew()  # a conflict with ourselves: caught up, not renewed
    assert held.keeper.renew()
    assert held.lost == 0


def test_a_take_over_by_another_agent_is_not_taken_for_our_own_write() -> None:
    held = Held()
    take(held.store, NODE, 30, proven_dead=True, clock=held.clock)
    assert not held.keeper.renew()
    assert held.term.taken_away == "another agent took the node over"


def test_a_removed_lease_is_lost() -> None:
    held = Held()
    held.keeper.renew()
    from burst.core.store.port import Delete

    held.store.commit(Delete(held.store.get(Lease, NODE)))
    assert not held.keeper.renew()
    assert held.lost == 1


def test_a_second_agent_is_refused_while_the_first_renews() -> None:
    held = Held()

    class Renewing(ManualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            held.keeper.renew()

    with pytest.raises(Refused, match="already has an agent"):
        take(held.store, NODE, 30, proven_dead=False, clock=Renewing())


def test_a_silent_agent_is_succeeded_after_its_whole_length() -> None:
    held = Held()
    clock = ManualClock()
    begun = clock.monotonic()
    lease = take(held.store, NODE, 30, proven_dead=False, clock=clock)
    assert clock.monotonic() - begun >= 30
    assert lease.version == 2


def test_an_agent_that_is_proven_dead_is_succeeded_at_once() -> None:
    held = Held()
    before = held.clock.monotonic()
    take(held.store, NODE, 30, proven_dead=True, clock=held.clock)
    assert held.clock.monotonic() == before


def test_a_revoked_lease_is_never_taken_over() -> None:
    held = Held()
    held.revoke()
    for proven in (True, False):
        with pytest.raises(Refused, match="given up"):
            take(held.store, NODE, 30, proven_dead=proven, clock=held.clock)


@given(st.lists(st.tuples(st.floats(0.1, 12), st.sampled_from(["ok", "before", "after"]))))
def test_an_agent_never_outlives_what_an_observer_grants_it(
    steps: list[tuple[float, str]],
) -> None:
    """Whatever the store answers: when an observer has seen one version for the whole length,
    the agent has already been past its end."""
    held = Held()
    seen, since = held.store.get(Lease, NODE).version, held.clock.monotonic()
    for wait, fault in steps:
        held.clock.advance(wait)
        if held.due() is Step.KILL:
            break
        held.store.before, held.store.after = fault == "before", fault == "after"
        held.keeper.renew()
        version = held.store.get(Lease, NODE).version
        if version != seen:
            seen, since = version, held.clock.monotonic()
        assert held.term.end <= since + 30
