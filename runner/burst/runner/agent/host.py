"""The machine below an agent, as far as the agent has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from burst.core.model import Drain, DrainCause, Json

MARGIN_S = 15.0
"""Of the time that a notice leaves, what is kept for ending the ranks, releasing and logs; half of
it, where it leaves less than twice that."""


@dataclass(frozen=True)
class Reclaim:
    """The machine is about to be taken away."""

    heard: float
    """By this machine's clock, as the deadline."""
    at: float
    """When, as the notice says."""
    deadline: float
    """When what runs must have left."""
    text: str

    @classmethod
    def told(cls, *, heard: float, at: float, left: float, text: str) -> Reclaim:
        """What a notice means that was heard at `heard`, `left` seconds before its end."""
        deadline = heard + left - min(MARGIN_S, left / 2)
        return cls(heard=heard, at=at, deadline=deadline, text=text)

    @property
    def drain(self) -> Drain:
        return Drain(cause=DrainCause.NOTICE, at=self.heard, deadline=self.deadline)


class Host:
    """A machine that has nothing to say and is not burst's to end: a person's, or on premises.

    What the agent asks of it is answered without I/O; what it is told it hears from any thread.
    """

    ends = False
    """Whether the machine ends after its agent, so that nothing can be left to a next one."""

    @property
    def reclaim(self) -> Reclaim | None:
        """The notice that it will be taken away, once there is one."""
        return None

    @property
    def rebalance(self) -> float | None:
        """When it was recommended to move away from here, if it was."""
        return None

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` when one of the above changes."""

    def facts(self) -> Mapping[str, Json]:
        """What the node's record tells beyond what every machine's does."""
        return {}

    def problems(self) -> list[str]:
        """What keeps it from training; asked once, before it is registered, and may take time."""
        return []

    def registered(self) -> None:
        """The store knows the node."""

    def renewed(self) -> None:
        """The lease was taken or renewed."""
