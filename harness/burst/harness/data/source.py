"""The training loop's source of batches over a dataset whose rows have numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from burst.core.model import Json
from burst.harness.data.errors import DataError
from burst.harness.data.fetch import Fetcher
from burst.harness.data.order import Deal, tickets_from
from burst.harness.data.workers import Workers, serve


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


def digest(identity: Mapping[str, Any]) -> str:
    text = json.dumps(identity, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
