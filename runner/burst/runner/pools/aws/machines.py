"""The cluster's machines and what else carries its tags: found, observed, ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from burst.core.aws.names import CLUSTER, LAUNCH, POOL, untag
from burst.core.errors import Unreachable
from burst.core.model import Node
from burst.runner.pools.aws.ec2 import Ec2, Ec2Error, date_of
from burst.runner.pools.aws.fleet import Instance, read_instance
from burst.runner.pools.port import Liveness, Machine

VISIBLE_WITHIN_S = 300.0
"""A machine that EC2 has made may not be in its lists for so long."""
MADE_WITHIN_S = 300.0
"""From its intent until a machine is made, or never."""
_CLOCKS_DIFFER_S = 600.0
"""How far apart the dates of two runners may be, of whom one is early and one late."""
_NOT_THERE = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
_GROUP_GONE = "InvalidPlacementGroup.Unknown"
_GROUP_IN_USE = "InvalidPlacementGroup.InUse"


@dataclass(frozen=True)
class Sight:
    """What EC2 listed at one moment."""

    instances: Mapping[str, Instance]
    date: float | None
    """By EC2's clock; None where it did not say."""


@dataclass(frozen=True)
class Ended:
    """What EC2 said when it was told to end machines."""

    states: Mapping[str, str]
    """By machine; one that EC2 does not know is not in it."""
    date: float | None
    """By EC2's clock; None where it did not say."""


class Machines:
    """The instances of a cluster, or of one pool of it."""

    def __init__(self, cluster: str, pool: str | None, ec2: Ec2) -> None:
        """
        Args:
            pool: empty for every pool; None for those that carry no pool's tag.
        """
        self._cluster = cluster
        self._pool = pool
        self._ec2 = ec2

    def look(self, launch: str = "") -> Sight:
        """The pool's machines, ended ones too for as long as EC2 remembers them (an hour).

        Args:
            launch: of this request only.

        Raises:
            Unreachable, Refused: EC2 did not answer, or refused.
        """
        tags = {CLUSTER: self._cluster, POOL: self._pool or "", LAUNCH: launch}
        filters = [
            {"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items() if value
        ]
        found: dict[str, Instance] = {}
        date: float | None = None
        try:
            for answer in self._ec2.pages("describe_instances", Filters=filters):
                date = date_of(answer) or date
                for reservation in answer["Reservations"]:
                    for raw in reservation["Instances"]:
                        # Whatever the filter let through: what is ended goes by its own tags.
                        each, owner = read_instance(raw), untag(raw.get("Tags")).get(CLUSTER)
                        if owner == self._cluster and (self._pool is not None or not each.pool):
                            found[each.id] = each
        except Ec2Error as error:
            raise error.as_refused() from error
        return Sight(found, date)

    def end(self, ids: Sequence[str]) -> Ended:
        """End machines; idempotent. One wrong id fails a whole request, and then each is ended by
        itself.

        Raises:
            Unreachable, Refused: EC2 did not answer, or refused.
        """
        if not ids:
            return Ended({}, None)
        try:
            answer = self._ec2.call("terminate_instances", InstanceIds=list(ids))
        except Ec2Error as error:
            if error.code not in _NOT_THERE:
                raise error.as_refused() from error
            if len(ids) == 1:
                return Ended({}, error.date)
            singly = [self.end([id]) for id in ids]
            states = {id: state for one in singly for id, state in one.states.items()}
            return Ended(states, singly[-1].date)
        states = {
            each["InstanceId"]: each["CurrentState"]["Name"]
            for each in answer["TerminatingInstances"]
        }
        return Ended(states, date_of(answer))

    def delete_group(self, name: str) -> bool:
        """Delete a placement group; False while machines are in it, which EC2 says for a while
        after they have ended. Idempotent."""
        try:
            self._ec2.call("delete_placement_group", GroupName=name)
        except Ec2Error as error:
            if error.code == _GROUP_IN_USE:
                return False
            if error.code != _GROUP_GONE:
                raise error.as_refused() from error
        return True


def liveness(node: Node, sight: Sight, now: float) -> Liveness:
    """Whether a node's machine exists. One that EC2 does not list may be too new to be seen.

    Args:
        now: by the caller's clock, which only counts where EC2's cannot tell.
    """
    id = str(node.handle.get("instance", ""))
    found = sight.instances.get(id)
    if found is not None:
        return Liveness.ALIVE if found.alive else Liveness.DEAD
    launch = node.launch or node.id
    if not id and any(each.launch == launch and each.alive for each in sight.instances.values()):
        return Liveness.UNKNOWN  # one of them may be its own
    return Liveness.UNKNOWN if may_be_too_new(node, sight.date, now) else Liveness.DEAD


def may_be_too_new(node: Node, date: float | None, now: float) -> bool:
    """Whether the node's machine may exist although EC2 does not list it yet.

    Args:
        date: EC2's clock when it was asked.
    """
    patience = MADE_WITHIN_S + VISIBLE_WITHIN_S
    ahead = node.ask.get("ahead")
    if ahead is not None and date is not None:
        return date - (node.requested + float(ahead)) < patience
    return now - node.requested < patience + _CLOCKS_DIFFER_S


def not_visible(node: Node) -> Unreachable:
    return Unreachable(
        f"EC2 does not show the machine of node {node.id} yet",
        why=f"instance {node.handle.get('instance')} was made some minutes ago at most",
        mend="it is tried again",
    )


def as_machines(sight: Sight) -> list[Machine]:
    """Those that have not ended, with their ages by EC2's clock alone."""
    return [
        Machine(
            id=each.id,
            launch=each.launch,
            liveness=Liveness.ALIVE,
            age=_age(each.made, sight.date),
            handle=each.handle,
        )
        for each in _by_id(sight.instances.values())
        if each.alive
    ]


def _age(made: float | None, date: float | None) -> float | None:
    return None if made is None or date is None else max(0.0, date - made)


def _by_id(instances: Iterable[Instance]) -> list[Instance]:
    return sorted(instances, key=lambda each: each.id)
