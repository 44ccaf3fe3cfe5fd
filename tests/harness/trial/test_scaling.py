"""The loss scale of fp16: kept with the trial, reported, and held at a floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from burst.core.config.experiment import Optimizations
from burst.harness import Batch, PyTorchTrialContext
from burst.harness.trial.context import Setting
from burst.harness.trial.scaling import Limits, Notice, ScaleGuard, follow
from tests.harness.trial.lab import Lab, TinyTrial

pytestmark = pytest.mark.filterwarnings(  # steps are skipped here from the first one on
    "ignore:Detected call of `lr_scheduler.step:UserWarning"
)
OVERFLOWS, FINE = True, False
INTERVAL = 3
"""Batches without overflow until a scale grows."""


def run(outcomes: list[bool], limits: Limits, start: float) -> list[tuple[float, Notice | None]]:
    """What a scaler like torch's does, batch by batch, and what is told of it."""
    scale, tracker, seen = start, 0, None
    seen, _ = follow(None, scale, 0, limits)
    steps = []
    for batch, overflows in enumerate(outcomes):
        tracker = 0 if overflows else tracker + 1
        if overflows:
            scale /= 2
        elif tracker == INTERVAL:
            scale, tracker = 2 * scale, 0
        seen, notice = follow(seen, scale, batch, limits)
        scale = seen.scale
        steps.append((scale, notice))
    return steps


_outcomes = st.lists(st.booleans(), max_size=60)
_limits = st.builds(
    Limits,
    floor=st.none() | st.sampled_from([0.25, 1.0, 8.0]),
    patience=st.integers(1, 12),
)
_start = st.sampled_from([0.5, 1.0, 4.0, 2.0**16])


@given(_outcomes, _limits, _start)
def test_a_scale_that_began_above_the_floor_stays_there(
    outcomes: list[bool], limits: Limits, start: float
) -> None:
    steps = run(outcomes, limits, start)
    if limits.floor is not None and start >= limits.floor:
        assert all(scale >= limits.floor for scale, _ in steps)


@given(_outcomes, _limits, _start)
def test_above_the_floor_a_scale_is_what_torch_makes_of_it(
    outcomes: list[bool], limits: Limits, start: float
) -> None:
    alone = run(outcomes, Limits(floor=None, patience=1000), start)
    kept = run(outcomes, limits, start)
    for (scale, _), (own, _) in zip(alone, kept, strict=True):
        if limits.floor is not None and scale < limits.floor:
            break
        assert own == scale


@given(_outcomes, _limits, _start)
def test_each_collapse_is_told_once_and_by_its_first_batch(
    outcomes: list[bool], limits: Limits, start: float
) -> None:
    steps = run(outcomes, limits, start)
    told_since_growth = False
    for batch, (scale, notice) in enumerate(steps):
        before = steps[batch - 1][0] if batch else start
        if scale > before:
            told_since_growth = False
        if notice is None:
            continue
        assert not told_since_growth
        told_since_growth = True
        assert outcomes[notice.since : batch + 1] == [OVERFLOWS] * (batch + 1 - notice.since)
        assert notice.since == 0 or outcomes[notice.since - 1] is FINE
        assert notice.falls == batch + 1 - notice.since
        assert notice.falls >= limits.patience or notice.scale == limits.floor


@given(st.integers(1, 12), st.integers(0, 20))
def test_an_endless_collapse_is_told_when_patience_ends(patience: int, fine: int) -> None:
    limits = Limits(floor=None, patience=patience)
    steps = run([FINE] * fine + [OVERFLOWS] * 20, limits, 2.0**16)
    (notice,) = (found for _, found in steps if found is not None)
    assert (notice.since, notice.falls) == (fine, patience)


