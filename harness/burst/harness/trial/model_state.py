"""What a model holds: its `state_dict`, and beside that modes, gradients that are summed up, and
buffers that it does not save.

Training stands still while it is looked at, so a model is walked through once for all of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from burst.harness.checkpoints.shards import is_sharded, shard_like


@dataclass
class ModelState:
    """Live tensors, not copies."""

    saved: dict[str, Any]
    """The model's `state_dict`."""
    modes: dict[str, list[str]] = field(default_factory=lambda: {"evaluating": [], "frozen": []})
    """Names of the modules that are not in training, and of the parameters that are frozen."""
    shared_gradients: dict[str, Any] = field(default_factory=dict)
    """What is summed up so far in a sharded model: averaged over the ranks at once, it belongs to
    all of them."""
    own_gradients: dict[str, Any] = field(default_factory=dict)
    """The same in others, each rank's own until an optimizer steps."""
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    """Those that `saved` leaves out, or all of them."""


def look_at(model: nn.Module, *, every_buffer: bool) -> ModelState:
    """A model's state. Names are torch's: what a model has twice is called by its first place.

    Args:
        every_buffer: as on ranks beyond the first, because theirs may differ from the saved
            rank 0's in the middle of an accumulation.
    """
    found = ModelState(model.state_dict())
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        if not module.training:
            found.modes["evaluating"].append(prefix)
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                _look_at_parameter(parameter, prefix, name, found)
        for name, buffer in module._buffers.items():
            if buffer is not None and id(buffer) not in seen:
                seen.add(id(buffer))
                full = f"{prefix}.{name}" if prefix else name
                if every_buffer or full not in found.saved:
                    found.buffers[full] = buffer
    return found


def _look_at_parameter(parameter: nn.Parameter, prefix: str, name: str, found: ModelState) -> None:
    gradient = parameter.grad
    if gradient is None and parameter.requires_grad:
        return
    full = f"{prefix}.{name}" if prefix else name
    if not parameter.requires_grad:
        found.modes["frozen"].append(full)
    if gradient is not None:
        kind = found.shared_gradients if is_sharded(gradient) else found.own_gradients
        kind[full] = _parts_of(gradient) if gradient.is_sparse else gradient


def set_modes(model: nn.Module, modes: Mapping[str, list[str]]) -> None:
    evaluating, frozen = set(modes["evaluating"]), set(modes["frozen"])
    for name, module in model.named_modules():
        module.training = name not in evaluating
    for name, parameter in model.named_parameters():
        if parameter.requires_grad == (name in frozen):
            parameter.requires_grad_(name not in frozen)


def set_gradients(model: nn.Module, gradients: Mapping[str, Any], *, sharded: bool) -> None:
    for name, parameter in model.named_parameters():
        if is_sharded(parameter) != sharded:
            continue
        gradient = gradients.get(name)
        if isinstance(gradient, Mapping):
            gradient = _sparse_of(gradient)
        elif gradient is not None and sharded and not is_sharded(gradient):
            gradient = shard_like(gradient, parameter)
        parameter.grad = None if gradient is None else gradient.to(parameter.device)


def set_buffers(model: nn.Module, buffers: Mapping[str, torch.Tensor]) -> None:
    for path, module in _owners(model, buffers):
        name = path.rpartition(".")[2]
        live = module._buffers.get(name)
        saved = buffers[path]
        if live is not None and live.shape == saved.shape and live.dtype == saved.dtype:
            with torch.no_grad():
                live.copy_(saved)
        else:
            module._buffers[name] = saved if live is None else saved.to(live.device)


def _parts_of(sparse: torch.Tensor) -> dict[str, Any]:
    """A sparse gradient as dense tensors. Kept as it is, in the order and with the repetitions
    that it was summed with, since an optimizer's sums depend on them."""
    return {
        "indices": sparse._indices(),
        "values": sparse._values(),
        "size": list(sparse.shape),
        "coalesced": sparse.is_coalesced(),
    }


def _sparse_of(parts: Mapping[str, Any]) -> torch.Tensor:
    return torch.sparse_coo_tensor(
        parts["indices"],
        parts["values"],
        parts["size"],
        is_coalesced=parts["coalesced"],
        check_invariants=False,
    )


def _owners(model: nn.Module, names: Mapping[str, Any]) -> Iterator[tuple[str, nn.Module]]:
    modules = dict(model.named_modules())
    for path in names:
        owner = modules.get(path.rpartition(".")[0])
        if owner is not None:
            yield path, owner
