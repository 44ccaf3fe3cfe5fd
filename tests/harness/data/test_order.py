"""Batches are dealt so that the global order does not know how many ranks there are."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.harness.data.order import RowDeal, Shuffled, evaluation_tickets, tickets_from


def deal(rows: int, batch: int, rank: int, ranks: int, drop_last: bool = False) -> RowDeal:
    order = Shuffled(rows, seed=5)
    return RowDeal(order, batch_size=batch, rank=rank, ranks=ranks, drop_last=drop_last)


@given(rows=st.integers(4, 90), start=st.integers(0, 60))
def test_a_global_batch_is_the_same_for_any_number_of_ranks(rows: int, start: int) -> None:
    for ranks in (2, 4):
        alone = islice(tickets_from(deal(rows, 8, 0, 1), start), 5)
        gang = [tickets_from(deal(rows, 8 // ranks, r, ranks), start) for r in range(ranks)]
        for whole, *parts in zip(alone, *gang, strict=False):
            if len(whole.rows) >= ranks:
                together = np.concatenate([part.rows for part in parts])
                assert np.array_equal(together, whole.rows)
                assert parts[0].first == whole.first


@given(rows=st.integers(1, 60), batch=st.integers(1, 9), drop_last=st.booleans())
def test_an_epoch_sees_every_row_once(rows: int, batch: int, drop_last: bool) -> None:
    dealt = deal(rows, batch, 0, 1, drop_last)
    seen = [r for b in range(dealt.batches_per_epoch) for r in dealt.ticket(3, b).rows.tolist()]
    assert len(seen) == len(set(seen))
    assert len(seen) == (rows // batch * batch if drop_last else rows)


@given(rows=st.integers(1, 40), ranks=st.integers(1, 6), batch=st.integers(1, 4))
def test_every_rank_has_a_row_in_every_batch(rows: int, ranks: int, batch: int) -> None:
    deals = [deal(rows, batch, rank, ranks) for rank in range(ranks)]
    for number in range(deals[0].batches_per_epoch):
        sizes = [len(each.ticket(0, number).rows) for each in deals]
        assert min(sizes) >= 1
        assert max(sizes) - min(sizes) <= 1


@given(rows=st.integers(1, 40), batch=st.integers(1, 5), position=st.integers(0, 50))
def test_entering_at_a_position_is_having_come_there(rows: int, batch: int, position: int) -> None:
    came = list(islice(tickets_from(deal(rows, batch, 0, 1), 0), position, position + 3))
    entered = list(islice(tickets_from(deal(rows, batch, 0, 1), position), 3))
    assert [(t.epoch, t.first, t.rows.tolist()) for t in came] == [
        (t.epoch, t.first, t.rows.tolist()) for t in entered
    ]


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_evaluation_deals_the_batches_of_one_rank_without_duplicates(ranks: int) -> None:
    alone = deal(23, 4, 0, 1)
    whole = [t.rows.tolist() for t in evaluation_tickets(alone, 0, 1)]
    parts = [
        [t.rows.tolist() for t in evaluation_tickets(alone, rank, ranks)] for rank in range(ranks)
    ]
    assert [parts[i % ranks][i // ranks] for i in range(len(whole))] == whole
    assert sorted(row for batch in whole for row in batch) == list(range(23))


def test_rows_looked_up_together_are_those_of_each_batch() -> None:
    rows = 50_000
    dealt = deal(rows, 10, 1, 3)
    order = Shuffled(rows, seed=5).at(2, np.arange(rows))
    for batch in (0, 818, 819, 820, 1665, dealt.batches_per_epoch - 1, 5):
        ticket = dealt.ticket(2, batch)
        assert np.array_equal(ticket.rows, order[ticket.first : ticket.first + len(ticket.rows)])
        if batch < 1666:
            assert (ticket.first, len(ticket.rows)) == (batch * 30 + 10, 10)
