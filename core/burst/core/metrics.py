"""Reading metric chunks as one series, whatever attempts wrote them."""

from __future__ import annotations

from collections.abc import Iterable

from burst.core.model import MetricChunk, MetricRow

HARDWARE = "hardware"
"""The group of samples that the agent takes by the clock. They tell of the machine, not of the
training, so all of them stand, in the order of time."""
VALIDATED = "trial.validated"
"""The event of a validation that a searcher waits for. It wakes runners; the metrics tell more."""


def merge(chunks: Iterable[MetricChunk]) -> dict[str, list[MetricRow]]:
    """The rows of each group by batches, as an uninterrupted trial would have reported them.

    An attempt that was restored at `base` batches trains again what lies beyond `base`, so its
    rows replace all that earlier attempts had reported there. Of two rows of one attempt at the
    same batches the later one stands. Chunks may come in any order, and more than once.
    """
    groups: dict[str, list[MetricChunk]] = {}
    for chunk in chunks:
        groups.setdefault(chunk.group, []).append(chunk)
    return {group: _merge_group(groups[group]) for group in sorted(groups)}


def _merge_group(chunks: list[MetricChunk]) -> list[MetricRow]:
    once = {(chunk.attempt, chunk.seq): chunk for chunk in chunks}
    if chunks[0].group == HARDWARE:
        samples = (row for key in sorted(once) for row in once[key].rows)
        return sorted(samples, key=lambda row: row.at)
    rows: dict[int, MetricRow] = {}
    attempt = None
    bases: dict[int, int] = {}
    for chunk in chunks:  # it may have reported something before it was restored
        bases[chunk.attempt] = max(chunk.base, bases.get(chunk.attempt, 0))
    for chunk in (once[key] for key in sorted(once)):
        if chunk.attempt != attempt:
            attempt = chunk.attempt
            rows = {at: row for at, row in rows.items() if at <= bases[attempt]}
        rows.update((row.batches, row) for row in chunk.rows)
    return [rows[batches] for batches in sorted(rows)]
