"""What a program asks for: a registration, as the double of Pulumi's engine takes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.infra.double.values import Props, from_struct, hashed


@dataclass(frozen=True)
class Asked:
    """One registration, with its options."""

    type: str
    name: str
    parent: str
    custom: bool
    inputs: Props
    provider: str
    dependencies: tuple[str, ...]
    property_dependencies: dict[str, list[str]]
    protect: bool
    retain_on_delete: bool
    delete_first: bool | None
    ignored: tuple[str, ...]
    replace_on: tuple[str, ...]
    secret_outputs: tuple[str, ...]
    deleted_with: str
    import_id: str
    aliases: tuple[str, ...]
    """URNs that it had before."""

    def needs(self) -> set[str]:
        """URNs of what must be there first."""
        return {self.parent, *self.dependencies}.union(*self.property_dependencies.values())

    def urn(self, stack: str, project: str) -> str:
        return urn_of(stack, project, self.parent, self.type, self.name)


ROOT = "pulumi:pulumi:Stack"


def root_urn(stack: str, project: str) -> str:
    """Of the stack itself."""
    return urn_of(stack, project, "", ROOT, f"{project}-{stack}")


def urn_of(stack: str, project: str, parent: str, type: str, name: str) -> str:
    """A URN has the types of all components above it."""
    above = parent.split("::")[2] if parent else ""
    chain = "" if above in ("", ROOT) else f"{above}$"
    return f"urn:pulumi:{stack}::{project}::{chain}{type}::{name}"


def asked_of(request: Any, stack: str, project: str) -> Asked:
    """From the message `RegisterResourceRequest`.

    Raises:
        OSError: a file or an archive that it names is not there.
    """
    property_dependencies = {
        key: list(value.urns) for key, value in request.propertyDependencies.items() if value.urns
    }
    return Asked(
        type=request.type,
        name=request.name,
        parent=request.parent,
        custom=request.custom,
        inputs=hashed(from_struct(request.object)),
        provider=request.provider or request.providers.get("aws", ""),
        dependencies=tuple(request.dependencies),
        property_dependencies=property_dependencies,
        protect=request.protect,
        retain_on_delete=request.retainOnDelete,
        delete_first=request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None,
        ignored=tuple(request.ignoreChanges),
        replace_on=tuple(request.replaceOnChanges),
        secret_outputs=tuple(request.additionalSecretOutputs),
        deleted_with=request.deletedWith,
        import_id=request.importId,
        aliases=tuple(_aliases(request, stack, project)),
    )


def _aliases(request: Any, stack: str, project: str) -> Iterable[str]:
    yield from request.aliasURNs
    for alias in request.aliases:
        if alias.WhichOneof("alias") == "urn":
            yield alias.urn
            continue
        spec = alias.spec
        parent = "" if spec.noParent else spec.parentUrn or request.parent
        yield urn_of(
            spec.stack or stack,
            spec.project or project,
            parent,
            spec.type or request.type,
            spec.name or request.name,
        )
