"""Trials that are made otherwise than their checkpoints: told in the trial's words, in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burst.core.model import ExitKind
from burst.harness import Batch, PyTorchCallback, PyTorchTrialContext
from burst.harness.errors import TrialError
from burst.harness.trial.growth import Growth
from burst.harness.trial.structure import Structure, differences, misfit, structure_of
from tests.harness.trial.lab import Lab, TinyTrial

BEFORE = Structure(
    ({"0.weight": (8, 6), "0.bias": (8,), "_extra_state": None},),
    ((2,),),
    (("Sequential",), ("AdamW",)),
)
ONE, OTHER = BEFORE.models[0], {"w": (3,), "n": ()}
GROUPS = "what training itself had added or removed"
CODE = "put the code and the hyperparameters back"

TABLE: list[tuple[str, Structure, list[str], str]] = [
    (
        "a tensor more",
        replace(BEFORE, models=({**ONE, "head.weight": (1, 8)},)),
        ["model 0 (Sequential) has 1 tensor (head.weight) that the checkpoint does not have"],
        GROUPS,
    ),
    (
        "a tensor less",
        replace(BEFORE, models=({"0.weight": (8, 6), "_extra_state": None},)),
        ["model 0 (Sequential) lacks 1 tensor (0.bias) of the checkpoint"],
        GROUPS,
    ),
    (
        "another shape",
        replace(BEFORE, models=({**ONE, "0.weight": (9, 6)},)),
        ["model 0 (Sequential) has 1 tensor (0.weight: 9×6, and 8×6 before) of another shape"],
        CODE,
    ),
    (
        "many tensors more",
        replace(BEFORE, models=({**ONE, **{f"l{n}": (1,) for n in range(9)}},)),
        ["has 9 tensors (l0, l1, l2, l3, l4, l5 and 3 more) that the checkpoint does not"],
        GROUPS,
    ),
    (
        "a model more",
        replace(BEFORE, models=(ONE, OTHER), classes=(("Sequential", "Net"), ("AdamW",))),
        ["the trial has model 1 (Net) with 2 tensors (w, n), and the checkpoint has none"],
        GROUPS,
    ),
    (
        "a model less",
        replace(BEFORE, models=()),
        ["the checkpoint has model 0 (Sequential) with 3 tensors (0.weight, 0.bias, "],
        GROUPS,
    ),
    (
        "a group more",
        replace(BEFORE, optimizers=((2, 4),)),
        ["optimizer 0 (AdamW) has 2 groups of 2 and 4 parameters in the trial, and 1 group of 2"],
        GROUPS,
    ),
    (
        "a group of another size",
        replace(BEFORE, optimizers=((3,),)),
        ["has 1 group of 3 parameters in the trial, and 1 group of 2 parameters in"],
        GROUPS,
    ),
    (
        "an optimizer more",
        replace(BEFORE, optimizers=((2,), (1,))),
        ["the trial has optimizer 1, and the checkpoint has none"],
        GROUPS,
    ),
    (
        "an optimizer less",
        replace(BEFORE, optimizers=()),
        ["the checkpoint has optimizer 0 (AdamW), and the trial has none"],
        GROUPS,
    ),
    (
        "a layer and its group",
        replace(BEFORE, models=({**ONE, "1.bias": (1,)},), optimizers=((2, 1),)),
        ["model 0 (Sequential) has 1 tensor (1.bias)", "optimizer 0 (AdamW) has 2 groups"],
        GROUPS,
    ),
]


@pytest.mark.parametrize(("now", "lines", "mend"), [row[1:] for row in TABLE],
                         ids=[row[0] for row in TABLE])  # fmt: skip
def test_what_differs_is_named_with_what_to_do(
    now: Structure, lines: list[str], mend: str
) -> None:
    error = misfit(differences(BEFORE, now))
    told = error.why.split("; ")
    assert len(told) == len(lines)
    assert all(words in line for words, line in zip(lines, told, strict=True))
    assert error.what.startswith("the checkpoint does not fit what the trial makes: ")
    assert mend in error.mend
    assert "burst run --from" in error.mend


@pytest.mark.parametrize(
    "now",
    [
        BEFORE,
        replace(BEFORE, models=({**ONE, "0.bias": None},)),
        replace(BEFORE, optimizers=(None,)),
        replace(BEFORE, models=({name: ONE[name] for name in sorted(ONE)},)),
    ],
    ids=["the same", "a lazy parameter", "an optimizer without groups", "another order"],
)
def test_what_fits_is_no_difference(now: Structure) -> None:
    assert differences(BEFORE, now) == []


def test_structures_are_read_from_live_parts_and_saved_ones_alike() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.LazyLinear(4), nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD([*model[0].parameters()], lr=0.1)
    live = structure_of([model.state_dict()], [optimizer])
    assert live == structure_of([model.state_dict()], [optimizer.state_dict()])
    assert live.models[0]["0.weight"] == (3, 2)
    assert live.models[0]["1.weight"] is None
    assert live.optimizers == ((2,),)


def test_growth_is_told_once_for_each_structure() -> None:
    growth = Growth(made_again=False)
    grown = {**ONE, "head.weight": (1, 8)}
    tensors = {name: torch.zeros(shape or ()) for name, shape in grown.items()}
    first = {name: value for name, value in tensors.items() if name in ONE}
    groups = [{"param_groups": [{"params": [0, 1]}]}]
    growth.begin(replace(structure_of([first], groups), classes=BEFORE.classes))
    assert growth.news([first], groups) == ""
    text = growth.news([tensors], groups)
    assert "model 0 (Sequential) has 1 tensor (head.weight) that `__init__` does not have" in text
    assert "on_checkpoint_load_start" in text
    assert growth.news([tensors], groups) == ""
    assert growth.news([first], groups) == ""
    more = [{"param_groups": [{"params": [0, 1]}, {"params": [2]}]}]
    assert "optimizer 0 (AdamW) has 2 groups" in growth.news([tensors], more)


class Adding(TinyTrial):
    """Has a layer more from its fourth batch on, and gives it to the optimizer."""

    def add(self) -> None:
        late = nn.Linear(1, 1)
        self.model.add_module("late", late)
        self.optimizer.add_param_group({"params": list(late.parameters())})

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 3:
            self.add()
        return super().train_batch(batch, epoch_idx, batch_idx)


class _Again(PyTorchCallback):
    def __init__(self, trial: Remaking) -> None:
        self.trial = trial

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        if "late.weight" in checkpoint["models"][0]:
            self.trial.add()


class Remaking(Adding):
    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {**super().build_callbacks(), "again": _Again(self)}


class Unwrapping(TinyTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        other = context.wrap_model(nn.Linear(1, 1))
        context.wrap_optimizer(torch.optim.SGD(other.parameters(), lr=0.1))


def _warnings(lab: Lab) -> list[str]:
    return [event.text for event in lab.store.events().events if event.name == "trial.structure"]


def test_a_layer_added_while_training_is_told_at_the_first_save_and_named_at_the_restore(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    lab.attempt(Adding, leave_after=5, checkpoint_period=Batch(1))
    (text,) = _warnings(lab)
    assert "model 0 (Sequential) has 2 tensors (late.weight, late.bias) that `__init__`" in text
    assert "optimizer 0 (AdamW) has 2 groups of 6 and 2 parameters" in text
    with pytest.raises(TrialError) as caught:
        lab.attempt(Adding)
    assert caught.value.what.endswith("model 0 (Sequential) and optimizer 0 (AdamW) differ")
    lacks = "model 0 (Sequential) lacks 2 tensors (late.weight, late.bias) of the checkpoint"
    assert lacks in caught.value.why
    assert "on_checkpoint_load_start" in caught.value.mend


def test_a_trial_that_makes_its_layer_again_goes_on_exactly_and_is_not_warned(
    tmp_path: Path,
) -> None:
    lab, whole = Lab(tmp_path / "a"), Lab(tmp_path / "b")
    lab.attempt(Remaking, leave_after=5)
    result = lab.attempt(Remaking)
    assert result.outcome.kind is ExitKind.COMPLETED
    assert result.state == whole.attempt(Remaking).state
    assert _warnings(lab) == []


def test_a_trial_that_stays_as_it_was_made_is_not_warned(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.attempt(leave_after=5, checkpoint_period=Batch(1))
    lab.attempt(checkpoint_period=Batch(1))
    assert _warnings(lab) == []


@pytest.mark.parametrize(
    ("first", "then", "line"),
    [
        (Unwrapping, TinyTrial, "the checkpoint has model 1 with 2 tensors (weight, bias)"),
        (TinyTrial, Unwrapping, "the trial has model 1 (Linear) with 2 tensors (weight, bias)"),
    ],
)
def test_another_number_of_models_and_optimizers_is_told_in_one_error(
    tmp_path: Path, first: Any, then: Any, line: str
) -> None:
    lab = Lab(tmp_path)
    lab.attempt(first, leave_after=3)
    with pytest.raises(TrialError) as caught:
        lab.attempt(then)
    assert line in caught.value.why
    assert "optimizer 1" in caught.value.why
