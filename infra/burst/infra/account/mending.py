"""After a kill: what was being made just then, and may be there or not.

Pulumi writes down that it begins to make a thing, and then what came of it. A command that was
killed in between leaves the former alone. What is there all the same is nobody's: it was never
used, so it is removed, and made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from burst.core.aws.telling import told
from burst.core.clock import Clock
from burst.core.errors import Refused
from burst.infra.account.of_data import is_empty, not_ours
from burst.infra.account.removing import find_things, remove_things
from burst.infra.account.sorts import Look, Thing, is_gone
from burst.infra.engine.changes import DATA_TYPES, kind_of, name_of
from burst.infra.engine.record import pending_in, resources_in, without_pending
from burst.infra.engine.stack import Engine

_RULES = ("aws:vpc/securityGroupIngressRule:", "aws:vpc/securityGroupEgressRule:")


def mend_pending(engine: Engine, look: Look, clock: Clock, tell: Callable[[str], None]) -> None:
    """Bring the record and the account together again. Idempotent.

    Raises:
        Refused: something is there that holds data, or cannot be removed.
        BurstError: the record cannot be read or written.
    """
    record = engine.export()
    pending = pending_in(record) if record else []
    if record is None or not pending:
        return
    made = [each["resource"] for each in pending if each.get("type") == "creating"]
    for each in made:
        tell(f"{_named(each)} was being made when burst was killed")
        _undo(look, each)
    orphans = _orphans(look, made, resources_in(record))
    _keep_data(look, [*orphans, *_unowned(look, made, resources_in(record))])
    left = remove_things(
        look, orphans, clock, lambda thing: tell(f"removed {thing.kind} {thing.id}")
    )
    if left:
        raise left[0][1]
    engine.restore(without_pending(record))


def tell_pending(engine: Engine, tell: Callable[[str], None]) -> None:
    """Say what would be brought together, and change nothing."""
    for each in pending_in(engine.export() or {}):
        what = _named(each["resource"])
        tell(f"{what} was under way when burst was killed; `burst up` looks for it first")


def _orphans(
    look: Look, made: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]]
) -> list[Thing]:
    """Things of the kinds that were being made, of which the record knows nothing."""
    types = {_found_as(str(each.get("type", ""))) for each in made}
    ids = {str(each.get("id", "")) for each in known}
    found, unseen = find_things(look, data=True, types=types)
    if unseen:
        raise unseen[0].error
    return [each for each in found if each.id not in ids]


def _unowned(
    look: Look, made: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]]
) -> list[Thing]:
    """Data without the cluster's tag, that nothing removes: there where some was being made."""
    types = {str(each.get("type", "")) for each in made}
    if not types & set(DATA_TYPES):
        return []
    ids = {str(each.get("id", "")) for each in known}
    others = [thing for thing, _ in not_ours(look)]
    return [each for each in others if each.type in types and each.id not in ids]


def _found_as(type: str) -> str:
    return "aws:vpc/securityGroupRule" if type.startswith(_RULES) else type


def _keep_data(look: Look, orphans: Sequence[Thing]) -> None:
    for each in orphans:
        if each.type in DATA_TYPES and not is_empty(look, each.type):
            raise Refused(
                f"{each.kind} {each.id} is there, holds data, and is not in the record",
                why="burst was killed while it made something of that kind",
                mend=f"if nobody needs what is in it: {each.by_hand}",
            )


def _undo(look: Look, resource: Mapping[str, Any]) -> None:
    """What has neither tags nor a name of its own goes by what it was to be."""
    undo = _UNDO.get(str(resource.get("type", "")))
    if undo is None:
        return
    with told(f"cannot undo {_named(resource)}"):
        try:
            undo(look, resource.get("inputs") or {})
        except Exception as error:
            if not is_gone(error):
                raise


def _route(look: Look, inputs: Mapping[str, Any]) -> None:
    look.client("ec2").delete_route(
        RouteTableId=inputs["routeTableId"], DestinationCidrBlock=inputs["destinationCidrBlock"]
    )


def _association(look: Look, inputs: Mapping[str, Any]) -> None:
    ec2 = look.client("ec2")
    answer = ec2.describe_route_tables(RouteTableIds=[inputs["routeTableId"]])
    for table in answer["RouteTables"]:
        for each in table.get("Associations") or []:
            if each.get("SubnetId") == inputs.get("subnetId"):
                ec2.disassociate_route_table(AssociationId=each["RouteTableAssociationId"])


def _permission(look: Look, inputs: Mapping[str, Any]) -> None:
    if inputs.get("statementId"):
        look.client("lambda").remove_permission(
            FunctionName=inputs["function"], StatementId=inputs["statementId"]
        )


_UNDO: Mapping[str, Callable[[Look, Mapping[str, Any]], None]] = {
    "aws:ec2/route:Route": _route,
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _association,
    "aws:lambda/permission:Permission": _permission,
}


def _named(resource: Mapping[str, Any]) -> str:
    return f"{kind_of(str(resource.get('type', '')))} {name_of(str(resource.get('urn', '')))}"
