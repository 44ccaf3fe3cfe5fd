from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from burst.cli import reading
from burst.cli.reading import Picture
from burst.cli.views import experiments, records, text, trials
from burst.cli.views.failure import LINES, failure
from burst.cli.views.table import Column, fit
from burst.cli.views.why import Asked, why_page
from burst.core.model import Failure, MetricPoint
from burst.core.states import TABLES, ExperimentState, TrialState
from burst.core.store.memory import MemoryStore
from tests.cli import world


def drawn(what: RenderableType, width: int = 120) -> list[str]:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(what)
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.fixture
def picture() -> Picture:
    store = MemoryStore()
    world.fill(store)
    return reading.picture(store, world.RUNNING, world.NOW)


def picture_of(experiment: str) -> Picture:
    store = MemoryStore()
    world.fill(store)
    return reading.picture(store, experiment, world.NOW)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0s"), (4.2, "4.2s"), (9.96, "10s"), (59.4, "59s"), (59.6, "1m 00s"), (80, "1m 20s"),
     (3599.7, "1h 00m"), (7500, "2h 05m"), (273_600, "3d 4h"), (-1, "0s"), (math.nan, "–")],
)  # fmt: skip
def test_a_span_of_time_reads_well(seconds: float, shown: str) -> None:
    assert text.seconds(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.093148, "0.09315"), (12.0, "12"), (1.2e-7, "1.2e-07"), (math.nan, "NaN"),
     (math.inf, "∞"), (-math.inf, "-∞"), (None, "–"), (3_000_000.0, "3e+06")],
)  # fmt: skip
def test_a_metric_reads_well(value: float | None, shown: str) -> None:
    assert text.metric(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (12_345, "12 kB"), (999_600, "1 MB"),
     (3_400_000_000, "3.4 GB"), (5e15, "5000 TB")],
)  # fmt: skip
def test_a_size_reads_well(value: float, shown: str) -> None:
    assert text.size(value) == shown


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(1, 40))
def test_a_bar_is_as_wide_as_asked(fraction: float, width: int) -> None:
    fraction = 0.0 if math.isnan(fraction) else fraction
    assert text.bar(fraction, width).cell_len == width


def test_every_state_has_a_glyph_of_its_own_colour() -> None:
    for states in TABLES.values():
        for state in states:
            assert not text.state(state).plain.startswith("?"), state


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(10, 200),
)
def test_columns_that_do_not_fit_go_by_their_rank(
    shapes: list[tuple[int, int]], width: int
) -> None:
    columns = [Column("x" * w, ["y"], rank=rank) for w, rank in shapes]
    kept = fit(columns, width)
    dropped = [c.rank for c in columns if c not in kept]
    total = sum(c.width for c in kept) + 2 * (len(kept) - 1)
    assert total <= width or all(c.rank == 0 for c in kept)
    assert all(c.rank <= min(dropped) for c in kept) if dropped else True


