"""An optimizer's state taken out and put back exactly.

`Optimizer.load_state_dict` casts floating-point state to the dtype of its parameter, which rounds
float32 moments of a bfloat16 parameter. So state is put back by hand, with the dtype it was saved
with, and placed as torch places it: a `step` counter stays on the CPU unless the optimizer is
fused or capturable, everything else goes to its parameter's device, and what has the shape of a
sharded parameter is sharded as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from burst.harness.checkpoints.shards import Like, is_sharded, shard_like
from burst.harness.errors import TrialError


def capture(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return optimizer.state_dict()


def likenesses(optimizer: torch.optim.Optimizer) -> dict[int, Like]:
    """By the numbers that `capture` gives to parameters: what their states will be sharded as."""
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    return {number: Like(parameter) for number, parameter in enumerate(parameters)}


def restore(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Put back what `capture` took.

    Raises:
        TrialError: if the optimizer has other parameter groups than the one it was taken from.
    """
    if type(optimizer).load_state_dict is not torch.optim.Optimizer.load_state_dict:
        optimizer.load_state_dict(dict(state))
        return
    saved = state["param_groups"]
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    before = [len(group["params"]) for group in saved]
    if sizes != before:
        raise TrialError(
            f"the checkpoint's {type(optimizer).__name__} has other parameters",
            why=f"its groups have {before} parameters, this one's {sizes}",
            mend="start a new trial, or make the optimizer as it was made",
        )
    parameters: dict[Any, torch.Tensor] = {}
    for group, old in zip(optimizer.param_groups, saved, strict=True):
        parameters |= dict(zip(old["params"], group["params"], strict=True))
        for name, value in old.items():
            if name != "params":
                group[name] = _place_setting(group.get(name), value)
    placed_on_device = {
        number: bool(group.get("fused") or group.get("capturable"))
        for group in saved
        for number in group["params"]
    }
    optimizer.state.clear()
    for number, values in state["state"].items():
        parameter = parameters.get(number)
        if parameter is None:
            optimizer.state[number] = values
            continue
        optimizer.state[parameter] = {
            name: _place(name, value, parameter, placed_on_device[number])
            for name, value in values.items()
        }


def _place(name: str, value: Any, parameter: torch.Tensor, on_device: bool) -> Any:
    if isinstance(value, torch.Tensor):
        if is_sharded(parameter) and value.shape == parameter.shape and not is_sharded(value):
            value = shard_like(value, parameter)
        return value if name == "step" and not on_device else value.to(parameter.device)
    if isinstance(value, dict):
        return {k: _place(k, v, parameter, on_device) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_place(name, v, parameter, on_device) for v in value)
    return value


def _place_setting(live: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and isinstance(live, torch.Tensor):
        return value.to(live.device)
    return value
