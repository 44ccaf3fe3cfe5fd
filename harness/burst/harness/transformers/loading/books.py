"""What is remembered of a pass over a loader's batches, and what a checkpoint keeps of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from burst.harness.checkpoints.port import Tree
from burst.harness.transformers.loading.generators import Snapshot

VERSION = 1


@dataclass(frozen=True)
class Mark:
    """The moment before a fetch."""

    batch: int
    """Number of the fetched batch within the pass, from 0."""
    pulled: int
    """Steps that had been taken of the sampler."""
    random: Snapshot | None
    place: Tree = None
    """The dataset's own state, where it is read forward."""

    def tree(self) -> Tree:
        """What `of` takes back."""
        random = None if self.random is None else self.random.tree()
        return {"batch": self.batch, "pulled": self.pulled, "random": random, "place": self.place}

    @staticmethod
    def of(tree: Tree) -> Mark:
        """The mark that `tree` formed."""
        random = None if tree["random"] is None else Snapshot.of(tree["random"])
        return Mark(tree["batch"], tree["pulled"], random, tree["place"])


@dataclass
class Books:
    """Of one iterator of a torch loader."""

    opening: Snapshot
    """Before the iterator was made."""
    first: Snapshot | None = None
    """Before its first fetch, which is when most samplers draw their order."""
    fetched: int = 0
    ended: bool = False
    marks: deque[Mark] = field(default_factory=lambda: deque(maxlen=2))
    workers: dict[int, Tree] = field(default_factory=dict)
    """Of each worker process, what it was left in by the last batch of its that is consumed."""


@dataclass(frozen=True)
class Entry:
    """Where the next pass begins instead of at its beginning."""

    opening: Snapshot
    first: Snapshot | None
    mark: Mark
    """Its random states are None where the batch that comes next had not been fetched."""
    workers: dict[int, Tree] = field(default_factory=dict)

    def tree(self) -> dict[str, Any]:
        """What `of` takes back."""
        return {
            "opening": self.opening.tree(),
            "first": None if self.first is None else self.first.tree(),
            "mark": self.mark.tree(),
            "workers": self.workers,
        }

    @staticmethod
    def of(tree: Tree) -> Entry:
        """The entry that `tree` formed."""
        return Entry(
            Snapshot.of(tree["opening"]),
            None if tree["first"] is None else Snapshot.of(tree["first"]),
            Mark.of(tree["mark"]),
            dict(tree["workers"]),
        )
