"""What a kind of resource is to the double of Pulumi's engine, and the table of all kinds."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Callable
from typing import ClassVar

from tests.infra.double.cloud import Cloud, ProviderError
from tests.infra.double.values import Props


class Kind:
    """Makes, reads, changes and ends things of one type, through boto3.

    Properties have Pulumi's names (`cidrBlock`). Errors of AWS go up as they are. `known` is all
    that state has of a thing: its inputs and over them its outputs.
    """

    what: ClassVar[str] = ""
    """As the real provider calls it in errors: `EC2 VPC`."""
    replaces: ClassVar[frozenset[str]] = frozenset()
    """Properties that cannot be changed: another value makes another thing."""
    name: ClassVar[str] = ""
    """The property that names it among its like, made up if the program does not give it. A thing
    of a given name is deleted before another takes its place."""
    json: ClassVar[frozenset[str]] = frozenset()
    """Properties that are JSON documents, of which order and space do not count."""
    later: ClassVar[frozenset[str]] = frozenset()
    """Properties that count only after it is made, when it is changed or ended."""
    longest: ClassVar[int] = 255
    """Letters of a name that is made up."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def create(self, inputs: Props) -> str:
        """Make it and give its id. More calls than the first belong in `settle`, so that what a
        failure leaves behind is known."""
        raise NotImplementedError

    def settle(self, id: str, inputs: Props) -> None:
        """All else that it takes to make it so; harmless if done again."""

    def read(self, id: str, known: Props) -> Props | None:
        """Its outputs; None if it is gone."""
        raise NotImplementedError

    def update(self, id: str, old: Props, new: Props) -> None:
        """Change it in place; by default that is the same as settling it."""
        self.settle(id, new)

    def delete(self, id: str, known: Props) -> None:
        """Harmless if it is gone."""
        raise NotImplementedError

    def find(self, inputs: Props) -> str | None:
        """The id of one that was made of these inputs, and that state has not; None if there is
        none or nobody can tell."""
        return None

    def checked(self, name: str, inputs: Props, old: Props | None) -> Props:
        """The inputs with a name made up where there is none; one that it has stays."""
        if not self.name or self.name in inputs:
            return inputs
        if old is not None and self.name in old and self.name in old.get("__defaults", ()):
            return {**inputs, self.name: old[self.name], "__defaults": [self.name]}
        begin = inputs.get(f"{self.name}Prefix") or f"{name}-"
        end = randomness.token_hex(4)[:7]
        return {**inputs, self.name: begin[: self.longest - 7] + end, "__defaults": [self.name]}


KINDS: dict[str, type[Kind]] = {}


def kind(token: str) -> Callable[[type[Kind]], type[Kind]]:
    """Enter a class in the table."""

    def enter(made: type[Kind]) -> type[Kind]:
        KINDS[token] = made
        return made

    return enter


def kind_of(token: str) -> type[Kind]:
    """
    Raises:
        ProviderError: the double has no such kind.
    """
    import tests.infra.double.providers  # noqa: F401  enters all of them

    if token not in KINDS:
        raise ProviderError(f"the double of Pulumi knows no resource type {token}")
    return KINDS[token]
