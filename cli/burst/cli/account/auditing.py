"""What `burst audit` finds: what comes and goes with work, and the account's side, which stays.

The former is found by tags and judged by records (`burst.runner.audit`). The latter is what
`burst up` made: it is there whole, or a `burst down` was interrupted and has left some of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from burst.cli.session import Session
from burst.core.aws.account import caller_account
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import BurstError
from burst.core.units import counted
from burst.runner.audit import WITHIN_S, Found, Verdict, answer_of, ask_aside, audit
from burst.runner.pools import open_gone
from burst.runner.pools.port import Pool

if TYPE_CHECKING:
    from burst.infra.account.removing import Unseen
    from burst.infra.account.sorts import Look, Thing

ACCOUNT = "(account)"
"""Stands for a pool where something is the whole cluster's."""
_FUNCTION = "aws:lambda/function:Function"
_STATE = ("store", "blobs")


@dataclass(frozen=True)
class Standing:
    """What is there of the account's side."""

    account: str
    things: Sequence[Thing]
    unseen: Sequence[Unseen] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """By id: the region of the cluster of the same name that has it."""
    stopped: Sequence[str] = ()
    """What should call the function and is switched off; `nothing` where all of it is gone."""


def find_all(session: Session, pools: Mapping[str, Pool]) -> list[Found]:
    """All that the cluster has in the cloud, and who answers for it."""
    cluster, gone = session.workspace.cluster, open_gone(session.workspace)
    if not is_built(cluster, session.environ):
        return audit(session.workspace, pools, gone)
    until = time.monotonic() + WITHIN_S
    asked = ask_aside(lambda: look(cluster, session.environ))
    found = audit(session.workspace, pools, gone)
    try:
        standing = answer_of(asked, until)
    except BurstError as error:
        return [_unseen("account", error), *found]
    assert cluster.aws is not None
    return with_standing(found, standing, by_function=cluster.has_function)


def is_built(cluster: ClusterConfig, environ: Mapping[str, str]) -> bool:
    """Whether the cluster has its state in what `burst up` makes."""
    return cluster.aws is not None and not (cluster.store or environ.get("BURST_STORE"))


def look(cluster: ClusterConfig, environ: Mapping[str, str]) -> Standing:
    """Ask AWS for every kind of thing that `burst up` makes, by tags and names.

    Raises:
        BurstError: whose account it is could not be learned.
    """
    from burst.core.aws.telling import told
    from burst.infra.account.regions import elsewhere
    from burst.infra.account.removing import find_things
    from burst.infra.account.sorts import Look
    from burst.infra.preflight.asking import Asking

    assert cluster.aws is not None
    region = cluster.aws.region
    account = caller_account(region)
    asking = Asking(region, environ)
    of = Look(cluster.cluster, account, region, asking)
    try:
        things, unseen = find_things(of, data=True)
        with told(f"cannot tell in which region roles of {cluster.cluster} belong"):
            others = elsewhere(of, things)
        stopped = _stopped(of, things) if cluster.has_function else ()
    finally:
        asking.close()
    return Standing(account, things, unseen, others, stopped)


def _stopped(of: Look, things: Sequence[Thing]) -> Sequence[str]:
    """What should call the function and does not. What cannot be learned is no finding here."""
    from burst.infra.preflight.asking import Unknown
    from burst.infra.standing.runner import look_runner

    if all(each.type != _FUNCTION for each in things):
        return ()
    found = look_runner(of)
    if isinstance(found, Unknown):
        return ()
    return found.stopped if found.calls else ("all that calls it is gone",)


def with_standing(found: Sequence[Found], standing: Standing, *, by_function: bool) -> list[Found]:
    """All findings together. Pure.

    Where table and bucket are known to be gone, that they do not answer is no finding.

    Args:
        by_function: whether a function is part of the account's side, which `burst down` removes
            before all else.
    """
    from burst.infra.engine.changes import DATA_TYPES

    mine = [each for each in standing.things if each.id not in standing.elsewhere]
    data = [each for each in mine if each.type in DATA_TYPES]
    rest = [each for each in mine if each.type not in DATA_TYPES]
    stands = any(each.type == _FUNCTION for each in rest) if by_function else bool(data)
    unseen = [_unseen(each.kind, each.error) for each in standing.unseen]
    others = [
        _thing(each, Verdict.OWNED, _of(standing.elsewhere[each.id]))
        for each in standing.things
        if each.id in standing.elsewhere
    ]
    if stands:
        return [*unseen, *_idle(standing, rest), _whole(standing, mine), *others, *found]
    if not data and not unseen:
        found = [each for each in found if each.kind not in _STATE]
    left = "a `burst down` has left it: run that again"
    kept = "`burst down --keep-data` kept it: `burst down --delete-data` deletes it"
    return [
        *unseen,
        *(_thing(each, Verdict.STRAY, left) for each in rest),
        *(_thing(each, Verdict.OWNED, kept) for each in data),
        *others,
        *found,
    ]


def _idle(standing: Standing, rest: Sequence[Thing]) -> list[Found]:
    """That the function is called for nothing, as after a `burst down` that was interrupted."""
    if not standing.stopped:
        return []
    will = (
        f"nobody acts for the cluster while it is not called ({', '.join(standing.stopped)}): "
        "`burst up` starts it again, or `burst down` goes on"
    )
    function = next(each for each in rest if each.type == _FUNCTION)
    return [_thing(function, Verdict.STOPPED, will)]


def _of(region: str) -> str:
    return f"it belongs to the cluster of this name in {region}"


def _whole(standing: Standing, mine: Sequence[Thing]) -> Found:
    things = counted(len(mine), "thing")
    will = f"{things} that `burst up` made: `burst down` removes them"
    what = (ACCOUNT, "account's side", standing.account, "", "", None)
    return Found(*what, verdict=Verdict.OWNED, will=will)


def _thing(thing: Thing, verdict: Verdict, will: str) -> Found:
    return Found(ACCOUNT, thing.kind, thing.id, "", "", None, verdict=verdict, will=will)


def _unseen(kind: str, error: BurstError) -> Found:
    will = f"it could not be looked at: {error.what}" + (f" ({error.why})" if error.why else "")
    return Found(ACCOUNT, "kind", kind, "", "", None, verdict=Verdict.UNKNOWN, will=will)
