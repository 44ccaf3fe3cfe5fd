"""What a trial hands over wrongly is refused where it is written, in words that help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

from burst.core.errors import BurstError
from burst.harness import LRScheduler, MetricReducer, PyTorchTrialContext
from burst.harness.trial.context import Setting

BATCH = LRScheduler.StepMode.STEP_EVERY_BATCH


class Bench:
    """A context with a model and an optimizer."""

    def __init__(self, **hparams: Any) -> None:
        self.context: Any = PyTorchTrialContext(Setting(hparams=hparams or {"lr": 0.1}))
        self.model = self.context.wrap_model(nn.Linear(2, 1))
        self.optimizer = self.context.wrap_optimizer(self.sgd())

    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, **arguments: Any) -> None:
        self.context.backward(self.model(torch.ones(1, 2)).sum())
        self.context.step_optimizer(self.optimizer, **arguments)


WRONG: dict[str, tuple[Callable[[Bench], Any], str]] = {
    "a model by its name": (
        lambda b: b.context.wrap_model("x"),
        "`wrap_model` takes a torch.nn.Module, and got a str",
    ),
    "the class of a model": (
        lambda b: b.context.wrap_model(nn.Linear),
        "`wrap_model` takes a torch.nn.Module, and got a type",
    ),
    "a model again": (lambda b: b.context.wrap_model(b.model), "this Linear is wrapped already"),
    "a function for an optimizer": (
        lambda b: b.context.wrap_optimizer(lambda: None),
        "`wrap_optimizer` takes a torch.optim.Optimizer, and got a function",
    ),
    "the class of an optimizer": (
        lambda b: b.context.wrap_optimizer(torch.optim.SGD),
        "`wrap_optimizer` takes a torch.optim.Optimizer, and got a type",
    ),
    "an optimizer again": (
        lambda b: b.context.wrap_optimizer(b.optimizer),
        "this SGD is wrapped already",
    ),
    "passes as text": (
        lambda b: b.context.wrap_optimizer(b.sgd(), "2"),
        "`backward_passes_per_step` is '2'",
    ),
    "no passes": (
        lambda b: b.context.wrap_optimizer(b.sgd(), 0),
        "`backward_passes_per_step` is 0",
    ),
    "a scheduler by its name": (
        lambda b: b.context.wrap_lr_scheduler("x", BATCH),
        "takes a scheduler of torch.optim.lr_scheduler, and got a str",
    ),
    "the class of a scheduler": (
        lambda b: b.context.wrap_lr_scheduler(StepLR, BATCH),
        "takes a scheduler of torch.optim.lr_scheduler, and got a type",
    ),
    "a mode by its name": (
        lambda b: b.context.wrap_lr_scheduler(StepLR(b.optimizer, 1), "batch"),
        "'batch' is not a step mode",
    ),
    "a frequency as text": (
        lambda b: b.context.wrap_lr_scheduler(StepLR(b.optimizer, 1), BATCH, "x"),
        "cannot step every 'x' times",
    ),
    "no frequency": (
        lambda b: b.context.wrap_lr_scheduler(StepLR(b.optimizer, 1), BATCH, 0),
        "cannot step every 0 times",
    ),
    "a scheduler of another optimizer": (
        lambda b: b.context.wrap_lr_scheduler(StepLR(b.sgd(), 1), BATCH),
        "this SGD was not wrapped",
    ),
    "a scaler by its name": (
        lambda b: b.context.wrap_scaler("x"),
        "`wrap_scaler` takes a torch.amp.GradScaler, and got a str",
    ),
    "a number for a reducer": (
        lambda b: b.context.wrap_reducer(3),
        "`wrap_reducer` takes a MetricReducer or a function, and got an int",
    ),
    "the class of a reducer": (
        lambda b: b.context.wrap_reducer(MetricReducer),
        "`wrap_reducer` takes a MetricReducer or a function, and got a type",
    ),
    "a number for a metric": (
        lambda b: b.context.wrap_reducer(max, name=3),
        "`name` of a reducer's metric is a string, and got an int",
    ),
    "half a character for a metric": (
        lambda b: b.context.wrap_reducer(max, name="f1\ud800"),
        "the `name` of a reducer's metric is",
    ),
    "a tokenizer by its name": (lambda b: b.context.register_tokenizer("x"), "is no tokenizer"),
    "a number for a loss": (
        lambda b: b.context.backward(0.5),
        "`backward` takes a tensor, and got a float",
    ),
    "a dict for a loss": (
        lambda b: b.context.backward({"loss": torch.ones(1)}),
        "`backward` takes a tensor, and got a dict",
    ),
    "a step of nothing": (lambda b: b.context.step_optimizer("x"), "this str was not wrapped"),
    "a number for clipping": (
        lambda b: b.step(clip_grads=1.0),
        "`clip_grads` is a function of the parameters, and got a float",
    ),
    "no scaler for a step": (
        lambda b: b.step(scaler="x"),
        "`scaler` is a torch.amp.GradScaler, and got a str",
    ),
    "no model for autocast": (
        lambda b: b.context.autocast_forward_pass("x"),
        "`autocast_forward_pass` takes a torch.nn.Module, and got a str",
    ),
    "a dtype by its name": (
        lambda b: b.context.experimental.use_amp("bf16"),
        "`use_amp` takes a torch.dtype, and got a str",
    ),
    "a number for a name": (
        lambda b: b.context.get_hparam(3),
        "a hyperparameter's name is a string, and 3 is none",
    ),
}


@pytest.mark.parametrize(("call", "what"), WRONG.values(), ids=WRONG)
def test_what_is_handed_over_wrongly_is_refused_with_why_and_mend(
    call: Callable[[Bench], Any], what: str
) -> None:
    bench = Bench()
    with pytest.raises(BurstError) as caught:
        call(bench)
    assert what in caught.value.what
    assert caught.value.why
    assert caught.value.mend
    assert len(bench.context.models) == len(bench.context.optimizers) == 1
    assert bench.context.schedulers == bench.context.scalers == bench.context.reducers == []


@pytest.mark.parametrize("size", ["x", None, 2.5, 0, -1, True, [16], float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["global_batch_size", "batch_size"])
def test_a_batch_size_that_is_none_is_refused(name: str, size: Any) -> None:
    context = Bench(**{name: size}).context
    for ask in (context.get_global_batch_size, context.get_per_slot_batch_size):
        with pytest.raises(BurstError, match=f"`{name}` is .* which is no batch size") as caught:
            ask()
        assert name in caught.value.mend


@pytest.mark.parametrize("size", [16, 16.0, "16"])
def test_a_batch_size_may_be_written_in_any_way_that_is_whole(size: Any) -> None:
    assert Bench(global_batch_size=size).context.get_global_batch_size() == 16


def test_what_is_like_a_scheduler_and_a_reducer_is_taken() -> None:
    bench = Bench()

    class Own:
        optimizer = bench.optimizer

        def step(self) -> None: ...

        def state_dict(self) -> dict[str, Any]:
            return {}

    bench.context.wrap_lr_scheduler(Own(), BATCH)
    bench.context.wrap_reducer(max, name="largest")
    bench.step(clip_grads=lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0))
