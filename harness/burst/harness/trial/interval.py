"""How often to checkpoint: from what a checkpoint costs and how often what runs is lost.

Between two losses, M seconds apart on average, training that checkpoints every τ seconds at a
cost of δ seconds each pays δ per τ for checkpoints, and τ/2 per M for what a loss repeats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SHORTEST_S = 30.0
"""More often is never worth its requests to the store and the blobs, which cost money too."""
LONGEST_S = 900.0
"""What a loss may repeat at the most, however rare losses are said to be."""
FIRST_S = 10.0
"""Into a fresh trial: what a checkpoint costs is not known yet, and nothing is saved at all."""
DURABLE_FACTOR = 2.0


def young(cost: float, between_losses: float) -> float:
    """√(2δM): J. W. Young, "A first order approximation to the optimum checkpoint interval",
    Communications of the ACM 17 (9), 1974."""
    return math.sqrt(2.0 * cost * between_losses)


def daly(cost: float, between_losses: float) -> float:
    """Seconds of training between two checkpoints: J. T. Daly, "A higher order estimate of the
    optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (3),
    2006, equation 37.

    It holds where a checkpoint costs a good part of the time between losses, for which Young's is
    too long. The time that a restart takes is part of Daly's model and multiplies all of its
    run time, so it moves the least run time but not the interval at which that is reached.
    """
    if cost >= 2.0 * between_losses:
        return between_losses
    ratio = cost / (2.0 * between_losses)
    return young(cost, between_losses) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - cost


def auto_interval(cost: float, between_losses: float, durable: float = 0.0) -> float:
    """Seconds of training between two checkpoints, within bounds.

    Args:
        cost: seconds of training that one costs.
        durable: seconds from the start of a save until it is durable. The interval is at least
            twice that, even beyond the longest, so that saves never pile up.
    """
    best = daly(max(cost, 0.0), max(between_losses, 1.0))
    return max(min(max(best, SHORTEST_S), LONGEST_S), DURABLE_FACTOR * durable)


@dataclass(frozen=True)
class Conditions:
    """What a trial's launch says of where it runs."""

    between_losses: float = 4 * 3600.0
    """Seconds until something ends the gang without warning, on average."""
    early: bool = False
    """Whether a fresh trial saves soon after its start, whatever its period is."""