def test_the_live_table_shows_progress_metrics_and_what_waits(picture: Picture) -> None:
    assert drawn(trials.live(picture, 140), 140) == [
        "● active  digits  exp-1m3k9zq4w01  grid search, 0 of 4 trials over  "
        "validation_loss, smaller is better  1m 30s",
        "",
        "TRIAL  STATE      ON     PROGRESS         BATCHES  EPOCH  TRAINING     VALIDATION  "
        "BEST           RATE  TRAINED  LEFT  HYPERPARAMETERS",
        "t0000  ● running  local  ━━━━━━━━──────  840/1400    3.0  loss 0.0812  0.0975      "
        "0.0931 ★  93.3 ba/s     9.0s  6.0s  lr=0.01",
        "t0001  ● running  local  ━━━━━━━━──────  840/1400    3.0  –            –           "
        "–         93.3 ba/s     9.0s  6.0s  lr=0.02",
        "t0002  ○ waiting         ──────────────         –      –  –            –           "
        "–                 –        –        lr=0.03",
        "t0003  ‖ paused          ━━━━━━━━──────  840/1400    3.0  loss 0.0812  0.0975      "
        "0.0931    93.3 ba/s     9.0s        lr=0.04",
        "",
        "○ t0002 waits: local: 2 of 2 slots are held; 1 is needed  looked at again in 5.0s",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_narrow_terminal_loses_columns_not_lines(picture: Picture, width: int) -> None:
    lines = drawn(trials.trials_table(picture, width), width)
    assert len(lines) == 5
    assert max(map(len, lines)) <= width
    assert "t0000  ● running" in lines[1]


def test_a_low_terminal_shows_the_trials_that_matter(picture: Picture) -> None:
    many = replace(
        picture,
        trials=tuple(
            world.training(n) if n in (3, 17) else world.trial(n, state=TrialState.COMPLETED)
            for n in range(40)
        ),
    )
    lines = drawn(trials.live(many, 100, height=14), 100)
    assert len(lines) <= 14
    assert [line[:5] for line in lines if "running" in line] == ["t0003", "t0017"]
    assert "… and 35 more trials" in lines


def test_the_summary_names_the_best_trial_and_what_to_do_next() -> None:
    done = picture_of(world.DONE)
    checkpoint = world.checkpoint(done.trials[0])
    lines = drawn(experiments.summary(done, 120, checkpoint))
    assert lines[0].startswith("✔ completed  digits  exp-1m3k9zq4w02")
    assert "★ t0000  validation_loss 0.0931  accuracy 0.975  at batch 560" in lines
    assert "  lr=0.01  net.hidden=128" in lines
    assert [line[3:].split("  ")[0] for line in lines[-4:]] == [
        "burst show exp-1m3k9zq4w02",
        "burst logs exp-1m3k9zq4w02.t0000",
        "burst trial metrics exp-1m3k9zq4w02.t0000",
        "burst checkpoint download ckpt-1m3k9zq4w0b",
    ]


def test_a_failed_trial_shows_its_own_traceback_first() -> None:
    lines = drawn(experiments.summary(picture_of(world.FAILED), 120))
    assert lines[:5] == [
        *world.TRACEBACK.splitlines(),
        "in exp-1m3k9zq4w03.t0000, rank 0, exit status 1",
    ]


def test_a_traceback_names_the_users_file_not_where_an_agent_put_it() -> None:
    trace = 'File "/burst/nodes/node-1/alloc-2nk30zy94z9/code/models/train.py", line 63, in f'
    lines = drawn(failure(Failure(kind="E", traceback=trace), "exp-1.t0000"))
    assert lines[0] == 'File "models/train.py", line 63, in f'


def test_an_error_of_several_lines_is_said_once() -> None:
    said = "no class 'Trail'\n  Mend: did you mean Trial?"
    found = Failure(kind="TrialError", message=said, traceback=f"TrialError: {said}")
    assert drawn(failure(found, "exp-1.t0000")) == [
        "TrialError: no class 'Trail'",
        "  Mend: did you mean Trial?",
        "in exp-1.t0000",
    ]


def test_a_long_traceback_keeps_its_end_and_says_where_the_rest_is() -> None:
    trace = "\n".join(f"line {n}" for n in range(100))
    lines = drawn(failure(Failure(kind="E", message="m", traceback=trace), "exp-1.t0000"))
    assert lines[0] == "… 60 lines before these: `burst logs exp-1.t0000`"
    assert lines[1 : LINES + 1] == [f"line {n}" for n in range(60, 100)]
    assert lines[-2:] == ["E: m", "in exp-1.t0000"]


def test_the_best_is_the_one_the_searcher_prefers_and_never_not_a_number() -> None:
    def with_loss(number: int, value: float) -> object:
        point = MetricPoint(batches=1, metrics={"validation_loss": value}, at=0)
        return world.trial(number, best=point)

    some = [with_loss(0, math.nan), with_loss(1, 0.3), with_loss(2, 0.2), with_loss(3, 0.2)]
    best = reading.best_trial(world.experiment(), some)  # type: ignore[arg-type]
    assert best is not None
    assert best.number == 2
    searcher = {"metric": "validation_loss", "smaller_is_better": False}
    larger = world.experiment(config={"searcher": searcher})
    best = reading.best_trial(larger, some)  # type: ignore[arg-type]
    assert best is not None
    assert best.number == 1


def test_a_checkpoint_tells_what_is_wrong_with_it() -> None:
    trial = world.training()
    rows = [
        world.checkpoint(trial, "a"),
        world.checkpoint(trial, "b", pinned=True, pin_reason="the paper"),
        world.checkpoint(trial, "c", damaged="a file is missing"),
        world.checkpoint(trial, "d", deleted=world.NOW),
    ]
    lines = drawn(records.checkpoints_table(rows, world.NOW, 120))
    states = ("✔ durable", "✔ pinned the paper", "✘ damaged", "– deleted")
    assert all(state in line for state, line in zip(states, lines[1:], strict=True))
    page = drawn(records.checkpoint_page(rows[2], world.NOW))
    assert "damage      a file is missing" in page


def test_why_says_the_same_thing_once(picture: Picture) -> None:
    waiting = [world.trial(n, wait=picture.trials[2].wait) for n in (5, 6, 7)]
    answers = [
        {
            "id": t.id,
            "state": "waiting",
            "reason": None,
            "until": None,
            "checkpoint_age_s": None,
            "checkpoint_late": False,
            "alarm": None,
            "pools": [{"pool": "local", "reason": "full", "slots": 2, "used": 2}],
        }
        for t in waiting
    ]
    page = why_page([Asked(picture.experiment, waiting, answers)], world.NOW)  # type: ignore[arg-type]
    assert drawn(page) == [
        "exp-1m3k9zq4w01.t0005 and 2 more  ○ waiting  local: 2 of 2 slots are held; 1 is needed",
        "  local: full",
        "  waits for 1m 30s; looked at again when anything changes",
    ]


def test_why_of_a_paused_experiment_says_how_to_go_on() -> None:
    paused = world.experiment(state=ExperimentState.PAUSED)
    assert f"burst resume {paused.id}" in drawn(why_page([Asked(paused, [], [])], world.NOW))[0]


def test_the_module_of_an_exception_is_not_left_on_a_line_of_its_own() -> None:
    trace = 'Traceback (most recent call last):\n  File "t.py", line 1\na.b_c.NoGood: it is bad\n'
    found = Failure(kind="NoGood", message="it is bad", traceback=trace)
    assert drawn(failure(found, "exp-1.t0000"))[:-1] == [
        "Traceback (most recent call last):",
        '  File "t.py", line 1',
        "NoGood: it is bad",
    ]
