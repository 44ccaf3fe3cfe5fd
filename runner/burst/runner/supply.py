"""Keeping the book of what a pool can give: a pure account of refusals and of failed starts.

Offers that were refused rest, ever longer; machines that end before they are ready stop the pool
in the end, since a broken image burns money for as long as it is launched.
"""

from __future__ import annotations

from collections.abc import Mapping

from burst.core.errors import Refused
from burst.core.model import Refusal, RefusalKind, Supply
from burst.core.states import Reason
from burst.core.units import counted

EVERY_OFFER = "*"
"""The key of a refusal that holds for all that the pool has."""
FAILURES_TO_STOP = 3
"""Failed starts in a row after which a pool that costs money is asked for nothing more."""
MISFIT = "InvalidConfiguration"
"""The code of a refusal to those who set the pool up: as it is, it can have no machine at all."""
_FORGET_S = 600.0
"""A refusal this long after its end does not count as one in a row any more."""
_LONGEST_S: Mapping[RefusalKind, float] = {
    RefusalKind.CAPACITY: 1800.0,
    RefusalKind.QUOTA: 1800.0,
    RefusalKind.NETWORK: 1800.0,
    RefusalKind.PERMISSION: 1800.0,
    RefusalKind.THROTTLE: 60.0,
    RefusalKind.BUG: 300.0,
}
_FIRST_START_S = 3.0
_FIRST_MISFIT_S = 60.0


def after_refusals(supply: Supply, refusals: Mapping[str, Refusal], now: float) -> Supply:
    """The book once the pool has refused those offers: the wait that the pool asks for, doubled
    with every time in a row."""
    kept = _recent(supply, now)
    for offer, refusal in refusals.items():
        before = kept.get(offer)
        tries = 1 + (before.tries if before is not None else 0)
        first = max(0.0, refusal.until - refusal.at)
        wait = min(first * 2.0 ** min(tries - 1, 30), max(first, _LONGEST_S[refusal.kind]))
        kept[offer] = refusal.model_copy(update={"tries": tries, "at": now, "until": now + wait})
    return supply.model_copy(update={"refusals": kept})


def after_misfit(supply: Supply, error: Refused, now: float) -> Supply:
    """The book once it has turned out that the pool can have no machine as it is set up. It is
    asked ever more rarely, as a person may mend that."""
    ends = (each.strip().rstrip(".") for each in (error.what, error.why, error.mend))
    refusal = Refusal(
        kind=RefusalKind.PERMISSION,
        code=MISFIT,
        text="; ".join(filter(None, ends)),
        at=now,
        until=now + _FIRST_MISFIT_S,
    )
    return after_refusals(supply, {EVERY_OFFER: refusal}, now)


def after_asked(supply: Supply) -> Supply:
    """The book once the pool could say what to ask for: whatever was set up wrong is mended."""
    if not is_misfit(supply):
        return supply
    kept = {offer: each for offer, each in supply.refusals.items() if offer != EVERY_OFFER}
    return supply.model_copy(update={"refusals": kept})


def is_misfit(supply: Supply) -> bool:
    """Whether the pool could have no machine, as it was set up when it was asked last."""
    last = supply.refusals.get(EVERY_OFFER)
    return last is not None and last.code == MISFIT


def after_failure(supply: Supply, problem: str, now: float, *, costs: bool) -> Supply:
    """The book once a machine had to be given up before it was ready.

    Args:
        costs: whether machines of the pool are paid for; then it is stopped after a few.
    """
    failures = supply.failures + 1
    wait = min(_FIRST_START_S * 2.0 ** min(failures - 1, 30), _LONGEST_S[RefusalKind.BUG])
    resting = Refusal(
        kind=RefusalKind.BUG, code="failed", text=problem, tries=failures, at=now, until=now + wait
    )
    stopped = supply.stopped
    if costs and failures >= FAILURES_TO_STOP:
        text = f"{counted(failures, 'node')} in a row ended before they were ready: {problem}"
        stopped = stopped or Reason(code="failing", text=text)
    return supply.model_copy(
        update={
            "refusals": {**_recent(supply, now), EVERY_OFFER: resting},
            "failures": failures,
            "failure": problem,
            "stopped": stopped,
        }
    )


def after_ready(supply: Supply) -> Supply:
    """The book once a machine was ready: failures are in a row no more."""
    kept = {offer: each for offer, each in supply.refusals.items() if offer != EVERY_OFFER}
    return supply.model_copy(update={"failures": 0, "failure": "", "refusals": kept})


def trouble(supply: Supply) -> str:
    """The newest refusal in words, with the pool's own code; empty if there is none."""
    if not supply.refusals:
        return ""
    offer, newest = max(supply.refusals.items(), key=lambda item: (item[1].at, item[0]))
    return _words(offer, newest)


def resting(supply: Supply, now: float) -> tuple[str, float] | None:
    """The newest of the refusals after which something rests still, in words, and until when; None
    if nothing rests."""
    kept = {offer: each for offer, each in supply.refusals.items() if now < each.until}
    if not kept:
        return None
    offer, newest = max(kept.items(), key=lambda item: (item[1].at, item[0]))
    return _words(offer, newest), newest.until


def closed_until(supply: Supply, now: float) -> float | None:
    """Until when nothing at all may be asked for; None if something may. For pools whose offers
    are all one."""
    resting = supply.refusals.get(EVERY_OFFER)
    return resting.until if resting is not None and now < resting.until else None


def _words(offer: str, refusal: Refusal) -> str:
    if refusal.code == "failed":
        return refusal.text
    where = "" if offer == EVERY_OFFER else f" for {offer}"
    return f"{refusal.code}{where}: {refusal.text}"


def _recent(supply: Supply, now: float) -> dict[str, Refusal]:
    return {offer: each for offer, each in supply.refusals.items() if now < each.until + _FORGET_S}
