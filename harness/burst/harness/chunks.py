"""Metrics in the chunks that a store holds: of one group each, numbered for good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from burst.core.model import MetricChunk, MetricRow

CHUNK_BYTES = 250_000
"""Bound on a chunk by our estimate, which is above what its encoding takes."""

Row = tuple[str, int, float, Mapping[str, float]]
"""Group, batches, time, metrics."""
Refused = Callable[[str, Sequence[int], Exception], None]
"""Told of a group, its batches whose metrics are none, and why."""


@dataclass(frozen=True)
class Origin:
    """Whose metrics they are."""

    trial: str
    attempt: int


class Chunks:
    """Numbers the chunks of each group, so that one that is sent again counts once."""

    def __init__(self, origin: Origin) -> None:
        self.base = 0
        """Batches that this attempt was restored at."""
        self._origin = origin
        self._seq: dict[str, int] = {}

    def sealed(self, rows: Iterable[Row], refused: Refused) -> list[MetricChunk]:
        """Chunks of the rows. Order within a group is kept."""
        groups: dict[str, list[MetricRow]] = {}
        for group, batches, at, metrics in rows:
            try:
                made = MetricRow(batches=batches, at=at, metrics=metrics)
            except ValidationError as error:
                refused(group, [batches], error)
            else:
                groups.setdefault(group, []).append(made)
        return [
            self._chunk(group, part) for group, all_ in groups.items() for part in _parts(all_)
        ]

    def _chunk(self, group: str, rows: list[MetricRow]) -> MetricChunk:
        seq = self._seq.get(group, 0)
        self._seq[group] = seq + 1
        return MetricChunk.model_construct(
            trial=self._origin.trial,
            attempt=self._origin.attempt,
            group=group,
            seq=seq,
            base=self.base,
            rows=tuple(rows),
        )


def _parts(rows: list[MetricRow]) -> Iterable[list[MetricRow]]:
    part: list[MetricRow] = []
    size = 0
    for row in rows:
        estimate = 60 + sum(len(key.encode("utf-8", "surrogatepass")) + 30 for key in row.metrics)
        if part and size + estimate > CHUNK_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += estimate
    if part:
        yield part
