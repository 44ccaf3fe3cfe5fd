"""Padding: one result, gathered from Arrow as a whole or made of rows one by one."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from burst.harness.data import DataError, DataLoader, Padding
from burst.harness.data.gather import gather_of

LISTS = [[5, 6, 7], [], [8], [9, 10, 11, 12, 13]]


def table(**columns: Any) -> datasets.Dataset:
    return datasets.Dataset.from_dict({"input_ids": LISTS, **columns})


def both_ways(rows: datasets.Dataset, padding: Padding) -> dict[str, Any]:
    """The batch of all rows, which is the same gathered and made of the rows."""
    gather = gather_of(rows, padding)
    assert gather is not None
    gathered = gather.batch(np.arange(len(rows), dtype=np.int64))
    made = padding(list(rows.with_format("torch")))
    assert gathered.keys() == made.keys()
    for name in made:
        assert torch.equal(gathered[name], made[name].to(gathered[name].dtype)), name
    return made


def test_a_mask_and_labels_are_made_of_the_ids() -> None:
    batch = both_ways(table(), Padding({"input_ids": 1}, mask="input_ids", labels="input_ids"))
    assert batch["input_ids"].tolist()[0] == [5, 6, 7, 1, 1]
    assert batch["attention_mask"].tolist() == [
        [1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [1, 1, 1, 1, 1],
    ]
    assert batch["labels"].tolist()[2] == [8, -100, -100, -100, -100]
    assert batch["attention_mask"].dtype == batch["labels"].dtype == torch.int64


def test_what_the_rows_have_themselves_stays() -> None:
    rows = table(attention_mask=[[0] * len(row) for row in LISTS], labels=LISTS)
    batch = both_ways(rows, Padding(mask="input_ids", labels="input_ids"))
    assert not batch["attention_mask"].any()
    assert batch["labels"].tolist()[2] == [8, -100, -100, -100, -100]


def test_padding_goes_to_the_left_where_it_is_asked_to() -> None:
    batch = both_ways(table(), Padding(side="left", mask="input_ids"))
    assert batch["input_ids"].tolist()[0] == [0, 0, 5, 6, 7]
    assert batch["attention_mask"].tolist()[0] == [0, 0, 1, 1, 1]


def test_the_width_is_a_multiple_or_fixed() -> None:
    assert both_ways(table(), Padding(multiple=8))["input_ids"].shape == (4, 8)
    assert both_ways(table(), Padding(multiple=5))["input_ids"].shape == (4, 5)
    assert both_ways(table(), Padding(length=9))["input_ids"].shape == (4, 9)


def test_a_row_beyond_the_fixed_length_is_refused_with_its_column() -> None:
    with pytest.raises(DataError, match="'input_ids' has a row of 5 values") as caught:
        list(DataLoader(table(), 4, collate_fn=Padding(length=4)))
    assert "max_length=4" in caught.value.mend


def test_labels_that_are_kept_in_a_byte_are_padded_with_minus_100() -> None:
    values = pa.array([[1, 200], [3]], pa.list_(pa.uint8()))
    rows = datasets.Dataset(pa.table({"labels": values}))
    assert both_ways(rows, Padding({"labels": -100}))["labels"].tolist() == [[1, 200], [3, -100]]


def test_lists_of_one_length_are_widened_too() -> None:
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(range(6), pa.int32()), 3)
    rows = datasets.Dataset(pa.table({"input_ids": fixed}))
    batch = both_ways(rows, Padding(multiple=4, side="left", mask="input_ids"))
    assert batch["input_ids"].tolist() == [[0, 0, 1, 2], [0, 3, 4, 5]]
    assert batch["attention_mask"].tolist() == [[0, 1, 1, 1], [0, 1, 1, 1]]


@given(
    st.lists(st.lists(st.integers(1, 99), max_size=9), min_size=1, max_size=9).filter(any),
    st.sampled_from(["left", "right"]),
    st.integers(1, 6),
)
def test_every_value_is_where_the_mask_says_and_nowhere_else(
    lists: list[list[int]], side: str, multiple: int
) -> None:
    rows = datasets.Dataset.from_dict({"input_ids": lists})
    padding = Padding({"input_ids": -7}, side=side, multiple=multiple, mask="input_ids")
    batch = both_ways(rows, padding)
    ids, mask = batch["input_ids"], batch["attention_mask"].bool()
    assert ids.shape[1] % multiple == 0
    assert [row[seen].tolist() for row, seen in zip(ids, mask, strict=True)] == lists
    assert (ids[~mask] == -7).all()


def test_a_tokenizer_without_a_token_to_pad_with_is_refused() -> None:
    class Bare:
        pad_token_id = None

    with pytest.raises(DataError, match="Bare has no token to pad with"):
        Padding.of(Bare())


@pytest.mark.parametrize(
    "wrong",
    [
        {"side": "top"},
        *({name: value} for name in ("multiple", "length") for value in (0, -8, 2.5, "8", True)),
        {"multiple": None},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=next(iter(wrong))):
        Padding(**wrong)
