"""Files that several trials name: no checkpoint loses one, and none stays that nothing names.

The invariant is looked at after every single call of store and blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.removal.delete import delete
from burst.core.checkpoints.removal.lend import Known
from burst.core.clock import ManualClock
from burst.core.errors import Fenced, NotFound, Refused
from burst.core.model import Checkpoint, Trial
from burst.core.states import Reason, TrialState, advance
from burst.core.store import update
from tests.core.checkpoints.interleaving import Process, World

FROZEN, OTHER = b"frozen weights", b"other frozen weights"


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {**(update.__kwdefaults__ or {}), "clock": ManualClock()}
    monkeypatch.setattr(update, "__kwdefaults__", defaults)


def end(world: World, trial: str) -> None:
    """So that its newest checkpoint, too, may go."""
    over = Reason(code="test")
    update(world.store, Trial, trial, lambda t: advance(t, TrialState.CANCELLED, over, 0.0)[0])


# --- every interleaving of a few processes -----------------------------------------------------


def count(process: Process) -> int:
    calls = 0
    while not process.done:
        process.step()
        calls += 1
    return calls


def interleaved(make: Callable[[], tuple[World, Process, list[Process]]]) -> Iterator[World]:
    """Of a process, stopped before each of its calls until the others ran, one after the other:
    the world after each call of any."""
    world, paused, _ = make()
    calls = count(paused)
    for at in range(calls):
        world, paused, others = make()
        paused.step(at)
        yield world
        for other in others:
            while not other.done:
                other.step()
                yield world
        while not paused.done:
            paused.step()
            yield world


def lent(world: World) -> tuple[str, str, Checkpoint]:
    """Two trials that are over; the first has a checkpoint with frozen weights."""
    first, second = world.add_trial(), world.add_trial()
    world.saver(first, [b"1", FROZEN]).run()
    end(world, first)
    return first, second, world.records()[0]


def test_a_file_of_another_trial_is_used_again_and_both_records_say_so() -> None:
    world = World()
    first, second, lender = lent(world)
    before = len(world.slow.kept)
    world.saver(second, [b"2", FROZEN]).run()
    assert len(world.slow.kept) == before + 2  # what is its own, and its manifest
    lender, borrower = world.records()
    assert (lender.lent_to, borrower.borrowed_from) == ((second,), (first,))
    assert (lender.borrowed_from, borrower.lent_to) == ((), ())


def test_a_file_stays_until_the_last_trial_that_names_it_has_let_go() -> None:
    world = World()
    _, second, lender = lent(world)
    world.saver(second, [b"2", FROZEN]).run()
    world.remover(lender).run()
    assert world.missing() == []
    third = world.add_trial()
    world.saver(third, [b"3", FROZEN]).run()  # on the word of the second: the first is deleted
    _, borrower, last = world.records()
    assert last.borrowed_from == (world.records()[0].trial,)
    end(world, second)
    world.remover(borrower).run()
    assert world.missing() == []
    assert any(data == FROZEN for data in world.slow.kept.values())
    end(world, third)
    world.remover(last).run()
    assert world.slow.kept == {}


def _saved_while_the_lender_goes(careless: str) -> Iterator[World]:
    def make() -> tuple[World, Process, list[Process]]:
        world = World({careless})
        _, second, lender = lent(world)
        return world, world.saver(second, [b"2", FROZEN]), [world.remover(lender)]

    return interleaved(make)


def _tidied_while_others_borrow(careless: str) -> Iterator[World]:
    """A file of a deleted checkpoint goes from one trial to a new one while its folder is tidied,
    and the one that it came from is deleted then."""

    def make() -> tuple[World, Process, list[Process]]:
        world = World({careless})
        first, second, lender = lent(world)
        world.saver(second, [b"2", FROZEN]).run()
        end(world, second)
        world.remover(lender).run()
        borrower = next(each for each in world.records() if each.trial == second)
        third = world.add_trial()
        chain = [world.saver(third, [b"3", FROZEN]), world.remover(borrower)]
        return world, world.finisher(first), chain

    return interleaved(make)


def _tidied_while_a_trial_borrows_again(careless: str) -> Iterator[World]:
    """The same with a trial that had borrowed from there before, and comes first in the order in
    which trials are read."""

    def make() -> tuple[World, Process, list[Process]]:
        world = World({careless})
        first, second, lender = lent(world)
        third = world.add_trial()
        for trial in (second, third):
            world.saver(trial, [trial.encode(), FROZEN]).run()
            end(world, trial)
        _, early, late = world.records()
        world.remover(lender).run()
        world.remover(early).run()
        chain = [world.saver(second, [b"2", FROZEN]), world.remover(late)]
        return world, world.finisher(first), chain

    return interleaved(make)


SCENES = {
    "lenders": _saved_while_the_lender_goes,
    "owners": _tidied_while_others_borrow,
    "again": _tidied_while_a_trial_borrows_again,
}


@pytest.mark.parametrize("scene", SCENES)
def test_no_checkpoint_loses_a_file_whatever_comes_between(scene: str) -> None:
    worlds = [world.missing() for world in SCENES[scene]("")]
    assert len(worlds) > 100
    assert not any(worlds)


@pytest.mark.parametrize("scene", SCENES)
def test_without_its_terms_a_save_would_lose_files(scene: str) -> None:
    """So the test above can fail."""
    assert any(world.missing() for world in SCENES[scene](scene))


# --- a death at every call ---------------------------------------------------------------------


def _with_everything() -> tuple[World, list[str]]:
    """Three trials on one node, with checkpoints in both tiers and files of one another."""
    world = World()
    trials = [world.add_trial() for _ in range(3)]
    for trial in trials:
        for number in range(2):
            contents = [b"%s %d" % (trial.encode(), number), FROZEN, OTHER]
            world.saver(trial, contents, tiers=True).run()
    return world, trials


def _removal() -> tuple[World, Process]:
    world, trials = _with_everything()
    for trial in trials:
        end(world, trial)
    mine = [each for each in world.records() if each.trial != trials[2]]
    for record in mine[:-1]:
        world.remover(record).run()
    return world, world.remover(mine[-1])


def _room() -> tuple[World, Process]:
    world, trials = _with_everything()
    return world, world.evictor(trials[1], [each.id for each in world.records()[2:3]])


def _sweeping() -> tuple[World, Process]:
    world, trials = _with_everything()
    world.saver(trials[0], [b"of a save that died", FROZEN], tiers=True).step(25)
    world.remover(world.records()[0]).step(20)
    return world, world.successor(trials[0])


def _saving() -> tuple[World, Process]:
    world, trials = _with_everything()
    return world, world.saver(trials[2], [b"new", FROZEN, OTHER], tiers=True)


@pytest.mark.parametrize("make", [_removal, _room, _sweeping, _saving])
def test_what_dies_at_any_call_loses_nothing_and_is_finished_later(
    make: Callable[[], tuple[World, Process]],
) -> None:
    world, process = make()
    calls = count(process)
    assert calls > 5
    for at in range(calls):
        world, process = make()
        process.step(at)
        assert world.missing() == []
        for trial in world.trials():
            world.successor(trial.id).run()
        assert world.missing() == []
        assert world.needless() == []


def test_a_tier_that_was_left_at_any_call_is_as_after_a_whole_pass_once_it_is_tidied() -> None:
    world, process = _room()
    calls = count(process)
    for at in range(calls):
        again, process = _room()
        process.step(at)
        leaving = [] if at > 2 else [each.id for each in again.records()[2:3]]
        again.evictor(again.trials()[1].id, leaving).run()
        assert again.fast.kept == world.fast.kept


def test_while_the_newest_lies_on_a_nodes_disk_alone_only_that_node_tidies() -> None:
    world = World()
    trial = world.add_trial()
    for number in (b"1", b"2"):
        world.saver(trial, [number, FROZEN], tiers=True).run()
    newest = world.saver(trial, [b"3", FROZEN], tiers=True)
    while len(world.records()) < 3:
        newest.step()
    before = dict(world.slow.kept)
    assert delete(cast(Blobs, world.slow), world.store, world.records()[0]) == 0
    assert world.slow.kept == before  # what the newest needs cannot be read from here
    newest.run()
    world.finisher(trial).run()
    assert world.missing() == []
    assert world.needless() == []
    assert b"1" not in [*world.slow.kept.values(), *world.fast.kept.values()]


# --- any number of processes, in any order -----------------------------------------------------


class Store(RuleBasedStateMachine):
    """Trials that save, are moved, and are tidied, all at once; any process may die anywhere."""

    processes: Bundle[Process] = Bundle("processes")
    careless: frozenset[str] = frozenset()

    @initialize(trials=st.integers(2, 4))
    def start(self, trials: int) -> None:
        self.world = World(self.careless)
        for _ in range(trials):
            self.world.add_trial()
        self.under_way: list[Process] = []
        self.saving: dict[str, Process] = {}
        self.known: dict[tuple[str, bool], dict[str, Known]] = {}
        """What a trial has once found, and may use long after."""
        self.numbers = 0

    def _begin(self, process: Process, calls: int) -> Process:
        self.under_way.append(process)
        process.step(calls)
        return process

    @rule(
        target=processes,
        number=st.integers(0, 3),
        same=st.sampled_from([(FROZEN,), (OTHER,), (FROZEN, OTHER), ()]),
        calls=st.integers(0, 40),
        tiers=st.booleans(),
        looks=st.booleans(),
    )
    def save(
        self, number: int, same: tuple[bytes, ...], calls: int, tiers: bool, looks: bool
    ) -> Process:
        trial = self._trial(number)
        if trial in self.saving:  # one save of a trial at a time
            self.saving.pop(trial).run()
        self.numbers += 1
        contents = [b"batch %d" % self.numbers, *same]
        if (trial, tiers) not in self.known or looks:
            self.known[trial, tiers] = self.world.look(trial, tiers=tiers)
        known = None if looks else self.known[trial, tiers]
        process = self.saving[trial] = self.world.saver(trial, contents, known=known, tiers=tiers)
        return self._begin(process, calls)

    @rule(target=processes, number=st.integers(0, 7), calls=st.integers(0, 40))
    def remove(self, number: int, calls: int) -> Process:
        there = [each for each in self.world.records() if each.deleted is None]
        if not there:
            return self._begin(self.world.finisher(self._trial(number)), calls)
        return self._begin(self.world.remover(there[number % len(there)]), calls)

    @rule(target=processes, number=st.integers(0, 3), calls=st.integers(0, 40))
    def tidy(self, number: int, calls: int) -> Process:
        return self._begin(self.world.finisher(self._trial(number)), calls)

    @rule(target=processes, number=st.integers(0, 3), calls=st.integers(0, 40))
    def move(self, number: int, calls: int) -> Process:
        self.saving.pop(self._trial(number), None)
        return self._begin(self.world.successor(self._trial(number)), calls)

    @rule(target=processes, number=st.integers(0, 3), calls=st.integers(0, 40))
    def make_room(self, number: int, calls: int) -> Process:
        trial = self._trial(number)
        mine = [each.id for each in self.world.records() if each.trial == trial]
        return self._begin(self.world.evictor(trial, mine[:-1]), calls)

    @rule(number=st.integers(0, 3))
    def end(self, number: int) -> None:
        trial = self.world.trials()[number % len(self.world.trials())]
        if trial.state is TrialState.WAITING:
            end(self.world, trial.id)

    @rule(process=processes, calls=st.integers(1, 40))
    def go_on(self, process: Process, calls: int) -> None:
        process.step(calls)

    @rule(process=consumes(processes))
    def die(self, process: Process) -> None:
        self.under_way = [each for each in self.under_way if each is not process]
        self.saving = {trial: p for trial, p in self.saving.items() if p is not process}

    @invariant()
    def nothing_is_missing(self) -> None:
        if hasattr(self, "world"):
            assert self.world.missing() == []

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for process in self.under_way:
            process.run()
            assert self.world.missing() == []
            if not isinstance(process.error, Fenced | Refused | None):
                assert isinstance(process.error, NotFound)  # copied while it was deleted
        for trial in self.world.trials():
            self.world.successor(trial.id).run()
            self.world.evictor(trial.id, []).run()
        assert self.world.missing() == []
        assert self.world.needless() == []

    def _trial(self, number: int) -> str:
        trials = self.world.trials()
        return trials[number % len(trials)].id


def test_any_history_of_trials_keeps_what_is_needed_and_nothing_else() -> None:
    run_state_machine_as_test(
        Store, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