def test_a_scaler_of_torch_is_put_back_to_the_floor_and_grows_again() -> None:
    scaler, guard = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2), ScaleGuard()
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    told, scales = [], []
    for batch, factor in enumerate([float("inf")] * 4 + [1.0] * 5):
        optimizer.zero_grad()
        loss: Any = scaler.scale((weight * factor).sum())
        loss.backward()
        scaler.step(optimizer)
        scaler.update()
        told += [notice] if (notice := guard.observe(scaler, batch)) else []
        scales.append(scaler.get_scale())
    assert scales == [2.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    (notice,) = told
    assert (notice.since, notice.before, notice.scale) == (1, 2.0, 1.0)
    assert "from 2 to 1, below which it does not fall, since batch 1" in notice.text


def test_a_scaler_that_is_switched_off_is_left_alone() -> None:
    assert ScaleGuard().observe(torch.amp.GradScaler("cpu", enabled=False), 0) is None


# --- in a trial --------------------------------------------------------------------------------


class Half(TinyTrial):
    """Trained in float16, with a scale that grows at every second batch."""

    scaler: Any
    at = frozenset[int]()
    """Batches whose gradients overflow."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        context.experimental.use_amp(torch.float16)
        self.scaler = context.experimental.scaler
        self.scaler.set_growth_interval(2)

    def net(self) -> nn.Module:
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        loss = (self.model(x).float() - y).square().mean() / 1000
        self.context.backward(loss * (float("inf") if batch_idx in self.at else 1.0))
        self.context.step_optimizer(self.optimizer)
        self.largest.update(1.0)
        return {"loss": loss}


class Collapsing(Half):
    at = frozenset(range(2, 40))


class Bumpy(Half):
    at = frozenset({1, 6})


class NeverFine(Half):
    at = frozenset(range(40))


def test_a_scale_is_a_metric_of_training(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.attempt(Bumpy, frequency=1, reporting_period=Batch(2), max_length=Batch(8))
    found = [row["grad_scale"] for _, row in lab.rows("training")]
    assert found == [2.0**15, 2.0**16, 2.0**17, 2.0**16]
    other = Lab(tmp_path / "other")
    other.attempt(max_length=Batch(4))
    assert all("grad_scale" not in row for _, row in other.rows("training"))


def test_a_collapse_is_an_event_and_the_scale_stays(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    ended = lab.attempt(Collapsing, frequency=1, max_length=Batch(30))
    assert ended.trial.scaler.get_scale() == 1.0
    (event,) = (e for e in lab.store.events().events if e.name == "trial.grad_scale")
    assert (event.data["since"], event.data["scale"]) == (2, 2.0**7)
    assert ended.context.optimizers.find(ended.trial.optimizer).steps == 2


def test_a_collapse_that_begins_with_training_is_told_from_its_first_batch(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.attempt(NeverFine, frequency=2, max_length=Batch(20))
    (event,) = (e for e in lab.store.events().events if e.name == "trial.grad_scale")
    assert (event.data["since"], event.data["scale"]) == (1, 2.0**6)


def test_a_scale_may_fall_where_the_trial_says_so(tmp_path: Path) -> None:
    class Falling(Collapsing):
        def __init__(self, context: PyTorchTrialContext) -> None:
            TinyTrial.__init__(self, context)
            context.experimental.use_amp(torch.float16, least_scale=None)
            self.scaler = context.experimental.scaler

    ended = Lab(tmp_path).attempt(Falling, frequency=1, max_length=Batch(30))
    assert ended.trial.scaler.get_scale() == 2.0 ** (16 - 28)


@pytest.mark.parametrize("frequency", [1, 2])
@pytest.mark.parametrize("kind", [Bumpy, Collapsing])
def test_a_run_that_is_interrupted_has_the_scale_and_its_growth_of_one_that_was_not(
    kind: type[Half], frequency: int, tmp_path: Path
) -> None:
    def scaler(result: Any) -> dict[str, Any]:
        state: dict[str, Any] = result.trial.scaler.state_dict()
        return state

    length: dict[str, Any] = {"frequency": frequency, "max_length": Batch(12)}
    whole = Lab(tmp_path / "whole").attempt(kind, **length)
    cut = Lab(tmp_path / "cut")
    trackers = set()
    for stop in (1, 4, 5, 7, 10):
        state = scaler(cut.attempt(kind, leave_after=stop, **length))
        trackers.add(state["_growth_tracker"])
    ended = cut.attempt(kind, **length)
    assert scaler(ended) == scaler(whole)
    assert ended.state == whole.state
    assert kind is Collapsing or trackers == {0, 1}


def test_scalers_of_an_experiment_file_are_watched(tmp_path: Path) -> None:
    setting = Setting(optimizations=Optimizations(mixed_precision="fp16"))
    context = PyTorchTrialContext(setting)
    assert context.scales() == {"grad_scale": 2.0**16}
