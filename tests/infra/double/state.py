"""What the double of Pulumi's engine remembers of a stack, in the real format of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.infra.double.values import Props

_NAMES = {
    "urn": "urn",
    "custom": "custom",
    "id": "id",
    "type": "type",
    "inputs": "inputs",
    "outputs": "outputs",
    "parent": "parent",
    "provider": "provider",
    "dependencies": "dependencies",
    "property_dependencies": "propertyDependencies",
    "protect": "protect",
    "retain_on_delete": "retainOnDelete",
    "deleted_with": "deletedWith",
    "delete": "delete",
    "external": "external",
    "init_errors": "initErrors",
}


@dataclass
class Resource:
    """One resource as it was last seen. `delete` marks one that another has replaced, and that
    is still to be deleted."""

    urn: str
    type: str
    custom: bool
    id: str = ""
    inputs: Props = field(default_factory=dict)
    outputs: Props = field(default_factory=dict)
    parent: str = ""
    provider: str = ""
    dependencies: list[str] = field(default_factory=list)
    property_dependencies: dict[str, list[str]] = field(default_factory=dict)
    protect: bool = False
    retain_on_delete: bool = False
    deleted_with: str = ""
    delete: bool = False
    external: bool = False
    init_errors: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.urn.rpartition("::")[2]

    @property
    def provider_urn(self) -> str:
        return self.provider.rpartition("::")[0]

    def needs(self) -> set[str]:
        """URNs of what must be there as long as this is."""
        found = {self.parent, self.provider_urn, self.deleted_with, *self.dependencies}
        for urns in self.property_dependencies.values():
            found.update(urns)
        return found - {"", self.urn}

    def to_json(self) -> Props:
        values = {told: getattr(self, name) for name, told in _NAMES.items()}
        return {
            told: value
            for told, value in values.items()
            if value not in ("", False, [], {}) or told in ("urn", "custom", "type")
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Resource:
        known = {name: told[key] for name, key in _NAMES.items() if key in told}
        return Resource(**known)


@dataclass
class Pending:
    """An operation that had begun when this was written: `creating`, `updating`, `deleting`."""

    type: str
    resource: Resource

    def to_json(self) -> Props:
        return {"type": self.type, "resource": self.resource.to_json()}


@dataclass
class Snapshot:
    resources: list[Resource] = field(default_factory=list)
    """Each after all that it needs."""
    pending: list[Pending] = field(default_factory=list)

    def to_json(self) -> Props:
        return {
            "manifest": {"time": "0001-01-01T00:00:00Z", "magic": "", "version": "v3.200.0"},
            "resources": [each.to_json() for each in self.resources],
            **(
                {"pending_operations": [each.to_json() for each in self.pending]}
                if self.pending
                else {}
            ),
        }

    @staticmethod
    def from_json(told: Mapping[str, Any] | None) -> Snapshot:
        told = told or {}
        pending = told.get("pending_operations") or []
        return Snapshot(
            [Resource.from_json(each) for each in told.get("resources") or []],
            [Pending(each["type"], Resource.from_json(each["resource"])) for each in pending],
        )

    @property
    def root(self) -> Resource | None:
        """The stack itself, which has the outputs."""
        stacks = (each for each in self.resources if each.type == "pulumi:pulumi:Stack")
        return next(stacks, None)


def in_order(resources: Iterable[Resource]) -> list[Resource]:
    """Each after all that it needs; otherwise in the order given. Of one URN, the copies that are
    to be deleted come last."""
    waiting, done = list(resources), list[Resource]()
    names: set[str] = set()
    while waiting:
        left = {each.urn for each in waiting}
        ready = [each for each in waiting if not (each.needs() & left - names)]
        if not ready:  # a circle through copies that are to be deleted
            ready = waiting[:1]
        done += ready
        names |= {each.urn for each in ready}
        waiting = [each for each in waiting if not any(each is other for other in ready)]
    return done


def generations(condemned: Sequence[Resource]) -> list[list[Resource]]:
    """What may be deleted first, then what may be once that is gone, and so on: a thing goes only
    after all that need it."""
    waiting, found = list(condemned), list[list[Resource]]()
    while waiting:
        free = [each for each in waiting if not _needed(each, waiting)]
        if not free:
            raise ValueError(f"a circle of resources: {[each.urn for each in waiting]}")
        found.append(free)
        waiting = [each for each in waiting if not any(each is other for other in free)]
    return found


def _needed(one: Resource, others: Sequence[Resource]) -> bool:
    return any(one.urn in other.needs() for other in others if other is not one)


def copy_of(resource: Resource, **changes: Any) -> Resource:
    return replace(resource, **changes)
