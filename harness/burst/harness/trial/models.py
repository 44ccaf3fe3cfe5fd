"""Models over several ranks: gradients averaged by DDP, buffers kept alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from burst.harness.distributed import DistributedContext


def distribute(model: nn.Module, device: torch.device, gang: DistributedContext) -> nn.Module:
    """The model on its device, wrapped in DDP where there are several ranks and it is trained.

    Beyond two ranks the sum of gradients depends, in its last bits, on how DDP cuts them into
    buckets. DDP cuts them anew after its first step, which a resumed run would do one step late;
    looking for unused parameters keeps it from that, so that the buckets never change.
    """
    model = model.to(device)
    trained = any(parameter.requires_grad for parameter in model.parameters())
    if gang.size == 1 or not trained:
        return model
    devices = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, find_unused_parameters=gang.size > 2)


def bare(model: nn.Module) -> nn.Module:
    """The user's own module."""
    return model.module if isinstance(model, DistributedDataParallel) else model


class Models:
    """All wrapped models of a trial, in the order of wrapping."""

    def __init__(self) -> None:
        self._models: list[nn.Module] = []
        self._parallel: list[DistributedDataParallel] = []

    def add(self, model: nn.Module) -> None:
        self._models.append(model)
        if isinstance(model, DistributedDataParallel):
            self._parallel.append(model)

    def __iter__(self) -> Iterator[nn.Module]:
        return (bare(model) for model in self._models)

    def __len__(self) -> int:
        return len(self._models)

    def sync_gradients(self, sync: bool) -> None:
        """Whether the coming backward averages gradients over the ranks (it does on the last batch
        before an optimizer step). Buffers start every batch as rank 0's."""
        for model in self._parallel:
            model.require_backward_grad_sync = sync
            model.require_forward_param_sync = True

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluation mode, without collectives in forward (ranks may have unequal numbers of
        batches); afterwards every module is in the mode it was in."""
        modes = [(module, module.training) for model in self._models for module in model.modules()]
        for parallel in self._parallel:
            for buffer in parallel.module.buffers():
                torch.distributed.broadcast(buffer, 0)
            parallel.require_forward_param_sync = False
        for model in self._models:
            model.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training

    def train(self) -> None:
        for model in self._models:
            model.train()


def to_device(data: Any, device: torch.device) -> Any:
    """Every tensor of a batch on the device; the batch itself where nothing has to move."""
    if isinstance(data, torch.Tensor):
        return data if data.device == device else data.to(device, non_blocking=True)
    if device.type == "cpu":
        return data
    if isinstance(data, dict):
        return type(data)((key, to_device(value, device)) for key, value in data.items())
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(to_device(value, device) for value in data))
    if isinstance(data, list | tuple):
        return type(data)(to_device(value, device) for value in data)
    return data.to(device) if hasattr(data, "to") else data
