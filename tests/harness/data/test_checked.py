"""Rules find every row that breaks them, and do with it what they say."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.blobs import open_blobs
from burst.core.config.data_rules import read_data_rules
from burst.core.errors import ConfigError
from burst.core.launch import LAUNCH_VARIABLE
from burst.harness.data import DataError, DataLoader, checked
from burst.harness.data.text.checking import look_at
from tests.harness.data.text_support import launch_in

BAD = datasets.Dataset.from_dict(
    {
        "input_ids": [[1, 2], [], [3, 99], [4], [-1, 2], [5]],
        "attention_mask": [[1, 1], [], [1, 1], [0], [1, 0], [1]],
        "labels": [0, 1, 2, 3, -100, 9],
        "text": ["a", " \n", "c", "d", "e", "f"],
    }
)


def found(rules: dict[str, Any], rows: Any = BAD) -> dict[str, list[int]]:
    report = look_at(rows, read_data_rules(rules), "rows")
    return {name: numbers.tolist() for name, numbers in report.found.items()}


def test_each_rule_finds_its_rows() -> None:
    assert found({"empty": "drop"}) == {"empty": [1]}
    assert found({"empty": {"column": "text"}}) == {"empty": [1]}
    assert found({"all_padding": "drop"}) == {"all_padding": [1, 3]}
    assert found({"all_padding": "drop"}, BAD.remove_columns("attention_mask")) == {
        "all_padding": [1]
    }
    assert found({"ids": "drop"}) == {"ids": [4]}
    assert found({"ids": {"max": 50}}) == {"ids": [2, 4]}
    assert found({"labels": {"min": 0, "max": 3}}) == {"labels": [5]}
    assert found({"labels": {"min": 0, "max": 3, "ignore": 9}}) == {"labels": [4]}


def test_missing_values_break_the_rules() -> None:
    holes = datasets.Dataset.from_dict(
        {
            "input_ids": [[1], None, [2, None]],
            "label": [0.5, None, float("nan")],
            "text": [None] * 3,
        }
    )
    assert found({"empty": "drop"}, holes) == {"empty": [1]}
    assert found({"empty": {"column": "text"}}, holes) == {"empty": [0, 1, 2]}
    assert found({"ids": "drop"}, holes) == {"ids": [2]}
    assert found({"labels": {"min": 0}}, holes) == {"labels": [1, 2]}


@given(
    st.lists(st.lists(st.integers(-3, 60), max_size=6), min_size=1, max_size=12),
    st.integers(-1, 20),
    st.integers(21, 50),
    st.booleans(),
)
def test_ranges_are_what_a_loop_over_all_numbers_says(
    lists: list[list[int]], low: int, high: int, nested: bool
) -> None:
    values: list[Any] = [[row, row[:1]] for row in lists] if nested else lists
    rows = datasets.Dataset.from_dict({"labels": values}).select(range(len(lists) - 1, -1, -1))
    wrong = [
        place
        for place, row in enumerate(reversed(lists))
        if any(not low <= value <= high for value in row)
    ]
    if any(lists):
        assert found({"labels": {"min": low, "max": high}}, rows) == {"labels": wrong}


def test_rows_that_keep_the_rules_come_back_as_they_are() -> None:
    good = BAD.select([0, 4])
    assert checked(good, {"empty": "fail", "labels": {"min": 0, "max": 3}}) is good
    assert checked(BAD, {}) is BAD
    assert checked(BAD) is BAD


def test_dropped_rows_are_gone_and_told(caplog: pytest.LogCaptureFixture) -> None:
    rules = {"empty": "drop", "labels": {"min": 0, "max": 3, "on": "drop"}}
    assert checked(BAD, rules, name="reviews")["input_ids"][:] == [[1, 2], [3, 99], [4], [-1, 2]]
    assert "2 of 6 reviews are left out" in caplog.text
    assert "empty: 1 of 6 rows (1); labels: 1 of 6 rows (5)" in caplog.text


def test_a_rule_that_fails_says_how_many_and_which() -> None:
    rules = {"ids": {"max": 50, "on": "fail"}, "all_padding": "fail", "empty": "drop"}
    with pytest.raises(DataError, match="the rows break the rules") as caught:
        checked(BAD, rules)
    assert caught.value.why == "all_padding: 2 of 6 rows (1, 3); ids: 2 of 6 rows (2, 4)"


def test_many_rows_are_counted_and_the_first_are_named() -> None:
    many = datasets.Dataset.from_dict({"input_ids": [[-1]] * 25_000})
    with pytest.raises(DataError) as caught:
        checked(many, {"ids": "fail"})
    assert caught.value.why == "ids: 25000 of 25000 rows (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …)"


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(data).splitlines()]


def test_rows_put_aside_lie_in_a_file_with_their_numbers_and_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = {"ids": {"max": 50, "on": "quarantine"}, "empty": "quarantine", "all_padding": "drop"}
    kept = checked(BAD.with_format("torch"), rules, name="some reviews")
    assert [row.tolist() for row in kept["input_ids"][:]] == [[1, 2], [5]]
    path = tmp_path / "quarantine" / "some-reviews.jsonl.gz"
    assert str(path) in caplog.text
    aside = lines_of(path.read_bytes())
    assert [(line["row"], line["rules"]) for line in aside] == [
        (1, ["empty", "all_padding"]),
        (2, ["ids"]),
        (4, ["ids"]),
    ]
    assert aside[1]["data"] == BAD[2]


def test_in_a_trial_they_lie_in_the_experiments_blobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"file://{tmp_path}/blobs"
    spec = launch_in(tmp_path / "attempt", url)
    monkeypatch.setenv(LAUNCH_VARIABLE, str(spec.path / "spec.json"))
    checked(BAD, {"ids": "quarantine"})
    key = f"data/quarantine/{spec.trial}/rows.jsonl.gz"
    assert [line["row"] for line in lines_of(open_blobs(url).get(key))] == [4]
    assert str(open_blobs(url).local_path(key)) in caplog.text


def test_only_the_first_rank_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "1")
    assert len(checked(BAD, {"ids": "quarantine"})) == 5
    assert not (tmp_path / "quarantine").exists()


def test_no_row_left_is_told() -> None:
    with pytest.raises(DataError, match="none of the rows keeps the rules"):
        checked(BAD.select([1]), {"empty": "drop"})


def test_a_vocabulary_bounds_the_ids() -> None:
    with pytest.raises(DataError) as caught:
        checked(BAD, {"ids": "fail"}, vocabulary=99)
    assert caught.value.why == "ids: 2 of 6 rows (2, 4)"
    with pytest.raises(DataError) as caught:
        checked(BAD, {"ids": "fail"}, vocabulary=100)
    assert caught.value.why == "ids: 1 of 6 rows (4)"


def test_a_column_that_is_not_there_is_told_with_the_nearest() -> None:
    with pytest.raises(DataError, match="column 'labelz'") as caught:
        checked(BAD, {"labels": {"min": 0, "column": "labelz"}})
    assert caught.value.mend == "did you mean labels?"
    with pytest.raises(DataError, match="no column that the rule 'labels' is about"):
        checked(BAD.select_columns("text"), {"labels": {"min": 0}})
    with pytest.raises(DataError, match="no numbers to compare"):
        checked(BAD, {"labels": {"min": 0, "column": "text"}})


def test_rules_that_cannot_be_read_are_told() -> None:
    with pytest.raises(ConfigError) as caught:
        checked(BAD, {"empti": "drop"})
    assert "did you mean `empty`?" in caught.value.why


def test_a_streams_rows_are_dropped_on_their_way_and_it_goes_on_exactly() -> None:
    lists = [[row] * (row % 4) for row in range(60)]
    stream = datasets.Dataset.from_dict({"input_ids": lists}).to_iterable_dataset(num_shards=2)
    kept = checked(stream, {"empty": "drop"})
    assert [row["input_ids"] for row in kept] == [row for row in lists if row]
    assert _resumed(kept) == _resumed(kept, at=5)


def _resumed(rows: Any, at: int | None = None) -> list[Any]:
    """Ten batches, the reader made anew after `at` of them."""
    batches: list[Any] = []
    state = None
    for first, last in ((0, at), (at, 10)) if at else ((0, 10),):
        loader = DataLoader(rows.select_columns(["input_ids"]).map(_counted), 4)
        source = loader.training_source(seed=1, rank=0, ranks=1)
        if state is not None:
            source.load_state(json.loads(json.dumps(state)))
        own = source.batches(first)
        for _ in range(last - first):
            batches.append(next(own)["length"].tolist())
            state = source.state()
    return batches


def _counted(row: dict[str, Any]) -> dict[str, Any]:
    return {"input_ids": sum(row["input_ids"]), "length": sum(row["input_ids"])}


def test_a_stream_fails_with_the_numbers_of_its_rows() -> None:
    stream = datasets.Dataset.from_dict({"input_ids": [[1]] * 7 + [[-1]]}).to_iterable_dataset()
    with pytest.raises(DataError) as caught:
        list(checked(stream, {"ids": "fail"}))
    assert caught.value.why == "ids: rows 7 of the stream"
    with pytest.raises(DataError, match="cannot be put aside, as ids would"):
        checked(stream, {"ids": "quarantine"})


def test_what_cannot_be_looked_at_is_told() -> None:
    with pytest.raises(DataError, match="list cannot be looked at"):
        checked([{"input_ids": [1]}], {"ids": "fail"})


def test_millions_of_tokens_are_looked_at_whatever_the_chunks() -> None:
    ids = np.random.default_rng(0).integers(0, 1000, (30_000, 32))
    ids[12_345, 6] = 1000
    rows = datasets.Dataset.from_dict({"input_ids": ids.tolist()})
    pieces = [rows.select(range(first, first + 7500)) for first in range(0, 30_000, 7500)]
    whole = datasets.concatenate_datasets(pieces)
    assert found({"ids": {"max": 999}}, whole) == {"ids": [12_345]}


@pytest.mark.parametrize("empty", [[], None, [None]])
def test_a_part_of_a_stream_that_holds_nothing_is_looked_at_like_any(
    empty: Any,
) -> None:
    """A column of such rows alone says nothing of its kind, and none may end a run."""
    row = {"input_ids": [1], "attention_mask": [1], "labels": [2], "label": 2, "text": "a"}
    hole = {"input_ids": empty, "attention_mask": empty, "labels": empty, "label": None}
    rows = [row, *[{**hole, "text": None}] * 1500, row]
    rules: list[dict[str, Any]] = [
        {"empty": "drop"},
        {"all_padding": "drop"},
        {"ids": "drop"},
        {"labels": {"min": 0, "on": "drop"}},
        {"labels": {"min": 0, "on": "drop", "column": "label"}},
    ]
    for rule in rules:
        whole = checked(datasets.Dataset.from_list([*rows[:2], row]), rule)
        stream = checked(datasets.Dataset.from_list(rows).to_iterable_dataset(), rule)
        assert len(list(stream)) == {2: 2, 3: 1502}[len(whole)], rule


def test_a_row_without_labels_breaks_their_rule_as_one_and_as_a_list() -> None:
    for values in ([1, None, 2], [[1], None, [2]], [[[1]], None, [[2]]]):
        holes = datasets.Dataset.from_dict({"labels": values})
        assert found({"labels": {"min": 0}}, holes) == {"labels": [1]}


def test_a_mask_of_nothing_is_all_padding() -> None:
    holes = datasets.Dataset.from_dict({"attention_mask": [[1], [None], [None, 1], [0, None]]})
    assert found({"all_padding": "drop"}, holes) == {"all_padding": [1, 3]}


def test_a_text_that_is_empty_is_found_beside_ids_that_never_are() -> None:
    framed = {"input_ids": [[0, 5, 1], [0, 1], []], "text": ["a", " ", "b"]}
    rows = datasets.Dataset.from_dict(framed)
    assert found({"empty": "drop"}, rows) == {"empty": [1, 2]}
    assert found({"empty": {"column": "input_ids"}}, rows) == {"empty": [2]}
    assert found({"empty": "drop"}, rows.remove_columns("input_ids")) == {"empty": [1]}
    assert found({"empty": "drop"}, rows.remove_columns("text")) == {"empty": [2]}
    assert [row["text"] for row in checked(rows.to_iterable_dataset(), {"empty": "drop"})] == ["a"]
