"""What a cluster has in its account, before it is taken down."""

from __future__ import annotations

from dataclasses import dataclass, field

from burst.cli.account.emptying import Live, live_in, machines_of
from burst.cli.account.side import Side
from burst.cli.session import Session
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import BurstError, Refused
from burst.infra.account.of_data import bucket_of, not_ours, table_of
from burst.infra.account.removing import find_things
from burst.infra.account.sorts import Thing
from burst.infra.engine.changes import is_data, is_thing, type_of
from burst.infra.policies.place import GITHUB_ISSUER
from burst.infra.preflight.shared import SPOT_ROLE, needs_spot


@dataclass
class Found:
    """What there is to remove."""

    bucket: str = ""
    table: str = ""
    recorded: int = 0
    """Things that the record has."""
    things: list[Thing] = field(default_factory=list)
    """By tags, where there is no record."""
    others: list[tuple[Thing, Refused]] = field(default_factory=list)
    """Bucket or table of the cluster's name that is not its own, and why it is left."""
    recorded_data: frozenset[str] = frozenset()
    """Types of those of them that the record has."""
    machines: list[str] = field(default_factory=list)
    live: Live | None = None
    """None where the records cannot be read."""

    @property
    def has_data(self) -> bool:
        return bool(self.bucket or self.table)

    def __bool__(self) -> bool:
        return bool(self.recorded or self.things or self.machines or self.has_data)


def take_stock(session: Session, side: Side, *, now: bool) -> Found:
    """Look. Nothing is changed.

    Args:
        now: nothing has to checkpoint first.

    Raises:
        Refused: the records are there and cannot be read, so that nothing could checkpoint.
        BurstError: AWS does not answer.
    """
    look = side.look
    found = Found(bucket=bucket_of(look), table=table_of(look))
    found.others = not_ours(look)
    recorded = [str(each["urn"]) for each in side.engine.resources()]
    found.recorded = sum(map(is_thing, recorded))
    found.recorded_data = frozenset(map(type_of, filter(is_data, recorded)))
    if not found.recorded:
        found.things, _ = find_things(look, data=True)
    found.machines = machines_of(side.config.cluster, side.region)
    if found.table:
        found.live = _live(session, found, now)
    return found


def _live(session: Session, found: Found, now: bool) -> Live | None:
    try:
        return live_in(session.workspace)
    except BurstError as error:
        if now or not found.machines:
            return None
        raise Refused(
            "it cannot be told what trains, and so nothing can checkpoint first",
            why=f"{error.what}: {error.why}".rstrip(": "),
            mend="mend that, or add --now: machines are ended at once, and what they did "
            "since the newest checkpoint is lost",
        ) from error


def shared_by_all(config: ClusterConfig) -> list[str]:
    """What `burst up` made where it was missing, which is no cluster's to remove and costs
    nothing."""
    found = [f"spot's service role, {SPOT_ROLE}"] if needs_spot(config) else []
    if config.aws is not None and config.aws.github:
        found.append(f"GitHub as an issuer of identities, {GITHUB_ISSUER}")
    return found
