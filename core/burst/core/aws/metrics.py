"""What the runner in the cloud measures, and alarms look at: names that both sides know."""

from __future__ import annotations

NAMESPACE = "burst"
CLUSTER_DIMENSION = "cluster"

STRAYS = "strays"
"""Machines that carry the cluster's tag and that nobody answers for."""
CHECKPOINT_AGE = "checkpoint_age"
"""Seconds since the newest durable checkpoint, or since the start, of the trial that has trained
longest without one, as a multiple of what it asked for (`checkpoints.every`)."""
NODES = "nodes"
WAITING = "waiting"
"""Trials that wait for slots."""
RUNNING = "running"
"""Trials that train."""
DOLLARS_PER_HOUR = "dollars_per_hour"
"""What the nodes that are up cost."""
