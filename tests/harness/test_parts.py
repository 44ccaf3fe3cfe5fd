from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import BurstError, ConfigError
from burst.core.launch import names_class
from burst.core.length import Length
from burst.harness.agreement import Wish
from burst.harness.entrypoint import resolve
from burst.harness.envelope import differences
from burst.harness.errors import MetricError, TrialError
from burst.harness.interpolate import command_of
from burst.harness.settings import max_length
from burst.harness.trial.metrics import TrainingMetrics
from burst.harness.trial.reducers import Reducer
from burst.harness.trial.schedule import Periods, Schedule
from burst.harness.trial.units import Batch, Epoch, Period, Scale, period_of
from burst.harness.trial.validation import reduce_outputs
from burst.harness.values import to_floats

HPARAMS = {"lr": 0.5, "name": "a b", "net": {"width": 3}}


def test_a_command_list_keeps_its_words() -> None:
    words = ["python", "x.py", "--name=${hp.name}", "${hp.net.width}", "$HOME"]
    assert command_of(words, HPARAMS) == ["python", "x.py", "--name=a b", "3", "$HOME"]


def test_a_value_stays_one_word_in_a_shell_line() -> None:
    assert command_of("python x.py ${hp.name}", HPARAMS)[2] == "exec python x.py 'a b'"


@pytest.mark.parametrize("line", ["cd x && python y.py", "A=1 python y.py", "python y.py | tee z"])
def test_a_line_that_needs_the_shell_keeps_it(line: str) -> None:
    assert command_of(line, {}) == ["/bin/sh", "-c", line]


