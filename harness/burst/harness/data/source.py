"""The training loop's sources of batches: rows by number, and streams."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from burst.core.model import Json
from burst.harness.data.errors import DataError
from burst.harness.data.fetch import Fetcher
from burst.harness.data.order import Deal, tickets_from
from burst.harness.data.stream import Place, StreamReader
from burst.harness.data.workers import Workers, read, serve


class MapSource:
    """A BatchSource whose whole state is its position."""

    def __init__(
        self, deal: Deal, fetch: Fetcher, workers: Workers, identity: Mapping[str, Any]
    ) -> None:
        self._deal = deal
        self._fetch = fetch
        self._workers = workers
        self._identity = identity
        self._open: Generator[Any, None, None] | None = None

    @property
    def batches_per_epoch(self) -> int:
        return self._deal.batches_per_epoch

    @property
    def records_per_batch(self) -> int:
        return self._deal.records_per_batch

    def batches(self, position: int) -> Iterator[Any]:
        if position < 0:
            raise DataError(f"there is no batch at position {position}", mend="count from 0")
        self.close()
        self._open = serve(self._fetch, tickets_from(self._deal, position), self._workers)
        return self._open

    def state(self) -> Json:
        return None

    def load_state(self, state: Json) -> None:
        if state is not None:
            raise DataError(
                "the checkpoint holds the state of a stream, and the data is not one",
                why="the dataset was an iterable one when the checkpoint was written",
                mend="use the dataset that the trial began with, or start a new trial",
            )

    def fingerprint(self) -> str:
        return digest(self._identity)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class StreamSource:
    """A BatchSource whose place is a state of the dataset's own."""

    batches_per_epoch = None

    def __init__(
        self, make: Callable[[Place], StreamReader], workers: Workers, identity: Mapping[str, Any]
    ) -> None:
        self.records_per_batch: int = identity["records_per_batch"]
        self._make = make
        self._workers = workers
        self._identity = identity
        self._place = Place()
        self._open: Generator[tuple[Any, Place], None, None] | None = None

    def batches(self, position: int) -> Iterator[Any]:
        """From the place that `load_state` named, or from the beginning; batches between there
        and `position` are read over."""
        self.close()
        over = position - self._place.batch
        if over < 0:
            raise DataError(
                f"the stream is at batch {self._place.batch} and cannot go back to {position}",
                mend="load the state that belongs to the position, or make a new source",
            )
        self._open = read(self._make(self._place), self._workers)
        return islice(self._follow(self._open), over, None)

    def _follow(self, pairs: Iterator[tuple[Any, Place]]) -> Iterator[Any]:
        for batch, self._place in pairs:
            yield batch

    def state(self) -> Json:
        return {**asdict(self._place), "split": self._identity["split"]}

    def load_state(self, state: Json) -> None:
        if not isinstance(state, dict) or {*state} != {"batch", "epoch", "rows", "state", "split"}:
            raise DataError(
                "the checkpoint does not hold the place of a stream",
                why="the dataset was not a stream when the checkpoint was written",
                mend="use the dataset that the trial began with, or start a new trial",
            )
        if state["split"] != self._identity["split"]:
            raise DataError(
                f"the stream was split for {state['split']} ranks, and now is for "
                f"{self._identity['split']}",
                why="a rank's place in its own split means nothing in another",
                mend="resume with as many ranks as before, or hand over the stream unsplit",
            )
        self._place = Place(**{name: state[name] for name in asdict(self._place)})

    def fingerprint(self) -> str:
        return digest(self._identity)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def digest(identity: Mapping[str, Any]) -> str:
    text = json.dumps(identity, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
