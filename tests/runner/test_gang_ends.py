"""What reconcile makes of gangs over nodes: whose loss it was, and which node is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.config.experiment import LogPolicy
from burst.core.launch import APART
from burst.core.logs import LAUNCHER, LogWriter, launcher_of
from burst.core.model import Allocation, Exit, ExitKind, Failure, Share, Trial
from burst.core.states import AllocationState, Reason, TrialState
from burst.core.store.port import Put
from burst.runner.reconcile.exits import after_exit
from burst.runner.reconcile.policies import apply_policies, node_of
from tests.runner.house import House, forever

NOW = 1000.0
NODES = ("node-a", "node-b")


def trial() -> Trial:
    return Trial(
        id="exp-1m3k9zq4w7c.t0000",
        state=TrialState.RUNNING,
        state_since=0,
        experiment="exp-1m3k9zq4w7c",
        number=0,
        seed=0,
        slots=4,
        pools=("lab",),
        created=0,
        queued=0,
        attempts=1,
    )


def attempt(failure: Failure, *, lost: bool = False) -> Allocation:
    """A gang of two nodes that ran for a moment."""
    end = Exit(kind=ExitKind.INFRASTRUCTURE, failure=failure)
    return Allocation(
        id="alloc-1m3k9zq4w7c",
        state=AllocationState.LOST if lost else AllocationState.RELEASED,
        state_since=0,
        reason=Reason(code="test"),
        trial="exp-1m3k9zq4w7c.t0000",
        experiment="exp-1m3k9zq4w7c",
        pool="lab",
        attempt=1,
        token=1,
        shares=tuple(Share(node=node, slots=(0, 1)) for node in NODES),
        created=0.0,
        started=10.0,
        ended=15.0,
        exit=None if lost else end,
        ends={failure.node: end} if failure.node else {},
    )


def blocked(row: Sequence[Allocation]) -> tuple[str, ...]:
    fields = after_exit(trial(), row[0], 0, NOW, row=row).fields
    found: tuple[str, ...] = fields.get("blocked_nodes", ())
    return found


def test_of_a_gang_the_node_that_failed_is_to_blame_and_not_its_neighbours() -> None:
    row = [attempt(Failure(kind="OSError", node="node-b"))] * 3
    assert blocked(row) == ("node-b",)


def test_survivors_are_not_to_blame_for_neighbours_that_come_and_go() -> None:
    gone = [attempt(Failure(kind="dead", node=node), lost=True) for node in ("node-b", "node-c")]
    assert blocked([attempt(Failure(kind="OSError", node="node-a")), *gone]) == ()


def test_what_lies_between_nodes_is_no_fault_of_the_one_that_tells() -> None:
    row = [attempt(Failure(kind=APART, node="node-b"))] * 3
    assert blocked(row) == NODES


@pytest.mark.parametrize(
    ("rank", "node"),
    [(0, "node-a"), (1, "node-a"), (2, "node-b"), (3, "node-b"), (launcher_of(1), "node-b")],
)
def test_every_line_has_its_node(rank: int, node: str) -> None:
    assert node_of(attempt(Failure()), rank) == node
    assert node_of(attempt(Failure()), LAUNCHER) == "node-a"


def test_a_log_policy_excludes_the_node_whose_ranks_said_it(tmp_path: Path) -> None:
    blobs = open_blobs(f"file://{tmp_path}")
    for rank, text in ((0, b"all is well\n"), (3, b"Xid 79: GPU has fallen off the bus\n")):
        LogWriter(blobs, "exp-1m3k9zq4w7c.t0000", 1, rank).ship(text)
    policy = LogPolicy.model_validate({"pattern": "Xid", "action": "exclude_node"})
    verdict = apply_policies(blobs, [policy], attempt(Failure()))
    assert verdict is not None
    assert verdict.blocked == ("node-b",)


def test_losing_a_node_says_which_part_it_was(tmp_path: Path) -> None:
    house = House(tmp_path, nodes=2, script=forever)
    house.submit(resources={"slots_per_trial": 2})
    house.run(until=lambda: _newest(house, 1).state is AllocationState.RUNNING)
    first, second = _newest(house, 1).shares
    house.pool.die(second.node)
    house.run(until=lambda: _newest(house, 1).state is AllocationState.LOST)
    (part,) = _newest(house, 1).ends.items()
    assert part[0] == second.node
    assert part[1].failure is not None
    assert part[1].failure.node == second.node
    house.run(until=lambda: _newest(house, 2).state is AllocationState.RUNNING)
    assert first.node in [share.node for share in _newest(house, 2).shares]


def test_a_node_whose_part_has_ended_loses_nothing_with_it(tmp_path: Path) -> None:
    house = House(tmp_path, nodes=2, script=forever)
    house.submit(resources={"slots_per_trial": 2})
    house.run(until=lambda: _newest(house, 1).state is AllocationState.RUNNING)
    running = _newest(house, 1)
    node = running.shares[1].node
    ends = {node: Exit(kind=ExitKind.COMPLETED)}
    house.store.commit(Put(running.model_copy(update={"ends": ends})))
    house.pool.die(node)
    house.run(5)
    assert _newest(house, 1).state is AllocationState.RUNNING
    house.script = lambda *_: Exit(kind=ExitKind.COMPLETED)
    house.run(until=house.over)
    assert house.trial().state is TrialState.COMPLETED


def _newest(house: House, attempt: int) -> Allocation:
    """The attempt with that number, or an empty one before there is any."""
    trials = house.trials() if house.store.children(Trial, house.experiment().id) else []
    found = [each for t in trials for each in house.attempts(t) if each.attempt == attempt]
    return found[0] if found else _NONE


_NONE = attempt(Failure()).model_copy(update={"state": AllocationState.REQUESTED})
