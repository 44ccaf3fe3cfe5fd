"""The runner is ended at every write and every call to a pool, and another takes over.

Faults are enumerated, not drawn: one whole run for each point at which the first runner can end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from burst.core.errors import Unreachable
from burst.core.model import Allocation, Exit, ExitKind, Node, Trial
from burst.core.states import AllocationState, Reason
from burst.core.store.port import Store, Write
from burst.core.workspace import Workspace
from burst.runner.commands import pause, resume
from burst.runner.pools.fake import FakePool
from burst.runner.pools.port import Launched, Machine
from burst.runner.reconcile import make_context, reconcile
from burst.runner.reconcile.allocations import lose_allocations
from burst.runner.reconcile.context import View
from burst.runner.reconcile.nodes import reconcile_nodes
from burst.runner.reconcile.planning import reconcile_planning
from tests.runner.house import COMPLETED, CRASHED, DIE, House

MAX_POINTS = 400


class Ended(BaseException):
    """The runner's process is gone. Nothing of its own may catch it."""


class Countdown:
    """Ends the runner at its `point`-th act, before the act or after it."""

    def __init__(self, point: int, *, after: bool, error: type[BaseException] = Ended) -> None:
        self.left = point
        self.after = after
        self.error = error
        self.fired = False

    def act(self, do: Any) -> Any:
        self.left -= 1
        if self.left != 0:
            return do()
        self.fired = True
        if self.after:
            do()
        raise self.error("the runner ends here")


