from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.core.model import ExitKind
from burst.harness import Batch, PyTorchCallback, PyTorchTrialContext
from tests.harness.trial.lab import EPOCH, Lab, Result, TinyTrial

LENGTH = 2 * EPOCH


def _train(folder: Path, leave_after: tuple[int, ...], **kwargs: Any) -> tuple[Lab, Result]:
    lab = Lab(folder)
    for batch in leave_after:
        result = lab.attempt(leave_after=batch, **kwargs)
        assert result.outcome.kind is ExitKind.DRAINED
        assert result.outcome.batches == batch
        assert result.outcome.durable
    return lab, lab.attempt(**kwargs)


def _same(one: tuple[Lab, Result], other: tuple[Lab, Result]) -> None:
    assert one[1].outcome.kind is ExitKind.COMPLETED
    assert one[1].state == other[1].state
    for group in ("training", "validation"):
        assert one[0].rows(group) == other[0].rows(group)


def test_an_uninterrupted_run_is_the_same_twice(tmp_path: Path) -> None:
    _same(_train(tmp_path / "a", ()), _train(tmp_path / "b", ()))


@pytest.mark.parametrize("batch", range(1, LENGTH))
def test_a_run_drained_at_any_batch_ends_as_if_it_never_was(tmp_path: Path, batch: int) -> None:
    _same(_train(tmp_path / "a", (batch,)), _train(tmp_path / "b", ()))


def test_a_run_drained_many_times_ends_as_if_it_never_was(tmp_path: Path) -> None:
    _same(_train(tmp_path / "a", (1, 3, 4, 8, 11)), _train(tmp_path / "b", ()))


def test_loader_workers_change_nothing(tmp_path: Path) -> None:
    workers = {"hparams": {"workers": 2}}
    _same(_train(tmp_path / "a", (5,), **workers), _train(tmp_path / "b", ()))


@pytest.mark.parametrize("frequency", [1, 3])
def test_accumulation_survives_a_drain_in_its_middle(tmp_path: Path, frequency: int) -> None:
    _same(
        _train(tmp_path / "a", (4, 8), frequency=frequency),
        _train(tmp_path / "b", (), frequency=frequency),
    )


@pytest.mark.parametrize(
    "part",
    [
        "burst.harness.trial.keeper.rng.restore",
        "burst.harness.trial.optimizer_state.restore",
        "burst.harness.trial.state.TrialState.load_own",
    ],
)
def test_leaving_out_any_part_of_the_state_is_noticed(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: were the comparison blind, the tests above would prove nothing."""
    uninterrupted = _train(tmp_path / "b", ())
    monkeypatch.setattr(part, lambda *_, **__: [])
    resumed = _train(tmp_path / "a", (5,))
    with pytest.raises(AssertionError):
        _same(resumed, uninterrupted)


class _Sparse(TinyTrial):
    """An embedding of each batch's rows, whose gradients are sparse."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        import torch

        self.embedding = context.wrap_model(torch.nn.Embedding(8, 3, sparse=True))
        self.steps = context.wrap_optimizer(torch.optim.SGD(self.embedding.parameters(), lr=0.1))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        import torch

        rows = torch.tensor([batch_idx % 8, 3, 3])
        self.context.backward(self.embedding(rows).square().sum() * (1 + batch_idx))
        self.context.step_optimizer(self.steps)
        return super().train_batch(batch, epoch_idx, batch_idx)


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_sparse_gradients_survive_a_drain_in_the_middle_of_their_sum(
    tmp_path: Path, batch: int
) -> None:
    lab = Lab(tmp_path / "a")
    assert lab.attempt(_Sparse, leave_after=batch, frequency=3).outcome.durable
    _same(
        (lab, lab.attempt(_Sparse, frequency=3)),
        (other := Lab(tmp_path / "b"), other.attempt(_Sparse, frequency=3)),
    )


class Killed(Exception):
    """Stands for SIGKILL: nothing that the loop would do on its way out may matter."""


class _Dies(TinyTrial):
    at = 0

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == self.at:
            raise Killed
        return super().train_batch(batch, epoch_idx, batch_idx)


@pytest.mark.parametrize("batch", [2, 5, 6, 9])
def test_a_run_killed_between_checkpoints_ends_as_if_it_never_was(
    tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    often: dict[str, Any] = {"checkpoint_period": Batch(4)}
    lab = Lab(tmp_path / "a")
    monkeypatch.setattr(_Dies, "at", batch)
    with pytest.raises(Killed):
        lab.attempt(_Dies, **often)
    _same((lab, lab.attempt(**often)), _train(tmp_path / "b", (), **often))


class _StopsItself(PyTorchCallback):
    dies = False

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        self.context.set_stop_requested(True)

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        if self.dies:
            raise Killed


class _Stopping(TinyTrial):
    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {"stop": _StopsItself(self.context)}


def test_a_stop_asked_for_by_a_validation_holds_if_the_process_dies_before_it_acts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = Lab(tmp_path / "b").attempt(_Stopping, validation_period=Batch(5))
    assert undisturbed.outcome.kind is ExitKind.STOPPED
    lab = Lab(tmp_path / "a")
    monkeypatch.setattr(_StopsItself, "dies", True)
    with pytest.raises(Killed):
        lab.attempt(_Stopping, validation_period=Batch(5))
    monkeypatch.setattr(_StopsItself, "dies", False)
    resumed = lab.attempt(_Stopping, validation_period=Batch(5))
    assert resumed.outcome == undisturbed.outcome
    assert resumed.state == undisturbed.state


def test_checkpoints_and_validations_do_not_change_training(tmp_path: Path) -> None:
    often = Lab(tmp_path / "a").attempt(checkpoint_period=Batch(1), validation_period=Batch(1))
    never = Lab(tmp_path / "b").attempt(validation_period=None)
    assert often.state == never.state


def test_float32_moments_of_bfloat16_parameters_survive(tmp_path: Path) -> None:
    import torch

    class Half(TinyTrial):
        def __init__(self, context: PyTorchTrialContext) -> None:
            super().__init__(context)
            for parameter in self.model.parameters():
                self.optimizer.state[parameter] = {
                    "step": torch.tensor(1.0),
                    "exp_avg": torch.full_like(parameter, 0.123456789, dtype=torch.float32),
                    "exp_avg_sq": torch.zeros_like(parameter, dtype=torch.float32),
                }
                parameter.data = parameter.data.bfloat16()

    from burst.harness.trial import optimizer_state

    result = Lab(tmp_path).attempt(max_length=Batch(1), frequency=2)
    trial = Half(PyTorchTrialContext(result.context.setting))
    saved = optimizer_state.capture(trial.optimizer)
    before = {k: dict(v) for k, v in saved["state"].items()}
    optimizer_state.restore(trial.optimizer, saved)
    after = optimizer_state.capture(trial.optimizer)["state"]
    for number, values in before.items():
        assert after[number]["exp_avg"].dtype is torch.float32
        assert torch.equal(after[number]["exp_avg"], values["exp_avg"])


def test_a_finished_trial_that_starts_again_has_nothing_to_do(tmp_path: Path) -> None:
    lab, first = _train(tmp_path, ())
    rows = lab.rows("validation")
    again = lab.attempt()
    assert again.outcome == first.outcome
    assert lab.rows("validation") == rows
