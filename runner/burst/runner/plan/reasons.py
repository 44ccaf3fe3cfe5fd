"""Why a trial waits, in words, pool by pool.

The words change only when the cause does: no clock, no place in the queue. A reason is stored with
every trial that waits, and one that changed with each pass would make writing cost what waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from burst.core.states import Reason
from burst.core.units import counted
from burst.runner.plan.demand import can_ever_fit
from burst.runner.plan.room import Room
from burst.runner.plan.snapshot import PlanPool, Want

PAUSED_EXPERIMENT = Reason(
    code="experiment-paused", text="its experiment is paused; `burst resume` lets it go on"
)
PAUSED_TRIAL = Reason(code="paused", text="it was paused before it ran; `burst resume` lets it go")
_COMING = "node-coming"
_HOPELESS = ("never-fits", "not-yet")
"""Codes that say less of a trial than that of another of its pools."""


def holding_back(want: Want, used: int, most: int) -> Reason:
    return Reason(
        code="max-slots",
        text=f"it needs {counted(want.slots, 'slot')}, and its experiment may use {most} "
        f"(max_slots) of which {used} are taken",
    )


class Standing(NamedTuple):
    """How a trial that does not start stands with one of its pools."""

    pool: str
    open: bool
    """Whether it may go there by now."""
    served: bool
    """Whether a node for it is in flight, or asked for."""
    ahead: bool
    """Whether others come before it."""
    yielding: bool
    """Whether others make room there."""


class Answers:
    """Reasons for all trials of a plan; what many have in common is put into words once."""

    def __init__(
        self, pools: Mapping[str, PlanPool], rooms: Mapping[str, Room], now: float
    ) -> None:
        self._pools = pools
        self._rooms = rooms
        self._now = now
        self._said: dict[object, Reason] = {}
        self._refusing = {
            name: pool.retry_at
            for name, pool in pools.items()
            if pool.retry_at is not None and pool.retry_at > now
        }

    def why_not(self, want: Want, standings: tuple[Standing, ...]) -> Reason:
        """The reason why `want` does not start in any of its pools, in its order."""
        key = (want.slots, want.single_node, want.blocked, want.burst_after, want.closed,
               standings or want.pools)  # fmt: skip
        if key not in self._said:
            self._said[key] = self._reason(want, standings)
        return self._said[key]

    def retry_at(self, standings: Sequence[Standing]) -> float | None:
        """When one of the pools is asked again that said no."""
        dates = [
            at
            for each in standings
            if (at := self._refusing.get(each.pool)) and each.open and not each.served
        ]
        return min(dates, default=None)

    def _reason(self, want: Want, standings: Sequence[Standing]) -> Reason:
        if not standings:
            names = ", ".join(want.pools) or "none"
            text = f"none of its pools is in this cluster ({names}); add one in burst.yaml"
            return Reason(code="no-pool", text=text)
        found = [self._in_pool(want, each) for each in standings]
        code = next((each.code for each in found if each.code == _COMING), "")
        code = code or next((each.code for each in found if each.code not in _HOPELESS), "")
        once = _needing(want)
        texts = [found[0].text, *(each.text.removeprefix(once) for each in found[1:])]
        text = "; ".join(texts + ([want.closed] if want.closed else []))
        return Reason(code=code or found[0].code, text=text)

    def _in_pool(self, want: Want, standing: Standing) -> Reason:
        pool, room = self._pools[standing.pool], self._rooms[standing.pool]
        if not standing.open:
            text = f"pool {pool.name} comes next, after {want.burst_after:g} s of waiting"
            return Reason(code="not-yet", text=text)
        if standing.yielding:
            text = f"trials of lower priority in pool {pool.name} are making room"
            return Reason(code="making-room", text=text)
        if standing.served:
            another = "another node" if room.nodes else "a node"
            for_it = " for it" if room.nodes else ""
            text = f"{another} of pool {pool.name} is starting{for_it}"
            return Reason(code=_COMING, text=_after_trouble(text, pool))
        never = not can_ever_fit(want, pool.slots_per_node, pool.max_nodes)
        if never and not room.could_ever(want):
            return _never_fits(want, pool)
        if room.nodes == 0:
            return self._no_node(pool, standing.ahead)
        if standing.ahead:
            return self._no_more(
                "queued", f"trials ahead of it in pool {pool.name} come first", pool
            )
        return self._no_room(want, pool, room)

    def _no_node(self, pool: PlanPool, ahead: bool) -> Reason:
        if pool.stopped:
            return Reason(code="pool-stopped", text=_stopped(pool))
        if self._refused(pool):
            text = f"pool {pool.name} could not start a node: {pool.trouble}"
            return Reason(code="no-node", text=f"{text}; it will be tried again")
        if pool.coming:
            text = _after_trouble(f"a node of pool {pool.name} is starting", pool)
            return Reason(code=_COMING, text=text)
        if not pool.launches and not pool.nodes:
            text = (
                f"no machine has joined pool {pool.name}; "
                f"run `burst agent --pool {pool.name}` on one"
            )
            return Reason(code="no-node", text=text)
        if not pool.slots_per_node:
            text = f"it is not known yet what a node of pool {pool.name} has; it is asked again"
            return Reason(code="no-node", text=_after_trouble(text, pool))
        if pool.nodes < pool.max_nodes:
            return self._none_yet(pool, ahead)
        if pool.trouble:
            text = f"no node of pool {pool.name} is fit to train: {pool.trouble}"
            return Reason(code="unfit-node", text=text)
        text = f"pool {pool.name} has all of its {pool.max_nodes} nodes, and none of them is ready"
        return Reason(code="no-node", text=text)

    def _none_yet(self, pool: PlanPool, ahead: bool) -> Reason:
        if ahead:
            text = f"trials ahead of it in pool {pool.name} come first"
            return Reason(code="queued", text=_after_trouble(text, pool))
        text = f"pool {pool.name} has no node that is ready"
        return Reason(code="no-node", text=_after_trouble(text, pool))

    def _no_room(self, want: Want, pool: PlanPool, room: Room) -> Reason:
        free = f"{room.free} free on {counted(room.nodes, 'node')}"
        text = f"{_needing(want)}pool {pool.name} has {free}"
        if want.blocked:
            text += f", without the {len(want.blocked)} that it must not use"
        return self._no_more("no-room", text, pool)

    def _no_more(self, code: str, text: str, pool: PlanPool) -> Reason:
        """With why no more nodes come, where that is so."""
        if pool.stopped:
            return Reason(code=code, text=f"{text}; {_stopped(pool)}")
        if self._refused(pool):
            more = f"another node could not be started: {pool.trouble}; it will be tried again"
            return Reason(code=code, text=f"{text}; {more}")
        return Reason(code=code, text=_after_trouble(text, pool))

    def _refused(self, pool: PlanPool) -> bool:
        return pool.name in self._refusing


def _needing(want: Want) -> str:
    return f"it needs {counted(want.slots, 'slot')}; "


def _never_fits(want: Want, pool: PlanPool) -> Reason:
    text = (
        f"it needs {counted(want.slots, 'slot')}, and pool {pool.name} has at most "
        f"{counted(pool.max_nodes, 'node')} of {counted(pool.slots_per_node, 'slot')}"
    )
    return Reason(code="never-fits", text=text)


def _stopped(pool: PlanPool) -> str:
    told = not pool.trouble or pool.trouble in pool.stopped
    last = "" if told else f" (the last said: {pool.trouble})"
    return (
        f"pool {pool.name} starts no more nodes: {pool.stopped}{last}; "
        f"`burst pool resume {pool.name}` lets it"
    )


def _after_trouble(text: str, pool: PlanPool) -> str:
    """The pool's last words are told as long as it is remembered that there were some."""
    return f"{text}; the last that could not be used: {pool.trouble}" if pool.trouble else text
