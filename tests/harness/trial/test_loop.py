from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import burst.harness
from burst.core.errors import BurstError, ConfigError, UsageError
from burst.core.model import Checkpoint, ExitKind
from burst.harness import Batch, Epoch, LRScheduler, PyTorchTrial, PyTorchTrialContext, Trainer
from burst.harness.errors import MetricError, TrialError
from burst.harness.trial.context import Setting
from burst.harness.trial.goal import Goal
from burst.harness.trial.lr_scheduler import StepMode
from tests.harness.trial.lab import HPARAMS, TRIAL, Counting, Lab, TinyTrial


def _events(lab: Lab, name: str) -> list[str]:
    return [event.text for event in lab.store.events().events if event.name == name]


class _Stops(TinyTrial):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 2:
            self.context.set_stop_requested(True)
        return super().train_batch(batch, epoch_idx, batch_idx)


def test_early_stopping_is_a_success_with_a_last_validation_and_checkpoint(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    outcome = lab.attempt(_Stops).outcome
    assert (outcome.kind, outcome.batches, outcome.durable) == (ExitKind.STOPPED, 3, True)
    assert [batches for batches, _ in lab.rows("validation")] == [3]
    assert [c.batches for c in lab.store.children(Checkpoint, TRIAL)] == [3]


class _StopsAtValidation(Counting):
    context: Any = None

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        self.context.set_stop_requested(True)


class _StopsByCallback(TinyTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.callback = _StopsAtValidation()
        self.callback.context = context


def test_a_callback_that_stops_at_a_validation_stops_there(tmp_path: Path) -> None:
    outcome = Lab(tmp_path).attempt(_StopsByCallback, validation_period=Batch(4)).outcome
    assert (outcome.kind, outcome.batches) == (ExitKind.STOPPED, 4)


class _Nan(TinyTrial):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        return metrics if batch_idx < 3 else {"loss": torch.tensor(float("nan"))}


def test_a_loss_that_is_not_a_number_is_told_once_and_training_goes_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.attempt(_Nan).outcome.kind is ExitKind.COMPLETED
    told = _events(lab, "trial.not_finite")
    assert told == ["the training metric 'loss' was not finite at batch 3; training goes on"]


class _Wordy(TinyTrial):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        return {"loss": torch.ones(2)}


def test_a_metric_that_is_not_one_number_is_named(tmp_path: Path) -> None:
    with pytest.raises(MetricError, match="'loss' is not one number but Tensor of shape"):
        Lab(tmp_path).attempt(_Wordy)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ({"\ud800": 1.0}, "a metric is called"),
        ({1: 1.0}, "a metric is called 1"),
        ({"": 1.0}, "a metric is called ''"),
        ({"loss": 10**400}, "'loss' is a number that is too large"),
        (10**400, "'loss' is a number that is too large"),
    ],
)
def test_a_metric_that_cannot_be_kept_is_named_at_its_batch(
    returned: Any, words: str, tmp_path: Path
) -> None:
    batches = []

    class Strange(TinyTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            batches.append(batch_idx)
            metrics = super().train_batch(batch, epoch_idx, batch_idx)
            return returned if batch_idx == 6 else metrics

    lab = Lab(tmp_path)
    with pytest.raises(TrialError, match=words):
        lab.attempt(Strange)
    assert batches[-1] == 6
    assert [batches for batches, _ in lab.rows("training")] == [5, 6]


def test_a_validation_metric_that_cannot_be_kept_is_named(tmp_path: Path) -> None:
    class Strange(TinyTrial):
        def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
            return {"\ud800": 1.0}

    with pytest.raises(TrialError, match="a metric is called"):
        Lab(tmp_path).attempt(Strange)


LENGTHS: list[Any] = [
    "",
    "x",
    "-1ba",
    "5",
    True,
    4.5,
    10**20,
    10**5000,
    -1,
    Batch(cast("int", 2.5)),
    Batch(cast("int", "3")),
    Batch(-1),
]
LENGTHS += [Epoch(float("nan")), Epoch(True), b"2h", object(), {"batches": 3}, [1, 2]]


@pytest.mark.parametrize("value", LENGTHS, ids=range(len(LENGTHS)))
@pytest.mark.parametrize(
    "argument", ["max_length", "validation_period", "checkpoint_period", "reporting_period"]
)
def test_a_length_that_is_none_is_refused_in_words(
    argument: str, value: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"`{argument}` is .* no length of training") as caught:
        Lab(tmp_path).attempt(**{argument: value})
    assert caught.value.why
    assert f"{argument}=Batch(500)" in caught.value.mend


@pytest.mark.parametrize(
    "value", [3, "3ba", Batch(3), Batch(cast("int", 3.0)), np.int64(3), Epoch(0.5)]
)
def test_a_length_may_be_written_in_any_way_that_is_one(value: Any, tmp_path: Path) -> None:
    assert Lab(tmp_path).attempt(max_length=value).outcome.batches == 3


class _Script:
    """A loop of its own and a trial class, each as it keeps its state in a folder."""

    @staticmethod
    def loop(folder: Path) -> None:
        with burst.harness.init(folder=folder) as context:
            context.checkpoint.restore()
            context.checkpoint.save({"n": 3}, batches=3)

    @staticmethod
    def trial(folder: Path) -> None:
        with burst.harness.pytorch_init(hparams=HPARAMS, folder=folder) as context:
            Trainer(TinyTrial(context), context).fit(max_length=Batch(1))


@pytest.mark.parametrize(
    ("first", "second"), [(_Script.loop, _Script.trial), (_Script.trial, _Script.loop)]
)
def test_a_folder_of_the_other_kind_of_script_is_told_with_what_to_do_there(
    first: Any, second: Any, tmp_path: Path
) -> None:
    first(tmp_path / "runs")
    with pytest.raises(BurstError, match="checkpoint") as caught:
        second(tmp_path / "runs")
    assert caught.value.mend.startswith("give another folder")
    first(tmp_path / "runs")


def test_metrics_are_reported_with_every_validation(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.attempt(validation_period=Batch(4), reporting_period=Batch(3))
    assert [batches for batches, _ in lab.rows("training")] == [3, 4, 6, 8, 9, 12]
    assert [batches for batches, _ in lab.rows("validation")] == [4, 8, 12]


@pytest.mark.parametrize(("policy", "count"), [("all", 3), ("none", 1)])
def test_the_policy_decides_which_validations_are_checkpointed(
    tmp_path: Path, policy: str, count: int
) -> None:
    lab = Lab(tmp_path)
    lab.attempt(validation_period=Batch(4), checkpoint_policy=policy)
    assert len(lab.store.children(Checkpoint, TRIAL)) == count


def test_a_missing_searcher_metric_is_told_or_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "a")
    lab.attempt(goal=Goal(metric="validation_los"))
    assert "did you mean validation_loss?" in _events(lab, "trial.metric_missing")[0]
    with pytest.raises(ConfigError, match="validation_los"):
        Lab(tmp_path / "b").attempt(goal=Goal(metric="validation_los", needed=True))


def test_a_changed_envelope_is_told_once_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    lab.attempt(leave_after=3)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    lab.attempt()
    (told,) = _events(lab, "trial.envelope")
    assert "CPU threads for each rank: was" in told
    assert "now is 77" in told


def test_a_checkpoint_of_another_model_is_refused_in_words(tmp_path: Path) -> None:
    class Wider(TinyTrial):
        def __init__(self, context: PyTorchTrialContext) -> None:
            super().__init__(context)
            self.model.add_module("0", torch.nn.Linear(6, 9))

    lab = Lab(tmp_path)
    lab.attempt(leave_after=3)
    with pytest.raises(TrialError, match=r"model 0 \(Sequential\) differs"):
        lab.attempt(Wider)


def test_callbacks_hear_of_epochs_once_across_a_drain(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.attempt(leave_after=6)
    assert lab.attempt().trial.callback.epochs == 2


def test_a_trial_says_what_it_lacks(tmp_path: Path) -> None:
    class Neither(TinyTrial):
        evaluate_batch = PyTorchTrial.evaluate_batch

    class Both(TinyTrial):
        def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
            return {}

    for trial, word in ((Neither, "neither"), (Both, "both")):
        with pytest.raises(TrialError, match=word):
            Lab(tmp_path / word).attempt(trial)


class _Full(TinyTrial):
    evaluate_batch = PyTorchTrial.evaluate_batch

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        rows = sum(len(x) for x, _ in data_loader)
        return {"rows": rows, "batches": len(data_loader)}


def test_a_full_evaluation_sees_every_row(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.attempt(_Full)
    assert lab.rows("validation")[-1][1] == {"rows": 9.0, "batches": 3.0}


def _context(**hparams: Any) -> PyTorchTrialContext:
    return PyTorchTrialContext(Setting(hparams=hparams))


def test_an_unknown_hyperparameter_names_the_nearest() -> None:
    context = _context(learning_rate=0.1, net={"width": 3})
    assert context.get_hparam("net.width") == 3
    with pytest.raises(ConfigError, match=r"did you mean learning_rate\?"):
        context.get_hparam("learnin_rate")


def test_an_optimizer_that_was_not_wrapped_is_told_apart() -> None:
    context = _context()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    with pytest.raises(BurstError, match="was not wrapped"):
        context.step_optimizer(optimizer)


@pytest.mark.parametrize("average", [True, False])
def test_gradients_are_averaged_then_clipped(average: bool) -> None:
    from burst.core.config.experiment import Optimizations

    settings = Optimizations(aggregation_frequency=2, average_aggregated_gradients=average)
    context = PyTorchTrialContext(Setting(optimizations=settings))
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = context.wrap_optimizer(torch.optim.SGD([weight], lr=1.0))
    seen: list[list[Any]] = []

    def clip(parameters: Any) -> None:
        seen.append([p.grad.item() for p in parameters])

    for gradient in (2.0, 4.0):
        context.backward((weight * gradient).sum())
        context.step_optimizer(optimizer, clip_grads=clip)
        context.batch += 1
    assert seen == [[3.0 if average else 6.0]]
    assert weight.item() == (-3.0 if average else -6.0)
    assert weight.grad is None


def test_a_step_that_the_scaler_skipped_is_no_step() -> None:
    context = _context()
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = context.wrap_optimizer(torch.optim.SGD([weight], lr=1.0))
    scaler = context.wrap_scaler(torch.amp.GradScaler("cpu", init_scale=4.0))
    wrapped = context.optimizers.find(optimizer)
    for gradient, steps in ((float("inf"), 0), (1.0, 1)):
        loss: Any = scaler.scale((weight * gradient).sum())
        loss.backward()
        context.step_optimizer(optimizer, clip_grads=list, scaler=scaler)
        scaler.update()
        assert wrapped.steps == steps
    assert weight.item() == -1.0


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
@pytest.mark.parametrize(
    ("mode", "frequency", "expected"),
    [
        (LRScheduler.StepMode.STEP_EVERY_EPOCH, 1, 2),
        (LRScheduler.StepMode.STEP_EVERY_EPOCH, 2, 1),
        (LRScheduler.StepMode.STEP_EVERY_BATCH, 1, 12),
        (LRScheduler.StepMode.STEP_EVERY_BATCH, 5, 2),
        (LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP, 1, 6),
        (LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP, 4, 1),
        (LRScheduler.StepMode.MANUAL_STEP, 1, 0),
    ],
)
def test_schedulers_step_when_they_say(
    tmp_path: Path, mode: StepMode, frequency: int, expected: int
) -> None:
    class Stepping(TinyTrial):
        def __init__(self, context: PyTorchTrialContext) -> None:
            super().__init__(context)
            context.schedulers.clear()
            self.steps = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda n: 1.0)
            context.wrap_lr_scheduler(self.steps, mode, frequency)

    result = Lab(tmp_path).attempt(Stepping, max_length=Epoch(2), frequency=2)
    assert result.trial.steps.last_epoch == expected
