"""Why a trial waits, in words.

The words change only when the cause does: no clock, no place in the queue. A reason is stored with
every trial that waits, and one that changed with each pass would make writing cost what waits.
"""

from __future__ import annotations

from burst.core.states import Reason
from burst.core.units import counted
from burst.runner.plan.demand import can_ever_fit
from burst.runner.plan.room import Room
from burst.runner.plan.snapshot import PlanPool, Want

PAUSED_EXPERIMENT = Reason(
    code="experiment-paused", text="its experiment is paused; `burst resume` lets it go on"
)
PAUSED_TRIAL = Reason(code="paused", text="it was paused before it ran; `burst resume` lets it go")


def holding_back(want: Want, used: int, most: int) -> Reason:
    return Reason(
        code="max-slots",
        text=f"it needs {counted(want.slots, 'slot')}, and its experiment may use {most} "
        f"(max_slots) of which {used} are taken",
    )


def why_not(
    want: Want,
    pool: PlanPool | None,
    room: Room | None,
    *,
    ahead: bool,
    asked: bool,
    yielding: bool,
    now: float,
) -> tuple[Reason, float | None]:
    """The reason why `want` does not start in its first pool, and a date if there is one."""
    if pool is None or room is None:
        names = ", ".join(want.pools) or "none"
        text = f"none of its pools is in this cluster ({names}); add one in burst.yaml"
        return Reason(code="no-pool", text=text), None
    if yielding:
        text = f"trials of lower priority in pool {pool.name} are making room"
        return Reason(code="making-room", text=text), None
    if room.nodes == 0:
        return _no_node(pool, asked=asked, now=now)
    if ahead:
        text = f"trials ahead of it in pool {pool.name} come first"
        return Reason(code="queued", text=text), None
    return _no_room(want, pool, room, asked=asked), None


def _no_node(pool: PlanPool, *, asked: bool, now: float) -> tuple[Reason, float | None]:
    if pool.retry_at is not None and now < pool.retry_at:
        text = f"pool {pool.name} could not start a node: {pool.trouble}; it will be tried again"
        return Reason(code="no-node", text=text), pool.retry_at
    if asked or pool.coming:
        return Reason(code="node-coming", text=f"a node of pool {pool.name} is starting"), None
    if not pool.launches and not pool.nodes:
        text = (
            f"no machine has joined pool {pool.name}; run `burst agent --pool {pool.name}` on one"
        )
        return Reason(code="no-node", text=text), None
    if pool.trouble:
        text = f"no node of pool {pool.name} is fit to train: {pool.trouble}"
        return Reason(code="unfit-node", text=text), None
    text = f"pool {pool.name} has all of its {pool.max_nodes} nodes, and none of them is ready"
    return Reason(code="no-node", text=text), None


def _no_room(want: Want, pool: PlanPool, room: Room, *, asked: bool) -> Reason:
    if asked or pool.coming:
        return Reason(
            code="node-coming", text=f"another node of pool {pool.name} is starting for it"
        )
    if not can_ever_fit(want, pool.slots_per_node, pool.max_nodes):
        text = (
            f"it needs {counted(want.slots, 'slot')}, and pool {pool.name} has at most "
            f"{counted(pool.max_nodes, 'node')} of {counted(pool.slots_per_node, 'slot')}"
        )
        return Reason(code="never-fits", text=text)
    text = (
        f"it needs {counted(want.slots, 'slot')}; pool {pool.name} has "
        f"{room.free} free on {room.nodes} {'node' if room.nodes == 1 else 'nodes'}"
    )
    if want.blocked:
        text += f", without the {len(want.blocked)} that it must not use"
    return Reason(code="no-room", text=text)
