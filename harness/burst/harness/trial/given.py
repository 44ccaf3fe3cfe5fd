"""What a trial hands over to its context, seen to at once: what is wrong fails where it is
written, and not batches later inside of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from burst.harness.errors import TrialError
from burst.harness.values import fault_of_name


def instance(value: Any, kind: type, takes: str, mend: str) -> None:
    """
    Args:
        takes: what takes it, and what that is: "`wrap_model` takes a torch.nn.Module".
        mend: how it is called.

    Raises:
        TrialError: if `value` is not an instance of `kind`.
    """
    if not isinstance(value, kind):
        raise refusal(value, takes, mend)


def refusal(value: Any, what: str, mend: str) -> TrialError:
    """That `value` is none of what it should be."""
    if isinstance(value, type):
        why = f"it is the class {value.__name__}, and not an instance of it"
    else:
        why = f"it is {repr(value).splitlines()[0]:.60}"
    return TrialError(f"{what}, and got {_a(type(value).__name__)}", why=why, mend=mend)


def scheduler(value: Any) -> None:
    """
    Raises:
        TrialError: if it is no learning-rate scheduler, torch's or one that is like them.
    """
    like = all(hasattr(value, name) for name in ("optimizer", "step", "state_dict"))
    if not like or isinstance(value, type):
        raise refusal(
            value,
            "`wrap_lr_scheduler` takes a scheduler of torch.optim.lr_scheduler",
            "make it of a wrapped optimizer: "
            "context.wrap_lr_scheduler(StepLR(self.optimizer, 10), step_mode)",
        )


def reducer(value: Any, name: Any) -> None:
    """
    Raises:
        TrialError: if it cannot reduce, or its metric's name is none.
    """
    mend = 'context.wrap_reducer(F1(), name="f1"), or a function of all values, such as max'
    if isinstance(value, type) or not (callable(value) or hasattr(value, "cross_slot_reduce")):
        raise refusal(value, "`wrap_reducer` takes a MetricReducer or a function", mend)
    if name is not None and not isinstance(name, str):
        raise refusal(name, "the `name` of a reducer's metric is a string", mend)
    if name and (why := fault_of_name(name)):
        raise TrialError(f"the `name` of a reducer's metric is {name!r:.60}", why=why, mend=mend)


def at_least_one(argument: str, value: Any) -> None:
    """
    Raises:
        TrialError: if it is no whole number from 1 on.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TrialError(
            f"`{argument}` is {value!r:.60}",
            why="it counts, from 1 on",
            mend=f"leave it out, or write a whole number, such as {argument}=2",
        )


def batch_size(name: str, value: Any) -> int:
    """The size that a hyperparameter says.

    Raises:
        TrialError: if it says none.
    """
    try:
        size = int(value)
        whole = size == float(value) and not isinstance(value, bool)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or size < 1:
        raise TrialError(
            f"the hyperparameter `{name}` is {value!r:.60}, which is no batch size",
            why="a batch has a whole number of records, one or more",
            mend=f"write a number under `hyperparameters`, such as {name}: 64",
        )
    return size


def loss(value: Any) -> None:
    """
    Raises:
        TrialError: if it is nothing to call `backward` of.
    """
    if not isinstance(value, torch.Tensor):
        mend = "give it the tensor that is to become small: context.backward(loss)"
        if isinstance(value, Mapping):
            mend = "give it one tensor of these, or their sum: context.backward(losses[...])"
        raise refusal(value, "`backward` takes a tensor", mend)


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
