"""What a benchmark hands back: one figure beside what it is measured against, in the same run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One row of docs/benchmarks.md."""

    what: str
    ours: str
    """Our figure with its unit, as measured."""
    against: str
    """The peer or limit and its figure in the same run."""
    ratio: float | None
    """Ours over theirs, in the direction that `target` is stated in."""
    target: str
    """What we aim for, e.g. `≤ 1.10×`."""
    met: bool | None
    """None where there is no target."""
    note: str = ""
