"""Whether anything can still come of a rehearsal: outside of it a person would be waited for, who
mends the pool, and nobody does that here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burst.core.model import Node, RefusalKind, Supply
from burst.runner.supply import EVERY_OFFER

_FINAL = (RefusalKind.PERMISSION, RefusalKind.BUG)
_FAILED = "failed"
"""The code of a refusal that stands for a failed start: a few of those stop the pool."""


def hopeless(pools: Sequence[str], supplies: Mapping[str, Supply], nodes: Sequence[Node]) -> str:
    """Why no machine can come any more, in words; empty while one may, or one is there. Pure.

    Args:
        pools: where the experiment may run.
        supplies: what is known of them, by name.
        nodes: those that live.
    """
    if any(node.pool in pools for node in nodes):
        return ""
    found = [_over(name, supplies[name]) if name in supplies else "" for name in pools]
    return "; ".join(found) if all(found) else ""


def _over(name: str, supply: Supply) -> str:
    if supply.stopped is not None:
        return f"pool {name} is stopped: {supply.stopped}"
    refusal = supply.refusals.get(EVERY_OFFER)
    if refusal is None or refusal.kind not in _FINAL or refusal.code == _FAILED:
        return ""
    return f"pool {name} can have no machine: {refusal.code}: {refusal.text}"
