"""The machines: every pair of states, the one way along an edge, and the page that draws them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum
from itertools import product
from pathlib import Path

import pytest

from burst.core.model import Node, Record
from burst.core.states import (
    TABLES,
    AllocationState,
    ExperimentState,
    IllegalTransition,
    NodeState,
    Reason,
    Stateful,
    TrialState,
    advance,
    can_advance,
    is_terminal,
)
from burst.core.testing import diagrams, examples

ROOT = Path(__file__).resolve().parents[2]
REASON = Reason(code="test", text="because")
PAIRS = [pair for machine in TABLES for pair in product(machine, machine)]
RECORDS: dict[type[StrEnum], Stateful] = {
    ExperimentState: examples.experiment(),
    TrialState: examples.trial(),
    AllocationState: examples.allocation(),
}


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=str)
def test_advance_goes_along_the_edges_of_the_table_and_nowhere_else(
    before: StrEnum, after: StrEnum
) -> None:
    allowed = after in TABLES[type(before)][before]
    assert can_advance(before, after) is allowed
    if type(before) not in RECORDS:
        return  # a node's state follows from its dates
    record = RECORDS[type(before)].model_copy(update={"state": before})
    if not allowed:
        with pytest.raises(IllegalTransition, match=record.id):
            advance(record, after, REASON, 5.0)
        return
    changed, transition = advance(record, after, REASON, 5.0)
    assert (changed.state, changed.reason, changed.state_since) == (after, REASON, 5.0)
    assert record.state is before, "a record is a value"
    assert (transition.before, transition.after, transition.at) == (before, after, 5.0)


@pytest.mark.parametrize("machine", TABLES)
def test_every_state_is_in_its_table_and_reachable(machine: type[StrEnum]) -> None:
    table = TABLES[machine]
    assert set(table) == set(machine)
    reached, ahead = set(), [next(iter(machine))]
    while ahead:
        state = ahead.pop()
        if state not in reached:
            reached.add(state)
            ahead += table[state]
    assert reached == set(machine)


@pytest.mark.parametrize("machine", TABLES)
def test_from_every_state_a_terminal_one_can_be_reached(machine: type[StrEnum]) -> None:
    ends = {state for state in machine if is_terminal(state)}
    assert ends
    grown: set[StrEnum] = set()
    while grown != ends:
        grown = set(ends)
        ends |= {state for state in machine if ends & set(TABLES[machine][state])}
    assert ends == set(machine)


def test_terminal_states_are_those_the_design_names() -> None:
    terminal = {str(state) for machine in TABLES for state in machine if is_terminal(state)}
    assert terminal == {
        *("completed", "stopped", "cancelled", "failed"),
        *("released", "lost", "gone"),
    }


def test_a_state_of_another_machine_is_no_edge() -> None:
    with pytest.raises(IllegalTransition):
        advance(examples.trial(), ExperimentState.COMPLETED, REASON, 1.0)


def test_what_is_terminal_is_not_live() -> None:
    for machine, record in RECORDS.items():
        for state in machine:
            changed = record.model_copy(update={"state": state})
            assert isinstance(changed, Record)
            if is_terminal(state):
                assert not changed.live


def test_a_nodes_state_is_that_of_its_latest_date() -> None:
    dates = ("launched", "registered", "ready", "draining", "terminating", "gone")
    given: dict[str, float] = {}
    assert examples.node().state is NodeState.REQUESTED
    for moment, name in enumerate(dates):
        before = examples.node(**given)
        given[name] = float(moment)
        after: Node = examples.node(**given)
        assert after.state == NodeState(name)
        assert can_advance(before.state, after.state)
        assert after.live is (name != "gone")


def _writes_of_state(tree: ast.AST) -> Iterator[int]:
    """The lines where a copy of something is given another `state`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        given = {word.arg for word in node.keywords}
        for word in node.keywords:
            if word.arg == "update" and isinstance(word.value, ast.Dict):
                given |= {str(getattr(key, "value", "")) for key in word.value.keys}
        if name in ("model_copy", "model_construct", "replace") and "state" in given:
            yield node.lineno


STATES_OF_OTHER_THINGS = {
    "harness/burst/harness/data/stream.py": "of a data stream, where it stands",
    "runner/burst/runner/reconcile/experiments.py": "of a searcher, its JSON value",
}


def test_advance_is_the_only_writer_of_a_state() -> None:
    writers = {
        path.relative_to(ROOT).as_posix()
        for room in ("core", "harness", "runner", "infra", "cli")
        for path in sorted((ROOT / room).rglob("*.py"))
        for _ in _writes_of_state(ast.parse(path.read_text()))
    }
    assert writers - STATES_OF_OTHER_THINGS.keys() == {"core/burst/core/states.py"}


def test_the_page_of_states_is_current() -> None:
    assert (ROOT / "docs" / "states.md").read_text() == diagrams.page()
