"""One save on its way: what was asked for, the snapshot, the files, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.port import SaveRequest
from burst.harness.checkpoints.saving.snapshot import Layout, Snapshot
from burst.harness.checkpoints.saving.writing import Parts, Writing
from burst.harness.checkpoints.shards import local_of


@dataclass
class Save:
    id: str
    request: SaveRequest
    shared: tree.Encoded
    own: tree.Encoded
    alike: frozenset[int]
    """The tensors of the shared half that are the same on every rank."""
    parts: Parts
    layout: Layout
    turn: int
    """Of the layout's arena."""
    snapshot: Snapshot
    writing: Writing
    begun: float
    """By the monotonic clock."""
    done: threading.Event = field(default_factory=threading.Event)


class Gates:
    """Lets `optimizer.step` wait until open snapshots are copied, and confirms each right before
    the step changes its tensors."""

    def __init__(self) -> None:
        self._handles: dict[int, torch.utils.hooks.RemovableHandle] = {}
        self._open: list[tuple[Snapshot, Callable[[], object]]] = []

    def guard(
        self,
        snapshot: Snapshot,
        optimizers: Iterable[torch.optim.Optimizer],
        then: Callable[[], object],
    ) -> None:
        """Hold back the steps of `optimizers` until `snapshot` is copied and confirmed; `then` is
        called after that."""
        self._open.append((snapshot, then))
        for optimizer in optimizers:
            if id(optimizer) not in self._handles:
                handle = optimizer.register_step_pre_hook(self._before_step)
                self._handles[id(optimizer)] = handle

    def settle(self, *, alone_s: float = 0.0) -> None:
        """Do now what the next step would wait for. Call it in the thread that trains.

        Args:
            alone_s: how long it does not help copying, where nothing but the files is waited for.
        """
        while self._open:
            snapshot, then = self._open.pop(0)
            snapshot.gate(alone_s=alone_s)
            snapshot.confirm()
            then()

    def remove(self) -> None:
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()

    def _before_step(self, *_: object) -> None:
        self.settle()


def trained_parts(
    shared: tree.Encoded,
    alike: frozenset[int],
    optimizers: Iterable[torch.optim.Optimizer],
) -> frozenset[int]:
    """Indices of the tensors that every step of `optimizers` changes: what they own (`alike`), but
    for parameters that are frozen."""
    frozen = {
        local_of(parameter).data_ptr()
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
        if not parameter.requires_grad
    }
    if not frozen:
        return alike
    return frozenset(index for index in alike if shared.tensors[index].address not in frozen)
