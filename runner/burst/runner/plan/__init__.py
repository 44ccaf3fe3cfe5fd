"""The plan, a pure function: which trials start where, which yield, what to launch and drain."""

from __future__ import annotations

from burst.runner.plan.plan import plan
from burst.runner.plan.snapshot import Plan, Snapshot

__all__ = ["Plan", "Snapshot", "plan"]
