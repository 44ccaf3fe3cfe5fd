"""`burst report`: what came of an experiment, for people and programs that were not there."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from burst.cli import shapes
from burst.cli.reading import Picture
from burst.cli.reports.costing import Cost, cost_of
from burst.cli.reports.outputs import env_lines
from burst.cli.reports.reporting import Report, ranked
from burst.cli.views.markdown import (
    MOST_POINTS,
    MOST_ROWS,
    code,
    markdown,
)
from burst.core.model import Failure, MetricPoint, MetricRow, Share, Trial
from burst.core.states import ExperimentState, Reason, TrialState
from tests.cli import world
from tests.cli.conftest import Burst
from tests.cli.test_looking import check

HOSTILE = "a|b`c\n# d <img src=x> @everyone [e](http://f) $x$ *g* \x1b[31m \u2028 \u202e\u2066 h"


def report(**changes: Any) -> Report:
    """Of an experiment with one trial in the middle of it."""
    trial = world.training(0)
    values: dict[str, Any] = {
        "picture": Picture(world.experiment(), (trial,), {}, {}, world.NOW),
        "best": trial,
        "checkpoint": world.checkpoint(trial),
        "curve": curve(3),
        "allocations": (world.allocation(trial),),
        "cost": Cost(3600.0, 0.0, 2.5),
        "uncounted": 0,
        "unacted": (),
    }
    return Report(**values | changes)


def curve(number: int, metric: str = "validation_loss") -> list[MetricRow]:
    return [
        MetricRow(batches=280 * n, at=world.NOW, metrics={metric: 1 / n})
        for n in range(1, number + 1)
    ]


def search(number: int, **fields: Any) -> Report:
    trials = [_scored(n, float(number - n)) for n in range(number)]
    picture = Picture(world.experiment(**fields), tuple(trials), {}, {}, world.NOW)
    return report(picture=picture, best=trials[-1])


def _scored(number: int, loss: float) -> Trial:
    best = MetricPoint(batches=560, metrics={"validation_loss": loss}, at=world.NOW)
    return world.training(number, best=best)


def picture(**fields: Any) -> Picture:
    return Picture(world.experiment(**fields), (world.training(0),), {}, {}, world.NOW)


def test_it_says_how_it_stands_what_it_cost_and_how_to_go_on(filled: Burst) -> None:
    shown = filled("report", world.DONE).stdout
    assert shown.startswith("### ✔ completed: `digits`\n")
    assert "`validation_loss` **0.0931** (smaller is better), `t0000` at batch 560" in shown
    assert "| took | 30s |" in shown
    assert "commit `c0ffeec0ff` with changes" in shown
    assert f"burst show {world.DONE}" in shown
    assert "burst checkpoint download ckpt-1m3k9zq4wdc" in shown
    assert "burst wait" not in shown


def test_what_failed_shows_its_traceback_and_the_way_to_its_last_checkpoint(
    filled: Burst,
) -> None:
    shown = filled("report", world.FAILED).stdout
    assert "### ✘ failed: `negative`" in shown
    assert "No validation was reported" in shown
    assert f"```text\n{world.TRACEBACK}```" in shown
    assert "| checkpoint | none yet |" in shown
    crashed = world.training(0, state=TrialState.FAILED)
    ended = Picture(world.experiment(state=ExperimentState.FAILED), (crashed,), {}, {}, world.NOW)
    assert f"burst run exp.yaml --from {crashed.id} --everything" in markdown(
        report(picture=ended, best=crashed)
    )


def test_what_is_paused_says_how_to_go_on() -> None:
    shown = markdown(report(picture=picture(state=ExperimentState.PAUSED)))
    assert f"burst resume {world.RUNNING}" in shown
    assert "burst wait" not in shown


def test_as_json_it_has_its_documented_shape(filled: Burst) -> None:
    for id in (world.RUNNING, world.DONE, world.FAILED):
        check(filled.json("report", id), shapes.ReportJson)
    told = filled.json("report", world.RUNNING)
    assert [point["batches"] for point in told["curve"]] == [280, 560, 840]
    assert (told["value"], told["checkpoint"]["id"]) == (0.0931, "ckpt-1m3k9zq4w0b")


def test_for_the_next_step_it_is_one_line_a_value(filled: Burst) -> None:
    told = dict(
        line.split("=", 1) for line in filled("report", world.DONE, "--env").stdout.split()
    )
    assert told["experiment"] == world.DONE
    assert told["state"] == "completed"
    assert (told["metric"], told["value"]) == ("validation_loss", "0.0931")
    assert told["trial"] == f"{world.DONE}.t0000"
    assert told["checkpoint"] == "ckpt-1m3k9zq4wdc"
    assert told["checkpoint_url"].startswith("file:///blobs/checkpoints/")
    failed = dict(
        line.split("=", 1) for line in filled("report", world.FAILED, "--env").stdout.splitlines()
    )
    assert (failed["state"], failed["value"], failed["checkpoint"]) == ("failed", "", "")
    assert failed["reason"] == "ValueError: the learning rate is negative"


@pytest.mark.parametrize(
    "words", [("--env", "--json"), ("--env", "--comment", "3"), ("--json", "--comment", "3")]
)
def test_it_is_printed_in_one_way(filled: Burst, words: tuple[str, ...]) -> None:
    assert "exclude each other" in filled("report", *words, status=2).stderr


def test_what_there_is_not_is_status_4(filled: Burst) -> None:
    filled("report", "key:nothing", status=4)


@pytest.mark.parametrize("kind", ["", "key:", "exp-", "ckpt-"])
@pytest.mark.parametrize("command", ["report", "why", "show"])
def test_an_id_that_is_none_is_repeated_as_far_as_anybody_reads_it(
    filled: Burst, command: str, kind: str
) -> None:
    if kind == "ckpt-" and command != "show":
        return
    said = filled(command, kind + "x" * 5000, status=4).stderr
    assert "xxx…'" in said
    assert len(said) < 600


def test_a_name_for_a_comment_goes_with_a_comment(filled: Burst) -> None:
    assert "--comment NUMBER" in filled("report", "--as", "x", status=2).stderr


def test_what_is_live_says_no_reason_for_which_it_has_no_validation() -> None:
    def told(state: ExperimentState, code: str, words: str) -> str:
        found = picture(state=state, reason=Reason(code=code, text=words))
        return markdown(report(picture=found, best=None, curve=()))

    live = told(ExperimentState.ACTIVE, "resumed", "resumed by a person")
    assert "No validation was reported yet." in live
    assert "by a person" not in live
    paused = told(ExperimentState.PAUSED, "paused", "paused by a person")
    assert "No validation was reported: `paused by a person`." in paused


@given(st.text(max_size=30).filter(str.strip), st.sampled_from([1, 20_000]))
def test_for_the_next_step_all_of_it_is_short_enough_for_gitlab(words: str, times: int) -> None:
    failed = world.training(
        0,
        state=TrialState.FAILED,
        failure=Failure(kind="ValueError", message=words * times, traceback="", rank=0),
    )
    searcher = {"name": "single", "metric": "\U0001f600" * times}
    ended = Picture(
        world.experiment(
            state=ExperimentState.FAILED,
            config={**world.experiment().config, "searcher": searcher},
        ),
        (failed,), {}, {}, world.NOW,
    )  # fmt: skip
    told = env_lines(report(picture=ended, best=None))
    assert len(told.encode()) < 5000
    assert "reason=ValueError: " in told


@given(
    st.one_of(
        st.text(max_size=60),
        st.text("|`\\<>@#[]()!*_~$\n\r\t =" + string.ascii_letters, max_size=60),
    )
)
def test_no_name_that_somebody_gave_breaks_the_report(name: str) -> None:
    trial = world.training(
        0,
        best=MetricPoint(batches=5, metrics={"validation_loss": 0.5, name: 1.0}, at=world.NOW),
        hparams={"a": name, name: 1},
    )
    other = world.training(1, hparams={"a": 1})
    config = {**world.experiment().config, "searcher": {"metric": name or "loss"}}
    whole = Picture(
        world.experiment(name=name, owner=name, config=config), (trial, other), {}, {}, world.NOW
    )
    there = report(picture=whole, best=trial, curve=curve(4, name or "loss"), unacted=(name,))
    shown = markdown(there)
    tables = re.findall(r"(?:^\| .*\n)+", shown, re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        columns = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(columns) == 1, table
    without_code = re.sub(r"`[^`\n]*`", "", shown.replace("```mermaid", "").replace("```sh", ""))
    assert "<" not in without_code
    assert "@" not in without_code
    assert len(env_lines(there).splitlines()) == 9
    assert "\n" not in code(name)


def test_hostile_words_stay_words() -> None:
    failure = Failure(kind="E", message="m", traceback=f"```\n{HOSTILE}\n````\n@all")
    failed = world.training(0, state=TrialState.FAILED, failure=failure)
    ended = Picture(
        world.experiment(name=HOSTILE, owner=HOSTILE, state=ExperimentState.FAILED),
        (failed,), {}, {}, world.NOW,
    )  # fmt: skip
    shown = markdown(report(picture=ended, best=None, curve=()))
    fence = "`````"
    assert f"{fence}text\n```\n" in shown
    assert shown.count(fence) == 2
    assert not set(shown) & set("\x1b\u202e\u2066")


def test_however_large_the_search_the_report_is_short_and_the_best_come_first() -> None:
    large = search(900)
    shown = markdown(large)
    assert len(shown) < 20_000
    rows = re.findall(r"^\| `(t\d+)` ", shown, re.MULTILINE)
    assert rows == [f"t{n:04d}" for n in range(899, 899 - MOST_ROWS, -1)]
    assert "… and 880 more trials" in shown
    assert "900 more" not in shown


def test_where_larger_is_better_the_largest_comes_first_and_nan_last() -> None:
    searcher = {"name": "grid", "metric": "validation_loss", "smaller_is_better": False}
    there = search(3, config={"searcher": searcher})
    nan = _scored(3, float("nan"))
    none = world.trial(4)
    whole = Picture(there.experiment, (*there.picture.trials, none, nan), {}, {}, world.NOW)
    order = [trial.number for trial in ranked(report(picture=whole))]
    assert order == [0, 1, 2, 3, 4]


@example([2.0**1023, 2.0**1023])
@given(
    st.lists(
        st.floats() | st.sampled_from([1e-30, -1e30, 5.0, 5.0, float("nan"), float("inf")]),
        max_size=70,
    )
)
def test_the_chart_is_bounded_finite_and_written_without_exponents(values: list[float]) -> None:
    rows = [
        MetricRow(batches=n, at=0.0, metrics={"validation_loss": value})
        for n, value in enumerate(values)
    ]
    shown = markdown(report(curve=rows))
    finite = [v for v in values if abs(v) < float("inf")]
    if len(finite) < 2:
        assert "mermaid" not in shown
        return
    chart = shown.partition("```mermaid\n")[2].partition("```")[0]
    (line,) = re.findall(r"line \[(.*)\]", chart)
    drawn = line.split(", ")
    assert len(drawn) == min(len(finite), MOST_POINTS)
    assert all(re.fullmatch(r"-?\d+(\.\d+)?", point) for point in drawn)
    low, high = re.findall(r"(\S+) --> (\S+)", chart)[0]
    assert all(re.fullmatch(r"-?\d+(\.\d+)?", end) for end in (low, high))
    assert float(low) <= min(map(float, drawn)) <= max(map(float, drawn)) <= float(high)
    labels = re.findall(r'"(\d+)"', chart.partition("[")[2].partition("]")[0])
    assert len(labels) == len(drawn)


def test_the_cost_is_that_of_the_slots_that_were_held() -> None:
    trial = world.training(0)
    hour = {"created": 0.0, "ended": 3600.0}
    node = world.node(price=4.0)
    half = world.allocation(trial, 1, **hour)
    whole = world.allocation(trial, 2, shares=(Share(node=world.NODE, slots=(0, 1)),), **hour)
    running = world.allocation(trial, 3, created=0.0, ended=None)
    nodes = {world.NODE: node}
    assert cost_of([half], nodes, 0.0) == Cost(1800.0, 0.0, 2.0)
    assert cost_of([half, whole], nodes, 0.0) == Cost(5400.0, 0.0, 6.0)
    assert cost_of([running], nodes, 7200.0) == Cost(3600.0, 0.0, 4.0)
    assert cost_of([], nodes, 0.0) == Cost(0.0, 0.0, None)


def test_what_took_seconds_did_not_cost_nothing() -> None:
    few = Cost(4.0, 0.0, 0.0012)
    assert "| cost | $0.0012 for less than 0.01 node-hours |" in markdown(report(cost=few))
    free = Cost(4.0, 4.0, None)
    assert "unknown: no price is known for its less than 0.01" not in markdown(report(cost=free))
    assert "no price is known for less than 0.01 node-hours" in markdown(report(cost=free))
    mixed = Cost(8.0, 4.0, 0.01)
    told = markdown(report(cost=mixed))
    assert "$0.01 for less than 0.01 node-hours; unknown for less than 0.01 node-hours" in told


def test_a_price_that_is_not_known_makes_no_zero() -> None:
    trial = world.training(0)
    there = world.allocation(trial, 1, created=0.0, ended=3600.0)
    gone = world.allocation(trial, 2, created=0.0, ended=3600.0,
                            shares=(Share(node="node-1m3k9zq4w99", slots=(0,)),))  # fmt: skip
    unknown = cost_of([there, gone], {world.NODE: world.node()}, 0.0)
    assert (unknown.usd, unknown.unpriced) == (None, unknown.seconds)
    assert "unknown: no price is known for 1.5 node-hours" in markdown(report(cost=unknown))
    mixed = cost_of([there, gone], {world.NODE: world.node(price=4.0)}, 0.0)
    told = markdown(report(cost=mixed))
    assert "$2.00 for 0.5 node-hours; unknown for 1 node-hours without a price" in told


def test_what_nothing_acts_on_yet_is_told() -> None:
    config = {**world.experiment().config, "budget": {"usd": 200.0}}
    told = markdown(report(picture=picture(config=config), unacted=("budget.usd", "profiling")))
    assert "the budget of $200 is not enforced yet" in told
    assert "| not acted on yet | `budget.usd`, `profiling` |" in told
    assert "enforced" not in markdown(report(picture=picture(config=config)))
