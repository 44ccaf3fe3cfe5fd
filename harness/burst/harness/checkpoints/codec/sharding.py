"""Tensors that are spread over ranks, as torch's DTensor has them: which part is here, who else
has it, and the memory that it lies in.

A DTensor exists only where somebody has imported torch's module of them, which takes half a
second; here it is never imported.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from burst.core.checkpoints.format.boxes import Box, whole
from burst.core.errors import BurstError

_MODULE = "torch.distributed.tensor"


def is_sharded(value: object) -> bool:
    """Whether it is a DTensor, whose elements lie on several ranks."""
    module = sys.modules.get(_MODULE)
    return module is not None and isinstance(value, module.DTensor)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of it on this rank, live: of a DTensor its shard, else the tensor itself."""
    if not is_sharded(tensor):
        return tensor
    sharded: Any = tensor
    if torch.is_grad_enabled():
        with torch.no_grad():
            return local_of(tensor)
    local: torch.Tensor = sharded.to_local()
    return local


@dataclass(frozen=True)
class Layout:
    """How a tensor lies on the ranks."""

    box: Box | None
    """What this rank has of it; None if the rank has none."""
    copy: int
    """Which of the equal copies this rank's is, counted from 0."""
    copies: int
    """How many ranks have this very box."""
    among: tuple[Any, ...]
    """What tensors have equal whose copies lie on the same ranks."""
    text: str
    """For comparing it with other ranks' and for people."""


def mesh_key(mesh: Any) -> Any:
    """Equal for meshes that put the same ranks in the same places, as this rank sees them."""
    ranks = tuple(mesh.mesh.flatten().tolist())
    return mesh.device_type, tuple(mesh.shape), ranks, mesh.get_coordinate()


def layout_of(shape: tuple[int, ...], mesh: Any, placements: Sequence[Any], name: str) -> Layout:
    """The layout of a DTensor of this shape, on this rank.

    Raises:
        BurstError: if no rank has its values, or what a rank has is not one box.
    """
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    copied = tuple(dim for dim, placement in enumerate(placements) if placement.is_replicate())
    for dim, placement in enumerate(placements):
        _check(shape, mesh, dim, placement, name)
    text = f"{tuple(mesh.shape)} {' '.join(str(placement) for placement in placements)}"
    coordinate = mesh.get_coordinate()
    sizes = tuple(mesh.shape[dim] for dim in copied)
    among = (mesh_key(mesh), copied)
    if coordinate is None:
        return Layout(None, 0, math.prod(sizes), among, text)
    local, offsets = compute_local_shape_and_global_offset(shape, mesh, placements)
    copy = 0
    for dim, size in zip(copied, sizes, strict=True):
        copy = copy * size + coordinate[dim]
    box = (tuple(offsets), tuple(local)) if math.prod(local) else None
    return Layout(box, copy, math.prod(sizes), among, text)


def _check(shape: tuple[int, ...], mesh: Any, dim: int, placement: Any, name: str) -> None:
    if placement.is_partial():
        raise BurstError(
            f"a checkpoint cannot hold {name}: its ranks have parts of a sum",
            mend="redistribute it, to Shard or Replicate, before it is saved",
        )
    strided = not placement.is_replicate() and not placement.is_shard()
    if strided and shape[placement.dim] % (placement.split_factor * mesh.shape[dim]):
        raise BurstError(
            f"a checkpoint cannot hold {name}: a rank's part of it is not one box",
            why=f"dimension {placement.dim} of {shape} is not a multiple of the ranks on it",
            mend="pad the dimension to a multiple",
        )


def box_of(tensor: torch.Tensor) -> Box | None:
    """What this rank has of a tensor: all, or its shard; None if that is nothing."""
    shape = tuple(tensor.shape)
    if not is_sharded(tensor):
        return whole(shape) if tensor.numel() else None
    sharded: Any = tensor
    return layout_of(shape, sharded.device_mesh, sharded.placements, "a tensor").box


def shard_like(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A whole tensor, the same on every rank, as `like` is spread; a new one, without collectives.
    `like` must have its shape."""
    part = box_of(like)
    local = local_of(like)
    if part is None:
        return spread(torch.empty_like(local, dtype=tensor.dtype), like)
    taken = tensor[tuple(slice(a, a + n) for a, n in zip(*part, strict=True))]
    return spread(torch.empty_like(local, dtype=tensor.dtype).copy_(taken), like)


def spread(local: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The DTensor whose part on this rank is `local`, spread as `like` is."""
    sharded: Any = like
    with torch.no_grad():
        made: torch.Tensor = type(sharded).from_local(
            local,
            sharded.device_mesh,
            sharded.placements,
            run_check=False,
            shape=sharded.shape,
            stride=sharded.stride(),
        )
    return made
