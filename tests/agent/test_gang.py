"""How a gang over nodes ends, from how its parts did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.model import Allocation, Exit, ExitKind, Failure, Share
from burst.core.states import AllocationState, Reason
from burst.runner.agent.ends.causes import left_alone
from burst.runner.agent.ends.gang import (
    LEFT_BEHIND,
    combine,
    is_broken,
    is_over,
    never_met,
    takes_up,
)

NODES = ("node-a", "node-b", "node-c")
DONE = Exit(kind=ExitKind.COMPLETED)
STOPPED = Exit(kind=ExitKind.STOPPED)
DRAINED = Exit(kind=ExitKind.DRAINED)
FORCED = Exit(kind=ExitKind.DRAINED, durable=False)


def failed(kind: ExitKind, name: str, at: float, message: str = "", code: int | None = 1) -> Exit:
    return Exit(
        kind=kind,
        failure=Failure(kind=name, message=message, at=at, node=NODES[0], exit_code=code),
    )


RAISED = failed(ExitKind.CRASHED, "ValueError", 5.0)
EARLIER = failed(ExitKind.CRASHED, "KeyError", 4.0)
KILLED = failed(ExitKind.CRASHED, "SIGKILL", 6.0, code=-9)
REFUSED = failed(ExitKind.INVALID_HP, "InvalidHP", 5.0, code=64)
ALONE = failed(ExitKind.CRASHED, "RuntimeError", 1.0, "Connection closed by peer [10.0.0.1]")
NO_STORE = failed(ExitKind.INFRASTRUCTURE, "Unreachable", 5.0)


def ended(*parts: Exit) -> Exit:
    order = NODES[: len(parts)]
    return combine(dict(zip(order, parts, strict=True)), order)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ((DONE, DONE), DONE),
        ((STOPPED, STOPPED), STOPPED),
        ((DRAINED, DRAINED), DRAINED),
        ((DRAINED, FORCED), FORCED),
        ((DONE, FORCED), FORCED),
        ((DONE, RAISED), RAISED),
        ((ALONE, RAISED), RAISED),
        ((RAISED, EARLIER), EARLIER),
        ((RAISED, KILLED), KILLED),
        ((LEFT_BEHIND, RAISED), RAISED),
        ((REFUSED, LEFT_BEHIND), REFUSED),
        ((NO_STORE, RAISED), RAISED),
        ((ALONE, NO_STORE), NO_STORE),
        ((NO_STORE, FORCED), NO_STORE),
        ((ALONE, FORCED), FORCED),
        ((LEFT_BEHIND, DRAINED), FORCED),
        ((ALONE, LEFT_BEHIND), ALONE),
        ((DONE, ALONE), ALONE),
        ((DRAINED, EARLIER), EARLIER),
    ],
)
def test_a_gang_ends_as_its_parts_did(parts: tuple[Exit, Exit], whole: Exit) -> None:
    assert ended(*parts) == whole
    assert ended(*reversed(parts)) == whole


def test_parts_that_ended_for_nothing_known_blame_the_world() -> None:
    found = ended(LEFT_BEHIND, DONE)
    assert found.kind is ExitKind.INFRASTRUCTURE
    assert found.failure is not None


_ENDS = st.sampled_from(
    [
        DONE,
        STOPPED,
        DRAINED,
        FORCED,
        RAISED,
        EARLIER,
        KILLED,
        REFUSED,
        ALONE,
        NO_STORE,
        LEFT_BEHIND,
    ]
)


@given(st.lists(_ENDS, min_size=2, max_size=3))
def test_a_gang_s_end_holds_for_all_its_parts(parts: list[Exit]) -> None:
    whole = ended(*parts)
    kinds = {part.kind for part in parts}
    own = [p for p in parts if p.failure and p.kind is not ExitKind.INFRASTRUCTURE]
    causes = [p for p in own if p.failure and not left_alone(p.failure)]
    if whole.kind in (ExitKind.COMPLETED, ExitKind.STOPPED):
        assert kinds <= {ExitKind.COMPLETED, ExitKind.STOPPED}
    if whole.kind is ExitKind.DRAINED:
        assert ExitKind.DRAINED in kinds
        assert not causes
        assert not whole.durable or all(part == DRAINED for part in parts)
    if causes:
        assert whole in causes
    if whole.kind is ExitKind.CRASHED:
        assert whole in own


@given(st.permutations([DONE, DRAINED, RAISED, ALONE, NO_STORE]))
def test_of_a_gang_s_end_no_order_is_the_better(parts: list[Exit]) -> None:
    order = [f"node-{number}" for number in range(len(parts))]
    assert combine(dict(zip(order, parts, strict=True)), order) == RAISED


# --- what each agent does of it ---------------------------------------------------------------


def gang(
    *,
    state: AllocationState = AllocationState.RUNNING,
    ends: dict[str, Exit] | None = None,
    network: tuple[str, ...] = NODES,
    nodes: tuple[str, ...] = NODES,
) -> Allocation:
    return Allocation(
        id="alloc-1m3k9zq4w73",
        trial="exp-1m3k9zq4w73.t0000",
        experiment="exp-1m3k9zq4w73",
        pool="lab",
        attempt=1,
        token=1,
        shares=tuple(Share(node=node, slots=(0,)) for node in nodes),
        created=1.0,
        state=state,
        state_since=1.0,
        reason=Reason(code="test"),
        ends=ends or {},
        network={node: {} for node in network},
    )


@pytest.mark.parametrize("end", [RAISED, REFUSED, ALONE, NO_STORE, LEFT_BEHIND, FORCED])
def test_one_part_that_failed_or_was_forced_ends_the_others(end: Exit) -> None:
    allocation = gang(ends={"node-b": end})
    assert is_broken(allocation, "node-a", runs=True)
    assert not is_broken(allocation, "node-b", runs=True)


@pytest.mark.parametrize("end", [DONE, STOPPED, DRAINED])
def test_one_part_that_came_to_its_end_leaves_the_others_to_theirs(end: Exit) -> None:
    allocation = gang(ends={"node-b": end})
    assert not is_broken(allocation, "node-a", runs=True)
    assert is_broken(allocation, "node-a", runs=False)


def test_a_node_that_left_before_it_had_ranks_is_waited_for_by_none() -> None:
    allocation = gang(ends={"node-b": DRAINED}, network=("node-a", "node-c"))
    assert is_broken(allocation, "node-a", runs=True)
    assert never_met(allocation, "node-a")
    assert not never_met(gang(ends={"node-b": DRAINED}), "node-a")


@pytest.mark.parametrize("state", [AllocationState.ASSIGNED, AllocationState.STARTING])
def test_an_agent_takes_up_its_part_though_another_was_faster(state: AllocationState) -> None:
    assert takes_up(gang(state=state, network=("node-b",)), "node-a")
    assert not takes_up(gang(state=state, network=("node-a",)), "node-a")
    assert not takes_up(gang(state=state, network=(), ends={"node-a": DRAINED}), "node-a")


def test_an_agent_takes_up_alone_only_what_nobody_has_begun() -> None:
    alone = ("node-a",)
    assert takes_up(gang(state=AllocationState.ASSIGNED, nodes=alone, network=()), "node-a")
    assert not takes_up(gang(state=AllocationState.STARTING, nodes=alone, network=()), "node-a")


def test_what_has_ended_is_over_on_its_node_alone() -> None:
    allocation = gang(ends={"node-b": DONE})
    assert is_over(allocation, "node-b")
    assert not is_over(allocation, "node-a")
