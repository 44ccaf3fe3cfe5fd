"""Metrics of interrupted trials read as those of uninterrupted ones."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from burst.core.metrics import merge
from burst.core.model import MetricChunk, MetricRow
from burst.core.testing import strategies
from burst.core.testing.examples import NOW, TRIAL


def row(batches: int, value: float = 0.0, at: float = NOW) -> MetricRow:
    return MetricRow(batches=batches, at=at, metrics={"loss": value})


def chunk(
    attempt: int, seq: int, base: int, *rows: MetricRow, group: str = "training"
) -> MetricChunk:
    return MetricChunk(trial=TRIAL, attempt=attempt, group=group, seq=seq, base=base, rows=rows)


def values(rows: list[MetricRow]) -> dict[int, float]:
    return {row.batches: row.metrics["loss"] for row in rows}


def test_groups_are_kept_apart_and_sorted() -> None:
    merged = merge([chunk(1, 0, 0, row(1), group="b"), chunk(1, 0, 0, row(2), group="a")])
    assert list(merged) == ["a", "b"]
    assert merged["a"] == [row(2)]
    assert merge([]) == {}


def test_a_later_attempt_replaces_what_lies_beyond_its_start() -> None:
    merged = merge(
        [
            chunk(1, 0, 0, row(10, 1.0), row(20, 1.0)),
            chunk(1, 1, 0, row(30, 1.0), row(40, 1.0)),
            chunk(2, 0, 20, row(30, 2.0)),
        ]
    )
    assert values(merged["training"]) == {10: 1.0, 20: 1.0, 30: 2.0}


def test_a_row_at_the_start_itself_stays_unless_it_is_reported_again() -> None:
    first = chunk(1, 0, 0, row(20, 1.0))
    assert values(merge([first, chunk(2, 0, 20, row(30, 2.0))])["training"])[20] == 1.0
    assert values(merge([first, chunk(2, 0, 20, row(20, 2.0))])["training"])[20] == 2.0


def test_an_attempt_restored_from_an_older_checkpoint_wins_all_the_same() -> None:
    merged = merge(
        [
            chunk(1, 0, 0, row(10, 1.0), row(20, 1.0)),
            chunk(2, 0, 20, row(30, 2.0)),
            chunk(3, 0, 10, row(20, 3.0)),
        ]
    )
    assert values(merged["training"]) == {10: 1.0, 20: 3.0}


def test_what_an_attempt_reports_before_it_is_restored_replaces_nothing_else() -> None:
    merged = merge(
        [
            chunk(1, 0, 0, row(10, 1.0), row(20, 2.0), row(30, 3.0)),
            chunk(2, 0, 0, row(0, 9.0)),
            chunk(2, 1, 20, row(25, 4.0)),
        ]
    )
    assert values(merged["training"]) == {0: 9.0, 10: 1.0, 20: 2.0, 25: 4.0}


def test_not_a_number_survives() -> None:
    (found,) = merge([chunk(1, 0, 0, row(1, math.nan))])["training"]
    assert math.isnan(found.metrics["loss"])


def test_hardware_samples_all_stand_in_the_order_of_time() -> None:
    merged = merge(
        [
            chunk(2, 0, 10, row(0, 3.0, at=3.0), group="hardware"),
            chunk(1, 0, 0, row(0, 1.0, at=1.0), row(0, 2.0, at=2.0), group="hardware"),
            chunk(1, 0, 0, row(0, 1.0, at=1.0), row(0, 2.0, at=2.0), group="hardware"),
        ]
    )
    assert [sample.metrics["loss"] for sample in merged["hardware"]] == [1.0, 2.0, 3.0]


@st.composite
def interrupted(draw: st.DrawFn) -> tuple[list[MetricChunk], int]:
    """Attempts of one trial, each from a checkpoint that an earlier one had reached, flushed
    in chunks; the true value at a batch is the batch's own number."""
    chunks, reached, end = [], 0, 0
    for attempt in range(1, draw(st.integers(1, 4)) + 1):
        base = draw(st.integers(0, reached))
        end = base + draw(st.integers(0, 12))
        batches = list(range(base + 1, end + 1))
        seq = 0
        while batches:
            size = draw(st.integers(1, 5))
            rows = [row(n, float(n), at=attempt) for n in batches[:size]]
            chunks.append(chunk(attempt, seq, base, *rows))
            batches, seq = batches[size:], seq + 1
        if end == base:
            end = reached  # it died before it reported, and replaced nothing
        reached = end
    return chunks, reached


@given(interrupted(), st.randoms(use_true_random=False))
def test_any_history_of_interruptions_reads_as_none(
    history: tuple[list[MetricChunk], int], order: random.Random
) -> None:
    chunks, end = history
    rows = merge(chunks).get("training", [])
    assert values(rows) == {n: float(n) for n in range(1, end + 1)}
    assert [row.batches for row in rows] == sorted(row.batches for row in rows)
    shuffled = chunks + chunks[: len(chunks) // 2]
    order.shuffle(shuffled)
    assert merge(shuffled) == merge(chunks)


@given(
    st.lists(strategies.METRIC_CHUNKS, max_size=6, unique_by=lambda c: (c.attempt, c.group, c.seq))
)
def test_any_chunks_give_each_batch_once_in_order(chunks: list[MetricChunk]) -> None:
    for group, rows in merge(chunks).items():
        if group != "hardware":
            batches = [row.batches for row in rows]
            assert batches == sorted(set(batches))
