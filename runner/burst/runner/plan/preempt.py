"""Which running trials make room for a better one that waits."""

from __future__ import annotations

from collections.abc import Sequence

from burst.runner.plan.room import Room
from burst.runner.plan.snapshot import PlanNode, Run, Want


def victims(want: Want, nodes: Sequence[PlanNode], runs: Sequence[Run]) -> tuple[Run, ...]:
    """The trials that must leave for `want` to start; empty if that would not help.

    Those that leave anyway count as gone. Of the others only strictly worse priorities yield,
    the worst first and of those the latest started, until the gang fits; those whose slots the
    gang then does not use are spared.
    """
    staying = [run for run in runs if not run.leaving]
    room = Room(nodes, staying)
    if room.place(want) is not None:
        return ()
    worse = [run for run in staying if run.priority > want.priority]
    worse.sort(key=lambda run: (-run.priority, -run.since, run.allocation))
    for count, run in enumerate(worse, start=1):
        room.give_back(run.shares)
        shares = room.place(want)
        if shares is not None:
            used = {(share.node, slot) for share in shares for slot in share.slots}
            return tuple(run for run in worse[:count] if _slots(run) & used)
    return ()


def _slots(run: Run) -> set[tuple[str, int]]:
    return {(share.node, slot) for share in run.shares for slot in share.slots}
