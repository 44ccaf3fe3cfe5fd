"""Follows what a Trainer is given of its training data, and has it go on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from burst.core.units import counted
from burst.harness.checkpoints.port import Tree
from burst.harness.errors import TrialError
from burst.harness.transformers.trainer.loading.books import Crew, Entry, Mark
from burst.harness.transformers.trainer.loading.generators import Generators

VERSION = 1


class Pass:
    """One iteration over the loader that is handed to the Trainer."""

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        self.consumed = 0
        self.ended = False
        self.entry: Entry | None = None
        """Where it can be gone on with, once it is over."""
        self.reading: Any = None


class Followed:
    """One training loader, as `follow` made it."""

    def __init__(
        self, loader: Any, source: Any, generators: Generators, length: int | None, told: str
    ) -> None:
        """`source` begins and enters passes over the torch loader underneath; `length` is how many
        batches it has, where that is certain."""
        self.loader = loader
        """To hand to the Trainer."""
        self.told = told
        """What is not as a reader would expect where a pass goes on; empty if nothing is."""
        self._source = source
        self._generators = generators
        self._length = length
        self._passes: list[Pass] = []
        self._current: Pass | None = None
        self._loaded: Tree = None
        self._skip = 0

    @property
    def consumed(self) -> int:
        """Batches that the Trainer was given in the present pass; 0 once that is at its end."""
        if self._loaded is not None:
            return int(self._loaded["consumed"])
        return 0 if self._current is None or self.ended else self._current.consumed

    @property
    def ended(self) -> bool:
        """Whether the present pass has given its last batch, as far as that can be known."""
        now = self._current
        return now is not None and (now.ended or self._is_at_end(now))

    def state(self) -> dict[str, Any]:
        """This rank's place. Taken between two batches, at every save; some ten kilobytes for
        every moment that may have to be gone back to, whatever the dataset's size."""
        if self._loaded is not None:
            return dict(self._loaded)
        now, ended = self._current, self.ended
        entry = None if now is None or ended else self._entry(now)
        crew = self._source.crew() if ended else None
        return {
            "version": VERSION,
            "consumed": self.consumed,
            "iteration": 0 if now is None else now.iteration + ended,
            "private": self._generators.private(),
            "entry": None if entry is None else entry.tree(),
            "crew": None if crew is None else crew.tree(),
        }

    def load_state(self, state: Tree) -> None:
        """Have the next pass begin where `state` was taken. Neither this nor the pass's beginning
        moves a random state but the loader's private ones, which are set to what they were.

        Raises:
            TrialError: if the state is none of these.
        """
        if not isinstance(state, dict) or state.get("version") != VERSION:
            raise TrialError(
                "the place in the training data cannot be read",
                why="it was not written by this version of burst",
                mend="resume with the version that wrote it; `burst checkpoint show` tells it",
            )
        self._passes.clear()
        self._current = None
        if hasattr(self.loader, "iteration"):
            self.loader.iteration = state["iteration"]
        self._generators.put_private(state["private"])
        self._loaded = state

    def skip(self, batches: int) -> None:
        """Have the next pass leave out its first batches, as where the Trainer resumes by itself.
        Nothing of that where `load_state` has said where to begin."""
        self._skip = batches if self._loaded is None else 0

    def skip_rest(self) -> None:
        """Leave out what `load_state` has left of its epoch: the next pass has a beginning."""
        self._loaded = None

    def opened(self) -> Any:
        """The torch loader's iterator for the pass that begins now."""
        now = self._current
        if now is None or now.reading is not None:  # read past the loader that is followed
            return self._source.begin()
        loaded, self._loaded = self._loaded, None
        skip, self._skip = self._skip, 0
        if skip:
            mark = Mark(skip * max(self._source.ahead, 1), skip, None)
            now.consumed = skip
            now.reading = self._source.enter(Entry(self._generators.take(), None, mark))
        elif loaded is None or loaded["entry"] is None:
            if loaded is not None and loaded["crew"] is not None:
                self._source.adopt(Crew.of(loaded["crew"]))
            now.reading = self._source.begin()
        else:
            entry = Entry.of(loaded["entry"])
            self._check_workers(entry)
            now.consumed = loaded["consumed"]
            now.reading = self._source.enter(entry)
        return now.reading

    def _check_workers(self, entry: Entry) -> None:
        """Each worker reads its own part of a stream, so their number makes its order."""
        places = getattr(self._source, "places", None)
        before = 0 if entry.crew is None else entry.crew.number
        now = self._source.workers
        if before == now or places is None or not places.is_stream:
            return
        raise TrialError(
            f"the place in a stream that {counted(before, 'worker')} read is none for {now}",
            why="a stream is divided among its workers, so its batches are others",
            mend=f"resume with dataloader_num_workers={before}",
        )

    def handed_out(self, make: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """The batches of a new pass, counted."""
        now = self._current = Pass(getattr(self.loader, "iteration", 0))
        return self._counted(now, make())

    def _counted(self, now: Pass, batches: Iterator[Any]) -> Iterator[Any]:
        self._passes.append(now)
        self._current = now
        try:
            for batch in batches:
                self._current = now
                now.consumed += 1
                yield batch
            now.ended = True
        finally:
            now.ended = now.ended or self._is_at_end(now)
            if not now.ended:
                self._entry(now)
            now.reading = None  # and with it go its workers
            # Another pass may have been made within this one, as an evaluation does.
            if now in self._passes:
                self._passes.remove(now)
                self._current = self._passes[-1] if self._passes else now

    def _entry(self, now: Pass) -> Entry | None:
        if now.reading is not None:
            now.entry = now.reading.entry(now.consumed * max(self._source.ahead, 1))
        return now.entry

    def _is_at_end(self, now: Pass) -> bool:
        if now.reading is None:
            return False
        ahead, books = self._source.ahead, now.reading.books
        if not ahead:
            if self._length is not None:
                return now.consumed >= self._length
            return bool(getattr(now.reading, "ended", False))
        if books.fetched:
            return bool(books.ended and now.consumed * ahead >= books.fetched)
        # Only the first process reads for them all.
        return bool(self.loader.end_of_dataloader)
