"""What is made, changed and removed: Pulumi's steps as a list that a person can read. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

DATA_TYPES = ("aws:dynamodb/table:Table", "aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2")
"""What holds data that nothing can bring back."""
DATA_COMPONENT = "burst:infra:Storage"
"""All below it stays with the data: what keeps the bucket private, too."""
_COMPONENT = re.compile(r"burst:infra:(\w+)")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z]|\b|[0-9])|[A-Z]?[a-z0-9]+|[A-Z]")
_ACRONYMS = {"vpc": "VPC", "iam": "IAM", "eip": "elastic IP", "nat": "NAT", "sns": "SNS"}
_WITHOUT = re.compile(r"(?<=[a-z])[vV]2\Z")


class Op(StrEnum):
    """What becomes of a resource."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    SAME = "same"


_OPS = {
    "create": Op.CREATE,
    "import": Op.CREATE,
    "update": Op.UPDATE,
    "delete": Op.DELETE,
    "discard": Op.DELETE,
    "same": Op.SAME,
    "read": Op.SAME,
    "refresh": Op.SAME,
    "replace": Op.REPLACE,
    "create-replacement": Op.REPLACE,
    "delete-replaced": Op.REPLACE,
    "import-replacement": Op.REPLACE,
    "read-replacement": Op.REPLACE,
    "discard-replaced": Op.REPLACE,
    "remove-pending-replace": Op.REPLACE,
}
"""Pulumi's words for steps."""


@dataclass(frozen=True)
class Change:
    """One resource, and what is done with it."""

    urn: str
    op: Op
    why: tuple[str, ...] = ()
    """Names of the properties that differ."""

    @property
    def type(self) -> str:
        """`aws:ec2/vpc:Vpc`."""
        return type_of(self.urn)

    @property
    def name(self) -> str:
        return name_of(self.urn)

    @property
    def component(self) -> str:
        """`network`: the part of the cluster that it belongs to."""
        return component_of(self.urn)

    @property
    def kind(self) -> str:
        """`launch template`: its type in words."""
        return kind_of(self.type)

    @property
    def loses_data(self) -> bool:
        return self.op in (Op.REPLACE, Op.DELETE) and self.type in DATA_TYPES


@dataclass(frozen=True)
class Changes:
    """All of one preview or update, in the order in which they were told."""

    rows: tuple[Change, ...]

    @classmethod
    def of(cls, steps: Iterable[Change]) -> Changes:
        """One row a resource: of its steps the gravest counts, and components are left out."""
        found: dict[str, Change] = {}
        for step in steps:
            if not is_thing(step.urn):
                continue
            before = found.get(step.urn)
            if before is None or _GRAVITY[step.op] >= _GRAVITY[before.op]:
                why = step.why or (before.why if before is not None else ())
                found[step.urn] = Change(step.urn, step.op, why)
        return cls(tuple(found.values()))

    def __bool__(self) -> bool:
        return bool(self.doing)

    @property
    def doing(self) -> list[Change]:
        """Without what stays as it is."""
        return [row for row in self.rows if row.op is not Op.SAME]

    @property
    def losing(self) -> list[Change]:
        """Those that would lose data."""
        return [row for row in self.rows if row.loses_data]

    def counts(self) -> Mapping[Op, int]:
        return Counter(row.op for row in self.rows)

    def by_component(self) -> Mapping[str, Sequence[Change]]:
        """What is done, by the part of the cluster, in the order of its first step."""
        grouped: dict[str, list[Change]] = {}
        for row in self.doing:
            grouped.setdefault(row.component, []).append(row)
        return grouped


_GRAVITY = {Op.SAME: 0, Op.UPDATE: 1, Op.CREATE: 2, Op.DELETE: 2, Op.REPLACE: 3}


def step(op: str, urn: str, why: Iterable[str] = ()) -> Change:
    """One of Pulumi's steps; one with a word that is not known counts as a change."""
    return Change(urn, _OPS.get(op, Op.UPDATE), tuple(why))


def is_thing(urn: str) -> bool:
    """Whether it is something in AWS, and no component, provider or stack of Pulumi's own."""
    return type_of(urn).startswith("aws:")


def is_data(urn: str) -> bool:
    """Whether it stays where the data is kept: the bucket, the table, and what belongs to them."""
    return DATA_COMPONENT in _chain(urn).split("$")


def type_of(urn: str) -> str:
    return _chain(urn).rpartition("$")[2]


def name_of(urn: str) -> str:
    return urn.split("::", 3)[-1]


def component_of(urn: str) -> str:
    found = _COMPONENT.findall(_chain(urn))
    return " ".join(_words(found[-1])) if found else ""


def kind_of(type: str) -> str:
    """`aws:ec2/launchTemplate:LaunchTemplate` in words: `launch template`."""
    words = _words(_WITHOUT.sub("", type.rpartition(":")[2]))
    return " ".join(_ACRONYMS.get(word, word) for word in words)


def _chain(urn: str) -> str:
    parts = urn.split("::", 3)
    return parts[2] if len(parts) == 4 else ""


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
