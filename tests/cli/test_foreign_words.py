"""Texts from outside, such as exceptions', take one line of a page, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from rich.text import Text

from burst.cli.following import Happening
from burst.cli.views import text
from burst.cli.views.lines import happening
from burst.cli.views.table import Column
from burst.core.model import Allocation, Checkpoint, Experiment, Node, Trial
from burst.core.states import Reason, TrialState
from burst.core.store import update
from burst.core.store.port import Append, Store
from tests.cli import world
from tests.cli.conftest import Burst

WORDS = "first\nsecond\r\n\x1b[31mthird\x07"
URL = "http://127.0.0.1:9000/bucket/" + "deep/" * 40 + "file?X-Amz-Signature=" + "ab" * 40
PROBLEM = f"cannot write {URL}\n  Why:  {WORDS}\n  Mend: wait"
TRIAL = f"{world.RUNNING}.t0000"


def change(store: Store, kind: Any, id: str, **values: Any) -> None:
    update(store, kind, id, lambda record: record.model_copy(update=values))


@pytest.fixture
def spoken(filled: Burst) -> Burst:
    """Every record has words from outside."""
    store, reason = filled.store, Reason(code="world", text=WORDS)
    for experiment in store.children(Experiment, ""):
        change(store, Experiment, experiment.id, reason=reason, name=WORDS)
        for trial in store.children(Trial, experiment.id):
            failed = {"checkpoint_problem": PROBLEM} if trial.live else {}
            change(store, Trial, trial.id, reason=reason, wait=reason, unprovable=WORDS,
                   hparams={"words": WORDS + str(trial.number)}, **failed)  # fmt: skip
            for made in store.children(Checkpoint, trial.id):
                change(store, Checkpoint, made.id, damaged=WORDS, pinned=True, pin_reason=WORDS)
            for held in store.children(Allocation, trial.id):
                change(store, Allocation, held.id, reason=reason)
    change(store, Node, world.NODE, gone_reason=reason)
    store.commit(Append(world.event("checkpoint.failed", TRIAL, PROBLEM)))
    return filled


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("show", world.RUNNING),
        ("why", world.RUNNING),
        ("why", TRIAL),
        ("why", f"{world.RUNNING}.t0002"),
        ("why", f"{world.RUNNING}.t0003"),
        ("trial", "list", world.RUNNING),
        ("checkpoint", "list", world.RUNNING),
        ("checkpoint", "list", world.RUNNING, "--all"),
        ("checkpoint", "show", "ckpt-1m3k9zq4w0b"),
        ("node", "list"),
        ("show", world.NODE),
    ],
)
def test_words_from_outside_do_not_break_a_line(spoken: Burst, command: tuple[str, ...]) -> None:
    page = spoken(*command, COLUMNS="700").stdout
    assert "\x1b" not in page
    assert "\x07" not in page
    for line in page.splitlines():
        assert line.count("first") == line.count("second") == line.count("third")


def test_why_saves_fail_is_whole_on_the_trials_page_and_in_its_json(spoken: Burst) -> None:
    page = spoken("show", TRIAL, COLUMNS="700").stdout
    (alarm,) = [line for line in page.splitlines() if line.startswith("! ")]
    assert "first second" in alarm
    assert URL not in alarm
    assert URL in page
    assert "Mend: wait" in page
    assert spoken.json("show", TRIAL)["checkpoint_problem"] == PROBLEM


def test_a_held_trials_alarm_is_one_line(spoken: Burst) -> None:
    change(spoken.store, Trial, TRIAL, state=TrialState.PAUSED)
    (answer,) = spoken.json("why", TRIAL)
    assert "not saved: cannot write http://127.0.0.1:9000/" in answer["alarm"]
    assert "\n" not in answer["alarm"]
    assert URL not in answer["alarm"]


def test_a_failed_save_is_a_short_line_while_it_runs() -> None:
    said = f"the checkpoint at batch 3 was not saved: {PROBLEM}"
    one = Happening("event", 0.0, TRIAL, "checkpoint.failed", said, data={})
    line = happening(one, world.RUNNING, "loss").plain
    assert "a checkpoint was not saved: cannot write http://127.0.0.1:9000/" in line
    assert line.endswith(": first second [31mthird")
    assert len(line) < 200


def test_a_cell_keeps_its_spaces_and_its_colours() -> None:
    red = Text("one\n", style="red").append("two  three", style="blue")
    column = Column("X", ["a  b", "a \r\n b\x1b[1m", red])
    assert [str(each) for each in column.cells] == ["a  b", "a b[1m", "one two  three"]
    (_, _, cell) = column.cells
    assert isinstance(cell, Text)
    assert {str(span.style) for span in cell.spans} == {"red", "blue"}
    assert text.one_line(WORDS) == "first second [31mthird"