@pytest.mark.parametrize(
    ("entrypoint", "expected"),
    [("train:Trial", True), ("pkg.train:Trial", True), ("python a.py", False), (["a"], False)],
)
def test_a_class_is_told_from_a_command(entrypoint: object, expected: bool) -> None:
    assert names_class(entrypoint) is expected


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "some_train.py").write_text("class Trial: ...\n")
    (tmp_path / "broken_train.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("some_train", "broken_train"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_an_entrypoint_is_found_or_explained(code: Path) -> None:
    assert resolve("some_train:Trial", code).__name__ == "Trial"
    with pytest.raises(TrialError, match=r"did you mean Trial\?"):
        resolve("some_train:Trail", code)
    with pytest.raises(TrialError, match=r"did you mean some_train\?"):
        resolve("sometrain:Trial", code)


def test_an_import_that_fails_inside_the_users_module_comes_through(code: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        resolve("broken_train:Trial", code)


@pytest.mark.parametrize(
    ("length", "batches"),
    [("7ba", 7), ("7rec", 2), ("1ep", 10), ("0.01ep", 1), ("2h", None), ("0ep", 0)],
)
def test_lengths_become_batches(length: str, batches: int | None) -> None:
    assert Scale(epoch=10, batch=4).batches(Length.model_validate(length)) == batches


def test_epochs_of_a_stream_mean_nothing() -> None:
    with pytest.raises(ConfigError, match="stream"):
        Scale(epoch=None, batch=4).batches(Length.model_validate("1ep"))


def test_periods_come_as_counts_lists_and_times() -> None:
    scale = Scale(epoch=10, batch=4)
    assert period_of(Batch(3), scale) == Period(every=3)
    assert period_of(Epoch([1, 2]), scale) == Period(at=frozenset({10, 20}))
    assert period_of("2h", scale) == Period(seconds=7200.0)
    assert period_of(None, scale) == period_of(Batch(0), scale) == Period()


def test_every_boundary_is_found_by_count() -> None:
    periods = Periods(Period(every=4), Period(every=6), Period(at=frozenset({5})))
    schedule = Schedule(periods, target=13)
    met, batches = [], 0
    while batches < 13:
        batches = schedule.next_boundary(batches) or 13
        met.append((batches, schedule.due(batches)))
    assert met == [
        (4, Wish.REPORT),
        (5, Wish.CHECKPOINT),
        (6, Wish.VALIDATE | Wish.REPORT),
        (8, Wish.REPORT),
        (12, Wish.VALIDATE | Wish.REPORT),
        (13, Wish.END),
    ]


def test_times_are_due_by_the_clock_and_start_anew() -> None:
    schedule = Schedule(Periods(checkpoint=Period(seconds=10)), target=None, seconds=100)
    schedule.start(0.0)
    assert schedule.overdue(9.0, 9.0) == Wish.NOTHING
    assert schedule.overdue(10.0, 10.0) == Wish.CHECKPOINT
    schedule.did(Wish.CHECKPOINT, 10.0)
    assert schedule.overdue(19.0, 100.0) == Wish.END


def test_an_average_weighs_each_batch_by_its_records() -> None:
    outputs = [[{"loss": 1.0, "hits": 2.0}, 4], [{"loss": 4.0, "hits": 1.0}, 2]]
    how = {"loss": Reducer.AVG, "hits": Reducer.SUM}
    assert reduce_outputs(outputs, how) == {"loss": 2.0, "hits": 3.0}
    assert reduce_outputs(outputs, max) == {"loss": 4.0, "hits": 2.0}


def test_a_nan_is_neither_hidden_by_max_nor_by_min() -> None:
    outputs = [[{"x": 1.0}, 1], [{"x": float("nan")}, 1], [{"x": 2.0}, 1]]
    for how in (Reducer.MAX, Reducer.MIN):
        assert reduce_outputs(outputs, how)["x"] != reduce_outputs(outputs, how)["x"]


def test_metrics_of_batches_have_to_agree() -> None:
    with pytest.raises(TrialError, match="different metrics"):
        reduce_outputs([[{"a": 1.0}, 1], [{"b": 1.0}, 1]], Reducer.AVG)


def test_train_batch_returns_numbers() -> None:
    with pytest.raises(TrialError, match="train_batch returned str"):
        TrainingMetrics().add(0, "loss")


@pytest.mark.parametrize("value", ["1.0", [1.0, 2.0], None, {"a": 1}])
def test_what_is_not_a_number_is_named(value: object) -> None:
    with pytest.raises(MetricError, match="'top1'"):
        to_floats({"top1": value})


def test_differences_are_told_in_words() -> None:
    saved = {"torch": "2.8", "threads": 1, "ranks": 2, "optimizers": ["AdamW"]}
    now = {"torch": "2.13", "threads": 1, "ranks": 1, "optimizers": ["AdamW (fused)"]}
    assert differences(saved, now) == [
        "torch: was 2.8, now is 2.13",
        "ranks: was 2, now is 1",
        "optimizers: was AdamW, now is AdamW (fused)",
    ]


def test_asha_trains_to_its_longest_time() -> None:
    asha = {
        "name": "asha",
        "num_rungs": 2,
        "max_trials": 4,
        "time_metric": "epochs",
        "max_time": 9,
    }
    raw = {"name": "x", "entrypoint": "a:B", "reproducibility": {"experiment_seed": 1}}
    config = ExperimentConfig.model_validate({**raw, "searcher": asha})
    assert str(max_length(config)) == "9ep"
    with pytest.raises(ConfigError, match="how long"):
        max_length(ExperimentConfig.model_validate({**raw, "searcher": {"name": "single"}}))


def test_an_error_that_burst_explains_shows_the_users_frames_alone() -> None:
    import torch

    from burst.harness import DataLoader
    from burst.harness.traces import format_user_traceback

    def of_the_user() -> None:
        DataLoader(torch.zeros(0, 2), batch_size=4).training_source(seed=0, rank=0, ranks=1)

    with pytest.raises(BurstError) as raised:
        of_the_user()
    told = format_user_traceback(raised.value)
    assert "of_the_user" in told
    assert "harness/data" not in told


def test_a_defect_of_burst_shows_where_it_is() -> None:
    from burst.harness.traces import format_user_traceback

    with pytest.raises(TypeError) as raised:
        differences(None, {"a": 1})  # type: ignore[arg-type]
    assert "envelope.py" in format_user_traceback(raised.value)


def test_a_metric_on_an_accelerator_that_is_not_one_number_is_named_at_its_batch() -> None:
    metrics = TrainingMetrics()
    metrics.add(0, {"loss": torch.ones((), device="meta")})
    with pytest.raises(MetricError, match="'loss' is not one number but Tensor of shape"):
        metrics.add(1, {"loss": torch.ones(2, device="meta")})
