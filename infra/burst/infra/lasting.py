"""How long what changes will take, about. Pure."""

from __future__ import annotations

from burst.infra.engine.changes import Changes, Op
from burst.infra.preflight.stages import expected, stage_of
from burst.infra.settings import Settings

_GATEWAYS = ("s3", "dynamodb")
"""Endpoints that are no more than routes, and made at once."""
_QUICK = (1.0, 10.0)
"""Seconds of what no stage tells of: a rule, a tag, a route."""


def time_for(changes: Changes, settings: Settings) -> tuple[float, float]:
    """Seconds that it takes, about: at least and at most."""
    if not changes:
        return 0.0, 0.0
    if not changes.counts().get(Op.SAME):
        return expected(settings)
    spans = list(spans_of(changes).values()) or [_QUICK]
    return max(least for least, _ in spans), sum(most for _, most in spans)


def spans_of(changes: Changes) -> dict[str, tuple[float, float]]:
    """The same by part of the cluster: of what is made at once the slowest counts."""
    found = {}
    for component, rows in changes.by_component().items():
        kinds = {row.type for row in rows if row.name not in _GATEWAYS}
        stages = [stage for stage in map(stage_of, kinds) if stage is not None]
        if stages:
            found[component] = (
                max(stage.least for stage in stages),
                max(stage.most for stage in stages),
            )
    return found
