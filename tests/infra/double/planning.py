"""What has to be done with a resource, from what is known and what is wanted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.infra.double.kinds import Kind
from tests.infra.double.state import Resource
from tests.infra.double.values import Props, comparable, same_json


@dataclass(frozen=True)
class Plan:
    """`op`: create, same, update or replace."""

    op: str
    changed: tuple[str, ...] = ()
    delete_first: bool = False


def plan(
    old: Resource | None,
    inputs: Props,
    kind: type[Kind],
    replace_on: Sequence[str] = (),
    delete_first: bool | None = None,
) -> Plan:
    """
    Args:
        inputs: as the program gives them, `ignored` ones already put back.
        replace_on: more properties whose change makes another thing; `*` for all.
        delete_first: what the program says of it, if it says anything.
    """
    if old is None or old.external:
        return Plan("create")
    changed = changes(old.inputs, inputs, kind.json)
    forcing = {*kind.replaces, *([kind.name] if kind.name else []), *replace_on}
    if changed and ("*" in replace_on or forcing.intersection(changed)):
        named = bool(kind.name) and kind.name not in inputs.get("__defaults", ())
        clash = named and kind.name not in changed
        return Plan("replace", changed, clash if delete_first is None else delete_first)
    if changed or old.init_errors:
        return Plan("update", changed)
    return Plan("same")


def changes(old: Props, new: Props, json: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the properties that differ."""
    names = sorted({*old, *new} - {name for name in (*old, *new) if name.startswith("__")})
    documents = frozenset(json)

    def differ(name: str) -> bool:
        a, b = comparable(old.get(name)), comparable(new.get(name))
        return not (same_json(a, b) if name in documents else a == b)

    return tuple(name for name in names if differ(name))


def ignoring(old: Props, new: Props, paths: Iterable[str]) -> Props:
    """`new`, but with what `old` has at these paths (`tags`, `tags.Name`, `*`)."""
    for path in paths:
        if path == "*":
            return dict(old)
        new = _put_back(old, new, path.split("."))
    return new


def _put_back(old: Props, new: Props, path: list[str]) -> Props:
    key, rest = path[0], path[1:]
    if rest and isinstance(new.get(key), dict) and isinstance(old.get(key), dict):
        return {**new, key: _put_back(old[key], new[key], rest)}
    if rest and key not in old and key not in new:
        return new
    if key in old and not rest:
        return {**new, key: old[key]}
    return {name: value for name, value in new.items() if name != key} if not rest else new


def falls_with(
    first: Resource, others: Sequence[Resource], kinds: dict[str, type[Kind]]
) -> list[Resource]:
    """Those that have to be made anew because `first` is deleted before it is replaced: a property
    that they cannot change comes from it, or from one of them."""
    found, urns = list[Resource](), {first.urn}
    for each in others:  # each after all that it needs
        kind = kinds.get(each.type)
        if kind is None or each.delete or each.urn in urns:
            continue
        forcing = {*kind.replaces, kind.name}
        sources = {
            urn
            for key, found_in in each.property_dependencies.items()
            if key in forcing
            for urn in found_in
        }
        if sources & urns:
            found.append(each)
            urns.add(each.urn)
    return found
