"""Watches the loss scale of a GradScaler, which has no bottom of its own.

Where gradients overflow at every batch (a loss that is nan, weights that float16 cannot hold),
torch halves the scale again and again, skips every step, and says nothing: training goes on and
learns nothing. Here the scale stays at a floor, and a notice tells since when.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

LEAST = 1.0
"""Below it scaling would make small gradients vanish, which it is there to prevent."""
PATIENCE = 10
"""Falls in a row that are none of finding the scale at the start of training."""


@dataclass(frozen=True)
class Notice:
    """That a scale collapses. `text` is a sentence for people."""

    since: int
    """The batch of the first fall."""
    before: float
    """The scale before that."""
    scale: float
    """The scale now."""
    falls: int
    floor: float | None

    @property
    def text(self) -> str:
        held = ", below which it does not fall" if self.scale == self.floor else ""
        return (
            f"the loss scale fell from {self.before:g} to {self.scale:g}{held}, since batch "
            f"{self.since}: gradients overflow float16, and such batches take no step; look for a "
            "loss that is nan or infinite, lower the learning rate, or use bfloat16"
        )


@dataclass(frozen=True)
class Followed:
    """What is remembered of a scale."""

    scale: float
    falls: int = 0
    """In a row."""
    since: int = 0
    before: float = 0.0
    told: bool = False
    """Whether it was told, and the scale has not grown since."""


@dataclass(frozen=True)
class Limits:
    floor: float | None = LEAST
    """The least scale; None is none. A scale that began below it is left alone."""
    patience: int = PATIENCE
    """Falls in a row until it is told, if the floor is not reached before."""


def follow(
    seen: Followed | None, scale: float, batch: int, limits: Limits
) -> tuple[Followed, Notice | None]:
    """What becomes of a scale after a batch. Pure.

    Args:
        seen: what was returned for the batch before; None at the first.
        scale: what the scaler has now.

    Returns:
        what to remember, with the scale that the scaler ought to have, and what is to be told:
        once, until the scale has grown again.
    """
    if seen is None:
        return Followed(scale), None
    if scale >= seen.scale:
        grown = scale > seen.scale
        return Followed(scale, told=seen.told and not grown), None
    floor = limits.floor
    held = floor if floor is not None and scale < floor <= seen.scale else scale
    now = replace(seen, scale=held, falls=seen.falls + 1)
    if not seen.falls:
        now = replace(now, since=batch, before=seen.scale)
    if now.told or not (held == floor or now.falls >= limits.patience):
        return now, None
    notice = Notice(now.since, now.before, held, now.falls, floor)
    return replace(now, told=True), notice


class ScaleGuard:
    """Keeps the scale of one `torch.amp.GradScaler`, whoever made it, from collapsing.

    guard = ScaleGuard()
    guard.observe(scaler, batch)    # once before the first step, and when it was restored
    ...
    scaler.update()
    if notice := guard.observe(scaler, batch):
        warn(notice.text)
    """

    def __init__(self, floor: float | None = LEAST, patience: int = PATIENCE) -> None:
        """
        Args:
            floor: the least scale; None is none.
            patience: falls in a row until it is told, if the floor is not reached before.
        """
        self._limits = Limits(floor, patience)
        self._seen: Followed | None = None

    @property
    def fresh(self) -> bool:
        """Whether it has not seen a scale yet."""
        return self._seen is None

    def observe(self, scaler: Any, batch: int) -> Notice | None:
        """Look at the scale after `scaler.update()`, and put it back to the floor where it fell
        below. Reads the scale from its device. On every rank alike.

        Args:
            batch: the one that was trained, for the notice.

        Returns:
            what is to be told, once until the scale has grown again.
        """
        if not scaler.is_enabled():
            return None
        scale = float(scaler.get_scale())
        self._seen, notice = follow(self._seen, scale, batch, self._limits)
        if self._seen.scale != scale:
            scaler.update(self._seen.scale)
        return notice