class FaultyStore:
    """A store whose commits count down."""

    def __init__(self, store: Store, countdown: Countdown) -> None:
        self._store = store
        self._countdown = countdown

    def commit(self, *writes: Write) -> None:
        self._countdown.act(lambda: self._store.commit(*writes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class FaultyPool:
    """A pool whose calls that change something count down."""

    def __init__(self, pool: FakePool, countdown: Countdown) -> None:
        self._pool = pool
        self._countdown = countdown

    def launch(self, nodes: Sequence[Node]) -> Launched:
        launched: Launched = self._countdown.act(lambda: self._pool.launch(nodes))
        return launched

    def terminate(self, node: Node) -> None:
        self._countdown.act(lambda: self._pool.terminate(node))

    def end(self, machine: Machine) -> None:
        self._countdown.act(lambda: self._pool.end(machine))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


def script(trial: Trial, allocation: Allocation, ran: float) -> Exit | str | None:
    """Trial 0 loses its node once, trial 1 crashes once, and then they end."""
    if trial.number == 0 and allocation.attempt == 1:
        return DIE if ran >= 1 else None
    if trial.number == 1 and trial.restarts == 0:
        return CRASHED
    return COMPLETED if ran >= 3 else None


def life(house: House, countdown: Countdown | None = None, *, other: bool = False) -> None:
    """A search with a loss, a crash, a pause and a resume, until everything is over and idle."""
    house.script = script
    if countdown is not None:
        house.runner = house.new_runner(
            FaultyStore(house.store, countdown),
            FaultyPool(house.pool, countdown),
        )
    experiment = house.submit(
        searcher={"name": "grid", "max_concurrent_trials": 2},
        hyperparameters={"x": {"type": "categorical", "vals": [1, 2, 3]}},
    )
    second = house.new_runner() if other else None
    for turn in range(150):
        try:
            house.turn()
        except Ended:
            house.runner = house.new_runner()
        if second is not None:
            second.step()
        if turn == 5:
            pause(house.ws, experiment.id, clock=house.clock)
        if turn == 10:
            resume(house.ws, experiment.id, clock=house.clock)
        if turn > 10 and house.at_rest():
            return
    raise AssertionError(f"it never comes to rest: {house.outcome()}")


def effects(house: House) -> dict[str, Any]:
    """What must be the same whatever happened to runners on the way."""
    completions = [
        sum(a.exit is not None and a.exit.kind is ExitKind.COMPLETED for a in house.attempts(t))
        for t in house.trials()
    ]
    outcome = house.outcome()
    return {
        "experiment": outcome["experiment"],
        "trials": outcome["trials"],
        "completions": completions,
        "machines": outcome["machines"],
        "live": outcome["live"],
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    house = House(tmp_path_factory.mktemp("undisturbed"), nodes=2)
    life(house)
    return effects(house)


def test_the_life_that_is_disturbed_has_everything_in_it(undisturbed: dict[str, Any]) -> None:
    assert undisturbed["experiment"] == "completed"
    assert [state for state, *_ in undisturbed["trials"]] == ["completed"] * 3
    assert [restarts for _, restarts, *_ in undisturbed["trials"]] == [0, 1, 0]
    assert undisturbed["completions"] == [1, 1, 1]
    assert undisturbed["machines"] == []
    assert undisturbed["live"] == (0, 0)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [Ended, Unreachable], ids=["ended", "unreachable"])
def test_a_runner_that_ends_at_any_act_changes_nothing(
    tmp_path: Path, undisturbed: dict[str, Any], after: bool, error: type[BaseException]
) -> None:
    """With `unreachable` the runner lives on, and only that answer is lost."""
    points = 0
    for point in range(1, MAX_POINTS):
        countdown = Countdown(point, after=after, error=error)
        house = House(tmp_path, nodes=2)
        life(house, countdown)
        if not countdown.fired:
            break
        points += 1
        assert effects(house) == undisturbed, f"ended at act {point}"
        launched = Counter(id for what, id in house.pool.calls if what == "launch")
        assert set(launched) <= set(house.pool.made)
        assert len(house.pool.made) <= 5, "machines were started for nothing"
    assert points > 20


def test_two_runners_at_once_come_to_the_same_end(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    house = House(tmp_path, nodes=2)
    life(house, other=True)
    assert effects(house) == undisturbed


class Interleaved:
    """A store that lets another runner make a whole pass before the `point`-th commit."""

    def __init__(self, store: Store, point: int) -> None:
        self._store = store
        self._left = point
        self.other: Any = None
        self.fired = False

    def commit(self, *writes: Write) -> None:
        self._left -= 1
        if self._left == 0:
            self.fired = True
            self.other()
        self._store.commit(*writes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_another_runner_between_any_decision_and_its_write_does_no_harm(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    points = 0
    for point in range(1, MAX_POINTS):
        house = House(tmp_path, nodes=2)
        store = Interleaved(house.store, point)
        house.runner = house.new_runner(store)
        store.other = house.new_runner().step
        life(house)
        if not store.fired:
            break
        points += 1
        assert effects(house) == undisturbed, f"another one at commit {point}"
    assert points > 20


def test_of_two_runners_that_saw_the_same_demand_one_launches(tmp_path: Path) -> None:
    house = House(tmp_path, nodes=4)
    house.submit()
    first, second = (make_context(house.ws, house.clock, {"local": house.pool}) for _ in "ab")
    while not house.trials():
        reconcile(first)
    views = [View.read(house.store, context.pools) for context in (first, second)]
    intents = [reconcile_planning(c, v)[1] for c, v in zip((first, second), views, strict=True)]
    assert [len(nodes) for nodes in intents] == [1, 0]
    assert len(house.store.live(Node)) == 1


def test_a_lease_that_is_renewed_at_the_last_moment_keeps_its_work(tmp_path: Path) -> None:
    """The agent renews between the observer's decision and its commit, which must then fail."""
    house = House(tmp_path, script=lambda trial, allocation, ran: None)
    house.submit()
    house.run(5)
    (node,) = house.store.live(Node)
    context = make_context(house.ws, house.clock, {"local": house.pool})
    view = View.read(house.store, context.pools)

    class Renewed:
        """A store in which the lease is renewed just before the first commit."""

        def commit(self, *writes: Write) -> None:
            house.agents()
            house.store.commit(*writes)

        def __getattr__(self, name: str) -> Any:
            return getattr(house.store, name)

    late: Any = Renewed()
    ws = Workspace(house.ws.home, house.ws.cluster, late, house.ws.blobs)
    racing = make_context(ws, house.clock, {"local": house.pool})
    assert not lose_allocations(racing, view, node, Reason(code="lease"))
    assert [a.state for a in house.store.live(Allocation)] == [AllocationState.RUNNING]
    house.check()
    assert lose_allocations(context, view, node, Reason(code="lease"))
    assert house.store.live(Allocation) == []


def test_a_node_that_registers_at_the_last_moment_is_kept(tmp_path: Path) -> None:
    """The runner read its record before, and its pool took long to answer."""
    house = House(tmp_path)
    house.submit()
    house.settle()
    house.clock.advance(house.pool.limits.boot_within + 1)
    context = make_context(house.ws, house.clock, {"local": house.pool})
    view = View.read(house.store, context.pools)
    house.agents()
    reconcile_nodes(context, view)
    (node,) = house.store.live(Node)
    assert node.registered is not None
    assert node.terminating is None
