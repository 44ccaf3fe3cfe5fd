"""What every record is: a frozen value with an id and a version."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

Json = Any  # a value that JSON can hold; recursive aliases do not survive pydantic's schema


class Part(BaseModel):
    """A frozen piece of a record."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Record(Part):
    """What a store keeps: an id, a version that the store counts, and what it is found by."""

    kind: ClassVar[str]

    id: str
    version: int = 0
    """How often it was written; 0 is a record that no store holds yet. The store counts it."""

    @property
    def parent(self) -> str:
        """The id under which `Store.children` lists it; empty for those at the top."""
        return ""

    @property
    def pool_name(self) -> str:
        """The pool whose live records it belongs to; empty where it has none."""
        return ""

    @property
    def live(self) -> bool:
        """Whether reconcile has to look at it. Cost follows what is live, never history."""
        return False
