"""Packing loses no token, keeps the documents' bounds, and goes on from any row."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from burst.harness.data import DataError, DataLoader, checked, pack, tokenized
from tests.harness.data.text_support import VOCABULARY, rows, tokenizer

DOCUMENTS = st.lists(st.lists(st.integers(0, 999), max_size=23), min_size=1, max_size=30)


def table(documents: list[list[int]]) -> datasets.Dataset:
    features = datasets.Features({"input_ids": datasets.List(datasets.Value("int32"))})
    return datasets.Dataset.from_dict({"input_ids": documents}, features=features)


def flat(lists: Any) -> list[int]:
    return [value for each in lists for value in each]


def expected(documents: list[list[int]], length: int) -> list[dict[str, list[int]]]:
    """Token by token, as a person would write it."""
    pairs = [(token, place) for each in documents for place, token in enumerate(each)]
    made = []
    for first in range(0, len(pairs) // length * length, length):
        ids: list[int] = []
        positions: list[int] = []
        labels: list[int] = []
        for token, place in pairs[first : first + length]:
            position = 0 if place == 0 or not positions else positions[-1] + 1
            ids.append(token)
            positions.append(position)
            labels.append(token if position else -100)
        made.append({"input_ids": ids, "position_ids": positions, "labels": labels})
    return made


@settings(max_examples=30)
@given(documents=DOCUMENTS, length=st.integers(1, 17))
def test_packed_rows_are_the_documents_end_to_end(
    documents: list[list[int]], length: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted = expected(documents, length)
    stream = pack(table(documents).to_iterable_dataset(), length)
    assert [{name: row[name].tolist() for name in row} for row in stream] == wanted
    if wanted:
        made = pack(table(documents), length, cache=tmp_path_factory.mktemp("cache"))
        assert list(made) == wanted


def test_documents_beyond_one_piece_are_carried_over() -> None:
    documents = [[row % 100] * (row % 7) for row in range(12_000)]
    assert list(pack(table(documents), 64)) == expected(documents, 64)


def test_what_is_left_out_is_counted() -> None:
    made = pack(table([[1] * 10, [2] * 13]), 4)
    assert made.info.description == (
        "5 rows of 4 tokens, packed from 2; 3 of 23 tokens are left out at the end"
    )
    turned = pack(table([[1] * 10, [2] * 13]).select([1, 0]), 4)
    assert "3 of 23 tokens" in turned.info.description


def test_without_bounds_there_are_ids_alone() -> None:
    documents = [[1, 2, 3], [4, 5, 6, 7]]
    for made in (table(documents), table(documents).to_iterable_dataset()):
        assert [
            {k: list(v) for k, v in row.items()} for row in pack(made, 3, documents=False)
        ] == [
            {"input_ids": [1, 2, 3]},
            {"input_ids": [4, 5, 6]},
        ]


def _read(loader: DataLoader, state: Any, position: int, number: int) -> tuple[list[Any], Any]:
    source = loader.training_source(seed=4, rank=0, ranks=1)
    if state is not None:
        source.load_state(json.loads(json.dumps(state)))
    batches, states = [], []
    for batch in islice(source.batches(position), number):
        batches.append({name: value.tolist() for name, value in batch.items()})
        states.append(source.state())
    source.close()
    return batches, states


def _stream(kind: str) -> Any:
    documents = [[row] * (row % 11) for row in range(60)] + [list(range(100))]
    found: Any = table(documents).to_iterable_dataset(num_shards=3)
    if kind == "shuffled":
        found = found.shuffle(seed=1, buffer_size=7)
    if kind == "tokenised":
        found = tokenized(rows().to_iterable_dataset(num_shards=2), tokenizer())
    return pack(found, 16)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["plain", "shuffled", "tokenised"])
def test_a_stream_goes_on_from_any_batch_as_if_it_had_never_stopped(
    kind: str, workers: int
) -> None:
    """Batches of three rows, over more than two epochs."""
    number = 24

    def loader() -> DataLoader:
        return DataLoader(_stream(kind), batch_size=3, num_workers=workers)

    batches, states = _read(loader(), None, 0, number)
    assert len({json.dumps(batch) for batch in batches}) > 5
    for after in (0, 3, 7, 8, 9, 17) if not workers else (5, 9):
        rest, _ = _read(loader(), states[after], after + 1, number - after - 1)
        assert rest == batches[after + 1 :], after


def test_a_state_is_small_whatever_came_before_it() -> None:
    source = DataLoader(_stream("plain"), 3).training_source(seed=4, rank=0, ranks=1)
    for _ in islice(source.batches(0), 9):
        assert len(json.dumps(source.state())) < 2000


def test_all_ranks_together_see_what_one_alone_does() -> None:
    def taken(rank: int, ranks: int) -> list[Any]:
        source = DataLoader(_stream("plain"), 6 // ranks).training_source(
            seed=4, rank=rank, ranks=ranks
        )
        return [batch["input_ids"].tolist() for batch in islice(source.batches(0), 9)]

    alone, two = taken(0, 1), zip(taken(0, 2), taken(1, 2), strict=True)
    assert [first + second for first, second in two] == alone


def test_attention_stays_within_a_document() -> None:
    """What a model says of a packed row is what it says of each of its documents alone."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=32, use_cache=False,
    )  # fmt: skip
    documents = [list(range(5, 12)), list(range(50, 55)), list(range(80, 84))]
    (batch,) = DataLoader(pack(table(documents), 16), 1)
    for attention in ("sdpa", "eager"):
        config._attn_implementation = attention
        model: Any = LlamaForCausalLM(config)
        model.eval()
        with torch.no_grad():
            packed = model(**batch)
            alone = [model(torch.tensor([each])).logits for each in documents]
        assert torch.allclose(packed.logits, torch.cat(alone, dim=1), atol=1e-5)
        targets = [torch.tensor(each[1:]) for each in documents]
        losses = [
            torch.nn.functional.cross_entropy(logits[0, :-1], target, reduction="sum")
            for logits, target in zip(alone, targets, strict=True)
        ]
        mean = torch.stack(losses).sum() / sum(len(target) for target in targets)
        assert packed.loss == pytest.approx(mean.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("data", "length", "told"),
    [
        (table([[1, 2]]), 0, "length is 0"),
        (table([[1, 2]]), True, "length is True"),
        (table([[1, 2]]), 3, "too few tokens for one of 3"),
        (table([[1, 2]]).select([]), 3, "there are no rows to pack"),
        (datasets.Dataset.from_dict({"text": ["a"]}), 3, "there is no column 'input_ids'"),
        (datasets.Dataset.from_dict({"input_ids": ["a"]}), 3, "holds no token ids"),
        (datasets.Dataset.from_dict({"input_ids": [[1], None]}), 1, "missing in 1 rows"),
        ([[1, 2]], 3, "list cannot be packed"),
        (iter([]), 3, "cannot be packed"),
    ],
)
def test_what_cannot_be_packed_is_told(data: Any, length: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        pack(data, length)


def _typed(kind: Any, *lists: Any) -> datasets.Dataset:
    return datasets.Dataset(pa.table({"input_ids": pa.array(lists, pa.list_(kind))}))


KINDS = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_id_is_packed_as_it_is_or_refused_with_its_row(kind: Any) -> None:
    bounds = np.iinfo(kind.to_pandas_dtype())
    for value in (bounds.min, bounds.max, 2**31, 2**33 + 7, -(2**31) - 1):
        if not bounds.min <= value <= bounds.max:
            continue
        made = _typed(kind, [1, 2], [], [3, int(value)])
        for data in (
            made,
            made.to_iterable_dataset(),
            # What is beyond int64 is changed by the format itself.
            made.to_iterable_dataset().with_format("np" if value < 2**63 else None),
        ):
            if -(2**31) <= value < 2**31:
                packed = [row["input_ids"] for row in pack(data, 4, documents=False)]
                assert [list(each) for each in packed] == [[1, 2, 3, value]]
            else:
                with pytest.raises(DataError, match=f"token id of .*row.* is {value},"):
                    list(pack(data, 4))
        with pytest.raises(DataError, match=r"of row 1 is missing"):
            pack(_typed(kind, [1, 2], [3, None]), 4)


def test_nothing_in_the_place_of_an_id_or_of_a_row_is_refused() -> None:
    holes = table([[1, 2]] * 7000)
    holes = datasets.concatenate_datasets([holes, datasets.Dataset.from_list(
        [{"input_ids": [3, None]}], features=holes.features)])  # fmt: skip
    with pytest.raises(DataError, match="token id of row 7000 is missing"):
        pack(holes, 4)
    with pytest.raises(DataError, match=r"token id of row 0 is missing"):
        pack(holes.select([7000, 1]), 4)
    for lists, told in (
        ([[1], [2, None]], "token id of a row of the stream.* is missing"),
        ([[1], None], "missing in a row of the stream"),
        ([[1], [0.5]], "holds no token ids"),
        ([[1.0]], "holds no token ids"),
        ([["a"]], "holds no token ids"),
        ([[[1]]], "holds no token ids"),
        ([[[1], [2, 3]]], "holds no token ids"),
    ):
        stream = datasets.Dataset.from_dict({"input_ids": lists}).to_iterable_dataset()
        with pytest.raises(DataError, match=told):
            list(pack(stream, 1))


def test_rows_are_packed_once_those_that_hold_nothing_are_left_out() -> None:
    """As the error says: the rows that are left out still lie in the table."""
    holes = datasets.Dataset.from_dict({"input_ids": [[1], None, [2, 3], None]})
    with pytest.raises(DataError, match="missing in 2 rows") as caught:
        pack(holes, 1)
    assert "rows 1, 3" in caught.value.why
    kept = checked(holes, {"empty": "drop"})
    assert [row["input_ids"] for row in pack(kept, 3)] == [[1, 2, 3]]
    stream = checked(holes.to_iterable_dataset(), {"empty": "drop"})
    assert [row["input_ids"].tolist() for row in pack(stream, 3)] == [[1, 2, 3]]
    with pytest.raises(DataError, match="missing in 1 rows"):
        pack(holes.select([0, 1]), 1)
