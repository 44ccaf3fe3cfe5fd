"""One kind of thing in an account: how those of a cluster are found, and how one is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from burst.core.aws.answers import code_in
from burst.core.aws.names import CLUSTER, untag
from burst.infra.preflight.asking import Asking


@dataclass(frozen=True)
class Look:
    """Whose things are looked for, and where."""

    cluster: str
    account: str
    region: str
    asking: Asking

    def client(self, service: str) -> Any:
        return self.asking.client(service)

    @property
    def prefix(self) -> str:
        """What begins the names of the cluster's things, and those of others whose name begins
        like it: tags tell them apart."""
        return f"burst-{self.cluster}"

    def owns(self, tags: object) -> bool:
        """Whether tags, as AWS gives them in one of its two ways, say that it is the cluster's."""
        found = tags if isinstance(tags, Mapping) else untag(tags)
        return found.get(CLUSTER) == self.cluster

    @property
    def filters(self) -> list[dict[str, Any]]:
        """EC2's, for what carries the cluster's tag."""
        return [{"Name": f"tag:{CLUSTER}", "Values": [self.cluster]}]


@dataclass(frozen=True)
class Sort:
    """Finding raises what boto3 raises; removing, too, and is idempotent: what is gone already
    counts as removed."""

    kind: str
    """In words: `VPC endpoint`."""
    type: str
    """Pulumi's: `aws:ec2/vpcEndpoint:VpcEndpoint`."""
    find: Callable[[Look], Iterable[str]]
    """Ids as Pulumi's record has them."""
    remove: Callable[[Look, str], None]
    by_hand: str
    """How a person removes one with AWS's command; `{id}` stands for it."""


@dataclass(frozen=True)
class Thing:
    """One thing that is there."""

    kind: str
    type: str
    id: str
    by_hand: str
    """The command that removes it."""


def pages(client: Any, operation: str, key: str, **asked: Any) -> Iterator[Any]:
    """All that the pages of a list hold."""
    if not client.can_paginate(operation):
        yield from getattr(client, operation)(**asked).get(key) or []
        return
    for page in client.get_paginator(operation).paginate(**asked):
        yield from page.get(key) or []


def is_gone(error: Exception) -> bool:
    """Whether AWS says that there is no such thing."""
    code = code_in(error)
    return (
        code.endswith((".NotFound", "NotFound", "NotFoundException", ".Malformed"))
        or code.startswith("NoSuch")
        or code in ("404", "ResourceNotFound", "InvalidLaunchTemplateId.NotFoundException")
    )
