"""How ranks agree, at every batch, on what to do after it.

Each rank has wishes: it saw the stop flag, its callback wants to end, its clock says a checkpoint
is due. All ranks have to act on them at the same batch. With one rank a wish is an answer. With
several, each starts an all-reduce of its wishes after a batch and reads the sum after the next: it
travels while that batch is computed, so it costs a launch and no waiting, and one batch of delay.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any, Protocol


class Wish(IntFlag):
    NOTHING = 0
    DRAIN = 1
    """Checkpoint and leave; training goes on elsewhere or later."""
    STOP = 2
    """Training is over: early stopping."""
    REPORT = 4
    VALIDATE = 8
    CHECKPOINT = 16
    END = 32
    """The length, given in time, is reached."""


class Agreement(Protocol):
    def poll(self, wishes: int) -> int:
        """What any rank wished for at the call before this one; with one rank, `wishes`."""
        ...

    def close(self) -> None: ...


class Alone:
    def poll(self, wishes: int) -> int:
        return wishes

    def close(self) -> None:
        return None


class Together:
    """Over a gloo group that nothing else uses, so that its operations stay in order."""

    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        self._group = dist.new_group(backend="gloo")
        self._word = torch.zeros(1, dtype=torch.int32)
        self._work: Any = None
        self._all_reduce, self._or = dist.all_reduce, dist.ReduceOp.BOR

    def poll(self, wishes: int) -> int:
        agreed = 0
        if self._work is not None:
            self._work.wait()
            agreed = int(self._word.item())
        self._word.fill_(wishes)
        self._work = self._all_reduce(self._word, op=self._or, group=self._group, async_op=True)
        return agreed

    def close(self) -> None:
        if self._work is not None:
            self._work.wait()
            self._work = None
