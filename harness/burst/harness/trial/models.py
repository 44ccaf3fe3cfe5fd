"""Models over several ranks: gradients averaged by DDP and buffers kept alike, or, where the trial
has sharded a model itself (`fully_shard`), left to torch's FSDP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from burst.harness.checkpoints.shards import is_sharded
from burst.harness.distributed import DistributedContext
from burst.harness.errors import TrialError
from burst.harness.trial.named import is_a


def distribute(model: nn.Module, device: torch.device, gang: DistributedContext) -> nn.Module:
    """The model on its device, wrapped in DDP where there are several ranks and it is trained; a
    sharded one as it is.

    Beyond two ranks the sum of gradients depends, in its last bits, on how DDP cuts them into
    buckets. DDP cuts them anew after its first step, which a resumed run would do one step late;
    looking for unused parameters keeps it from that, so that the buckets never change.

    Raises:
        TrialError: if only a part of what is trained is sharded, or it is sharded by FSDP1.
    """
    refuse_flat_shards(model)
    if _sharded(model):
        _check_sharding(model, gang)
        return model
    model = model.to(device)
    trained = any(parameter.requires_grad for parameter in model.parameters())
    if gang.size == 1 or not trained:
        return model
    devices = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, find_unused_parameters=gang.size > 2)


def refuse_flat_shards(model: nn.Module) -> None:
    """
    Raises:
        TrialError: a part of the model is sharded by torch's first FSDP.
    """
    if any(is_a(module, "FullyShardedDataParallel", "torch") for module in model.modules()):
        raise flat_shards_refused()


def flat_shards_refused() -> TrialError:
    """That torch's first FSDP is not supported."""
    return TrialError(
        "a model that is sharded by FullyShardedDataParallel (FSDP1) cannot be kept",
        why="each rank's optimizer state is of pieces of parameters that are cut at any place, "
        "which fit no other number of ranks, and torch has deprecated it",
        mend="shard it with fully_shard (FSDP2); in the arguments of a transformers.Trainer "
        'that is fsdp_config={"version": 2}',
    )


def _sharded(model: nn.Module) -> bool:
    return any(is_sharded(parameter) for parameter in model.parameters())


def _check_sharding(model: nn.Module, gang: DistributedContext) -> None:
    """Nobody would average the gradients of a parameter that is left out."""
    left_out = [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and not is_sharded(parameter)
    ]
    if gang.size > 1 and left_out:
        raise TrialError(
            f"{type(model).__name__} is sharded in part: {left_out[0]} is not",
            why="its gradients would differ between ranks",
            mend="call fully_shard on the model itself, too, after its layers",
        )


def bare(model: nn.Module) -> nn.Module:
    """The user's own module."""
    return model.module if isinstance(model, DistributedDataParallel) else model


class Models:
    """All wrapped models of a trial, in the order of wrapping."""

    def __init__(self) -> None:
        self._models: list[nn.Module] = []
        self._parallel: list[DistributedDataParallel] = []
        self._sharded: list[nn.Module] = []

    def add(self, model: nn.Module) -> None:
        self._models.append(model)
        if _sharded(model):
            self._sharded.append(model)
        if isinstance(model, DistributedDataParallel):
            self._parallel.append(model)

    def __iter__(self) -> Iterator[nn.Module]:
        return (bare(model) for model in self._models)

    def __len__(self) -> int:
        return len(self._models)

    @property
    def sharded(self) -> bool:
        """Whether forward of one of them takes all ranks at once, in evaluation too."""
        return bool(self._sharded)

    def sync_gradients(self, sync: bool) -> None:
        """Whether the coming backward averages gradients over the ranks (it does on the last batch
        before an optimizer step). Buffers start every batch as rank 0's.

        Sharded models average after every backward: what they add up lies in `grad`, and so in
        checkpoints, and takes the memory of a shard rather than of the model.
        """
        for model in self._parallel:
            model.require_backward_grad_sync = sync
            model.require_forward_param_sync = True

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluation mode, all ranks with rank 0's buffers and, but for sharded models, without
        collectives in forward (ranks may have unequal numbers of batches); afterwards every module
        is in the mode it was in."""
        modes = [(module, module.training) for model in self._models for module in model.modules()]
        held = self._take_buffers()
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
            for buffer, own in held:
                buffer.copy_(own)

    def _take_buffers(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Give sharded models rank 0's buffers; returns each with a copy of this rank's, because
        training goes on with those."""
        held = []
        for model in self._sharded:
            for buffer in model.buffers():
                if torch.distributed.get_world_size() > 1 and not is_sharded(buffer):
                    held.append((buffer, buffer.clone()))
                    torch.distributed.broadcast(buffer, 0)
        return held

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
