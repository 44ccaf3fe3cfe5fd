"""How the model behaves as long as nobody says otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings:
    """Seconds, all of them. Changed only under the lock of the cloud that they belong to."""

    boot: float = 1.0
    """From launch until a machine runs its user data."""
    listed_after: float = 0.0
    """From launch until a machine is found by filters and without any."""
    known_after: float = 0.0
    """From launch until a machine is found by its own id."""
    skew: float = 0.0
    """By how much EC2's clock is ahead of this machine's, in every date that EC2 tells."""
