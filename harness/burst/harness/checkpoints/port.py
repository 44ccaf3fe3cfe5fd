"""The checkpoint port: the training loop's side of saving and restoring.

A state is a tree: dicts (keys str or int), lists, tuples, None, bools, ints, floats, strings,
bytes, torch tensors and NumPy arrays. It comes in two halves: `shared`, what every rank holds
alike and one copy of is enough (models, optimizers, schedulers, counters), and `own`, what each
rank alone holds (random states of rank and loader workers, metric accumulators).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from burst.core.model import Lengths

if TYPE_CHECKING:
    import torch

Tree = Any


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class SaveRequest:
    """What the loop wants saved, at a batch boundary. The tensors are live: they belong to the
    loop again as soon as `save` returns, but for those of `optimizers`, whose `step` waits."""

    shared: Tree
    own: Tree
    done: Lengths
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Validation metrics at this very batch, if it was validated."""
    envelope: Mapping[str, Any] = field(default_factory=dict)
    optimizers: Sequence[torch.optim.Optimizer] = ()
    """Optimizers whose parameters and states only their own `step` changes. These tensors may be
    copied later, until that step begins; everything else is copied before `save` returns."""
    dispensable: bool = False
    """Whether it may be left out where two saves are under way, as saving is slower than it is
    asked for; else it waits until one of them is over."""
    ready: Callable[[], None] = _nothing
    """Called on rank 0, in the background, before the checkpoint is made to count; it raises where
    the checkpoint must not, because what was reported before is not durable."""


@dataclass(frozen=True)
class Restored:
    """What a restore found. Tensors are on the CPU, with the dtype they were saved with."""

    checkpoint: str
    shared: Tree
    own: Tree
    """This rank's; None if the checkpoint was written by fewer ranks."""
    done: Lengths
    ranks: int
    envelope: Mapping[str, Any]
    warm: bool = False
    """Whether it is another trial's, given as a start: then its progress is not this trial's."""
    others: tuple[Tree, ...] = ()
    """Own halves of ranks that are gone, where fewer are here now: of rank r those that ranks
    r + size, r + 2 size, … had. So each is on one rank."""


class CheckpointEngine(Protocol):
    """Saves and restores for one rank. Collective: every rank calls the same in the same order."""

    def save(self, request: SaveRequest) -> bool:
        """Take the state. May return before it is durable; `wait` tells. A failure to write is
        remembered and reported (`poll`), and never raised into training.

        Returns:
            False if it was left out: two are under way, and this one need not be made.

        Raises:
            BurstError: if the state holds something that cannot be represented, naming it.
            Fenced: if a newer allocation owns the trial.
        """
        ...

    def poll(self) -> list[str]:
        """Warnings about saves that failed since the last call; empty is good.

        Raises:
            Fenced: if a newer allocation owns the trial.
        """
        ...

    def wait(self, timeout: float | None = None, *, last: bool = False) -> bool:
        """Wait until what was saved is durable; False if it is not by then.

        Args:
            last: whether the process leaves after this: then it goes to every tier that outlives
                the node, which several saves in a row need not.
        """
        ...

    def busy(self) -> bool:
        """Whether a save is on its way. Cheap enough for every batch; not collective."""
        ...

    def settle(self) -> None:
        """Take now what the next step would wait for, so that the save goes on though none comes.
        Call it in the thread that trains; not collective."""
        ...

    @property
    def saved(self) -> bool:
        """Whether the last state that was handed to `save` counts by now."""
        ...

    @property
    def last_durable_s(self) -> float:
        """Seconds that the last save took until it counted; 0 before the first."""
        ...

    def prepare(self, request: SaveRequest) -> None:
        """Get memory ready, in the background, for saves of such states."""
        ...

    def restore(self, into: Tree = None) -> Restored | None:
        """The newest checkpoint of the trial that is complete and undamaged, or None.

        A damaged one is marked in the store, warned about, and the one before it is used.

        Args:
            into: a tree shaped like (a part of) `shared`, with live tensors. Where one fits what
                was saved, it is filled, without memory for a second copy, and the restored tree
                holds it; a sharded one takes its part, whatever shards were saved.
        """
        ...

    def close(self) -> None: ...
