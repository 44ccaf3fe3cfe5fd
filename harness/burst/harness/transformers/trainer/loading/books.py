"""What is remembered of a pass over a loader's batches, and what a checkpoint keeps of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from burst.harness.checkpoints.port import Tree
from burst.harness.transformers.trainer.loading.generators import Snapshot


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
    """Before its first fetch in this process, when most samplers draw their order."""
    fetched: int = 0
    ended: bool = False
    marks: deque[Mark] = field(default_factory=lambda: deque(maxlen=2))


@dataclass(frozen=True)
class Crew:
    """The worker processes of a loader, as they are to be found again."""

    number: int
    seed: int
    """What torch seeds each from, plus its number."""
    left: dict[int, Tree] = field(default_factory=dict)
    """What each was left in: its random states, and its place in a stream."""
    turn: int = 0
    """Which one the next batch comes from."""
    restarted: bool = False
    """Whether they had been through a pass before."""

    def tree(self) -> Tree:
        """What `of` takes back."""
        return dict(vars(self))

    @staticmethod
    def of(tree: Tree) -> Crew:
        """The crew that `tree` formed."""
        return Crew(**tree)


@dataclass(frozen=True)
class Entry:
    """Where the next pass begins instead of at its beginning."""

    opening: Snapshot
    first: Snapshot | None
    mark: Mark
    """Its random states are None where the batch that comes next had not been fetched here."""
    crew: Crew | None = None

    def tree(self) -> Tree:
        """What `of` takes back."""
        return {
            "opening": self.opening.tree(),
            "first": None if self.first is None else self.first.tree(),
            "mark": self.mark.tree(),
            "crew": None if self.crew is None else self.crew.tree(),
        }

    @staticmethod
    def of(tree: Tree) -> Entry:
        """The entry that `tree` formed."""
        return Entry(
            Snapshot.of(tree["opening"]),
            None if tree["first"] is None else Snapshot.of(tree["first"]),
            Mark.of(tree["mark"]),
            None if tree["crew"] is None else Crew.of(tree["crew"]),
        )
