"""Finding all that a cluster has in its account, and removing it without Pulumi's record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from burst.core.aws.answers import code_in
from burst.core.aws.telling import told
from burst.core.clock import Clock
from burst.core.errors import BurstError
from burst.infra.account.of_data import DATA
from burst.infra.account.of_ec2 import NETWORK
from burst.infra.account.of_iam import ACCESS
from burst.infra.account.of_runner import RUNNER
from burst.infra.account.sorts import Look, Sort, Thing, is_gone

_PAUSE_S = 5.0
_PATIENCE_S = 600.0
"""Network interfaces of endpoints and gateways outlive them for minutes, and hold their subnet."""
_PASSING = (
    "DependencyViolation",
    "DeleteConflict",
    "InvalidIPAddress.InUse",
    "ResourceInUseException",
    "IncorrectState",
    "AuthFailure",  # of an address that its gateway still has
)


@dataclass(frozen=True)
class Unseen:
    """A kind of thing that could not be looked for."""

    kind: str
    error: BurstError


def sorts(*, data: bool) -> Sequence[Sort]:
    """All kinds, in the order in which they can be removed.

    Args:
        data: the bucket and the table, too.
    """
    return (*RUNNER, *NETWORK, *ACCESS, *(DATA if data else ()))


def find_things(
    look: Look, *, data: bool, types: Collection[str] | None = None
) -> tuple[list[Thing], list[Unseen]]:
    """What carries the cluster's tag, and what could not be looked for.

    Args:
        data: the bucket and the table, too.
        types: of these types alone.
    """
    found: list[Thing] = []
    unseen: list[Unseen] = []
    for sort in sorts(data=data):
        if types is not None and sort.type not in types:
            continue
        try:
            with told(f"cannot look for {_plural(sort.kind)} of {look.cluster}"):
                found += [_thing(sort, each) for each in sort.find(look)]
        except BurstError as error:
            unseen.append(Unseen(sort.kind, error))
    return found, unseen


def remove_things(
    look: Look, things: Sequence[Thing], clock: Clock, tell: Callable[[Thing], None]
) -> list[tuple[Thing, BurstError]]:
    """Remove them, those that others hold again until these have gone; returns what is left, and
    why. Idempotent.

    Args:
        tell: what has been removed.
    """
    by_type = {sort.type: sort for sort in sorts(data=True)}
    left, until = list(things), clock.monotonic() + _PATIENCE_S
    while True:
        refused: list[tuple[Thing, _Held]] = []
        for thing in left:
            try:
                _remove(look, by_type[thing.type], thing)
                tell(thing)
            except _Held as held:
                refused.append((thing, held))
        if not any(held.passes for _, held in refused) or clock.monotonic() >= until:
            return [(thing, held.error) for thing, held in refused]
        if len(refused) == len(left):
            clock.sleep(_PAUSE_S)
        left = [thing for thing, _ in refused]


class _Held(Exception):
    """Something was not removed."""

    def __init__(self, error: BurstError, passes: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.passes = passes


def _remove(look: Look, sort: Sort, thing: Thing) -> None:
    code = ""
    try:
        with told(f"cannot remove {thing.kind} {thing.id}"):
            try:
                sort.remove(look, thing.id)
            except Exception as error:
                code = code_in(error)
                if not is_gone(error):
                    raise
    except BurstError as error:
        raise _Held(error, code in _PASSING) from error


def _thing(sort: Sort, id: str) -> Thing:
    return Thing(sort.kind, sort.type, id, sort.by_hand.format(id=id))


def _plural(kind: str) -> str:
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
