"""How long steps take, and what checkpoints cost them: measured by rank 0, step by step.

A checkpoint costs the time that it stalls training, which is known exactly, and the time by which
it slows the steps down while it is written in the background. The second is measured: what the
steps took while a save was under way, less what as many undisturbed steps take.
"""

from __future__ import annotations

from collections import deque
from statistics import median

BLOCK = 8
"""Undisturbed steps whose mean is one observation."""
_BLOCKS = 33
_SAVES = 9


class Pace:
    """Told of every step and every save; answers in seconds. Pure: it is handed the time.

    An undisturbed step is taken to be the median of the means of blocks of steps. A mean alone
    would follow one long pause of the machine; a median of steps alone would be wrong where steps
    differ by plan, as with gradients that are accumulated. The cost of a checkpoint is the median
    over the last ones, so that neither the first, which is slow, nor an unlucky one decides.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        """When the present step began; None where what goes on is no step."""
        self._sum = 0.0
        self._count = 0
        self._blocks: deque[float] = deque(maxlen=_BLOCKS)
        self._step: float | None = None
        self._saving = False
        self._stall = 0.0
        self._disturbed = 0.0
        self._disturbed_steps = 0
        self._costs: deque[tuple[float, float]] = deque(maxlen=_SAVES)
        """Of each save: seconds of stall, seconds of stall and slow-down."""

    @property
    def step(self) -> float | None:
        """Seconds of an undisturbed step; None before enough of them were seen."""
        return self._step

    @property
    def cost(self) -> float | None:
        """Seconds of training that a checkpoint costs; None before the first."""
        if not self._costs:
            return None
        stall = median(stall for stall, _ in self._costs)
        # Steps vary, so a sum of them may seem to have been faster than undisturbed.
        return max(stall, median(whole for _, whole in self._costs))

    def start(self, now: float) -> None:
        """A step begins now, after something that was none: a validation, a save, the start."""
        self._began = now

    def stepped(self, now: float, saving: bool) -> bool:
        """A step has ended, and the next begins. Whether a save has ended with it.

        Args:
            saving: whether a save is under way now.
        """
        began, self._began = self._began, now
        ended = self._saving and not saving
        if began is not None:
            if self._saving or saving:
                self._disturbed += now - began
                self._disturbed_steps += 1
            else:
                self._note(now - began)
        if ended:
            self._settle()
        return ended

    def saved(self, stall: float, saving: bool) -> None:
        """A save has held training up for `stall` seconds; `saving` is whether it goes on in the
        background. What was under way before is settled as far as it went."""
        if self._saving:
            self._settle()
        self._stall = stall
        self._saving = True
        if not saving:
            self._settle()

    def _note(self, seconds: float) -> None:
        self._sum += seconds
        self._count += 1
        if self._count == BLOCK:
            self._blocks.append(self._sum / BLOCK)
            self._sum, self._count = 0.0, 0
            self._step = median(self._blocks)

    def _settle(self) -> None:
        slower = 0.0
        if self._step is not None:
            slower = self._disturbed - self._disturbed_steps * self._step
        self._costs.append((self._stall, self._stall + slower))
        self._saving = False
        self._stall = self._disturbed = 0.0
        self._disturbed_steps = 0
