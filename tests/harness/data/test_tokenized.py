"""Texts are tokenised once, to exactly what the tokenizer says of each."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import datasets
import pytest
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from burst.core.launch import LAUNCH_VARIABLE
from burst.harness.data import DataError, Padding, load, pack, tokenized
from tests.harness.data.text_support import (
    documents,
    files_below,
    launch_in,
    raw_tokenizer,
    rows,
    tokenizer,
)


class Counted:
    """A tokenizer that counts its calls."""

    def __init__(self, of: Any) -> None:
        self._of = of
        self.calls = 0

    def __call__(self, *texts: Any, **options: Any) -> Any:
        self.calls += 1
        return self._of(*texts, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def test_each_row_has_the_ids_that_the_tokenizer_gives_its_text() -> None:
    made = tokenized(rows(), tokenizer())
    assert made.column_names == ["label", "input_ids"]
    assert made["label"][:] == rows()["label"][:]
    assert made["input_ids"][:] == [tokenizer()(text)["input_ids"] for text in documents()]


def test_a_stream_gives_the_same_rows() -> None:
    whole = list(tokenized(rows(), tokenizer(), max_length=9, end=True))
    stream = rows().to_iterable_dataset(num_shards=2)
    assert list(tokenized(stream, tokenizer(), max_length=9, end=True)) == whole


def test_a_row_is_cut_and_ended() -> None:
    end = tokenizer().eos_token_id
    for row, text in zip(
        tokenized(rows(), tokenizer(), max_length=9, end=True), documents(), strict=True
    ):
        assert row["input_ids"] == [*tokenizer()(text)["input_ids"][:8], end]


def test_pairs_are_given_together_and_keep_their_kinds() -> None:
    pairs = datasets.Dataset.from_dict({"a": ["one", "two"], "b": ["three", "four"]})
    made = tokenized(pairs, tokenizer(), text=("a", "b"))
    assert made["input_ids"][:] == tokenizer()(["one", "two"], ["three", "four"])["input_ids"]


def test_it_is_made_once_and_found_by_whoever_asks_for_the_same() -> None:
    counted = Counted(tokenizer())
    first = tokenized(rows(), counted)
    made = counted.calls
    again = tokenized(datasets.Dataset.from_list(list(rows())), counted)
    assert made > 0
    assert counted.calls == made
    assert again._fingerprint == first._fingerprint
    assert list(again) == list(first)


def test_chunks_and_selections_do_not_matter_but_order_does() -> None:
    pieces = [rows().select(range(first, first + 10)) for first in range(0, 40, 10)]
    name = tokenized(rows(), tokenizer())._fingerprint
    assert tokenized(datasets.concatenate_datasets(pieces), tokenizer())._fingerprint == name
    turned = rows().select(range(39, -1, -1))
    assert tokenized(turned, tokenizer())._fingerprint != name
    assert tokenized(turned.select(range(39, -1, -1)), tokenizer())._fingerprint == name


def test_a_call_of_the_tokenizer_does_not_make_it_another() -> None:
    own = copy.deepcopy(tokenizer())
    name = tokenized(rows(), own)._fingerprint
    own(["a", "b c d e f"], padding=True, truncation=True, max_length=2)
    assert tokenized(rows(), own)._fingerprint == name


def test_whatever_changes_the_tokens_makes_another_table() -> None:
    own = copy.deepcopy(tokenizer())
    own.add_tokens(["return"])
    sides = copy.deepcopy(tokenizer())
    sides.truncation_side = "left"
    cut: dict[str, Any] = {"max_length": 5}
    names = [
        tokenized(rows(), tokenizer())._fingerprint,
        tokenized(rows(), own)._fingerprint,
        tokenized(rows(), tokenizer(), end=True)._fingerprint,
        tokenized(rows(), tokenizer(), **cut)._fingerprint,
        tokenized(rows(), sides, **cut)._fingerprint,
        tokenized(rows().select(range(39)), tokenizer())._fingerprint,
        tokenized(rows().remove_columns("label"), tokenizer())._fingerprint,
    ]
    assert len(set(names)) == len(names)


def test_rows_from_files_are_named_by_the_files_and_not_read_for_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows().to_json(path)
    made = tokenized(load(path), tokenizer())
    assert made["input_ids"][:] == tokenized(rows(), tokenizer())["input_ids"][:]


def test_it_lies_in_bursts_home_alone(burst_home: Path) -> None:
    tokenized(rows(), tokenizer())
    assert {Path(name).suffix for name in files_below(burst_home)} == {".arrow", ".lock"}


def test_machines_of_an_experiment_tokenise_once_and_pack_each_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, names, calls = Counted(tokenizer()), [], []
    for machine in ("one", "two"):
        home = tmp_path / machine
        spec = launch_in(home / "nodes" / "node" / "alloc", f"file://{tmp_path}/blobs")
        (home / ".burst-state").touch()
        monkeypatch.setenv(LAUNCH_VARIABLE, str(spec.path / "spec.json"))
        made = tokenized(rows(), counted)
        names.append(pack(made, 16)._fingerprint)
        calls.append(counted.calls)
    assert names[0] == names[1]
    assert calls[0] == calls[1]
    shared = files_below(tmp_path / "blobs" / "data")
    assert len([name for name in shared if name.endswith(".arrow")]) == 1
    tables = [name for name in files_below(tmp_path / "two") if name.endswith(".arrow")]
    assert len(tables) == 2


def test_the_environment_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    tokenized(rows(), tokenizer())
    assert os.environ["TOKENIZERS_PARALLELISM"] == "false"


def test_padding_as_the_tokenizer_pads() -> None:
    made = tokenized(rows(), tokenizer(), max_length=16)
    padded = Padding.of(tokenizer(), multiple=8, labels=True)([made[0], made[38], made[39]])
    expected = tokenizer()(
        [documents()[row] for row in (0, 38, 39)],
        max_length=16, truncation=True, padding=True, pad_to_multiple_of=8, return_tensors="pt",
    )  # fmt: skip
    for name in ("input_ids", "attention_mask"):
        assert padded[name].tolist() == expected[name].tolist()
    ignored = expected["input_ids"].masked_fill(expected["attention_mask"] == 0, -100)
    assert padded["labels"].tolist() == ignored.tolist()


def test_a_missing_column_is_told_with_the_nearest() -> None:
    for data in (rows(), rows().to_iterable_dataset()):
        with pytest.raises(DataError, match="there is no column 'txt'") as caught:
            tokenized(data, tokenizer(), text="txt")
        assert "did you mean text?" in caught.value.mend


def test_missing_texts_are_told_by_their_rows() -> None:
    holes = datasets.Dataset.from_dict({"text": ["a", None, "b", None]})
    with pytest.raises(DataError, match="no text in 2 rows") as caught:
        tokenized(holes, tokenizer())
    assert "rows 1, 3" in caught.value.why


@pytest.mark.parametrize(
    ("data", "options", "told"),
    [
        (datasets.Dataset.from_dict({"text": [1, 2]}), {}, "column 'text' holds no text"),
        ([{"text": "a"}], {}, "list holds no texts"),
        (datasets.Dataset.from_dict({"text": ["a"]}), {"text": ()}, "one text, or a pair"),
        (rows(), {"text": ("text", "text")}, "one text, or a pair of two columns"),
        (rows().select([]), {}, "there are no rows to tokenise"),
        *((rows(), {"max_length": value}, "max_length is") for value in (0, -1, "3", 2.5, True)),
    ],
)
def test_what_cannot_be_tokenised_is_told(data: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        tokenized(data, tokenizer(), **options)


def test_what_is_no_tokenizer_of_transformers_is_told() -> None:
    with pytest.raises(DataError, match="Tokenizer is no tokenizer of transformers") as caught:
        tokenized(rows(), tokenizer().backend_tokenizer)
    assert "PreTrainedTokenizerFast" in caught.value.mend
    bare = copy.deepcopy(tokenizer())
    bare.eos_token = None
    with pytest.raises(DataError, match="no token that ends a text"):
        tokenized(rows(), bare, end=True)


def framed() -> Any:
    """A tokenizer that sets each text, and each of a pair, between special tokens."""
    raw = raw_tokenizer()
    raw.post_processor = processors.TemplateProcessing(
        single="<pad> $A <end>",
        pair="<pad> $A <end> $B <end>",
        special_tokens=[("<pad>", 0), ("<end>", 1)],
    )
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=raw, pad_token="<pad>", eos_token="<end>")


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("end", [False, True])
def test_no_row_is_longer_than_asked_and_a_length_without_place_for_text_is_refused(
    pair: bool, special: bool, end: bool
) -> None:
    """Special tokens are not cut; the library cuts nothing at all where they alone are more."""
    texts = datasets.Dataset.from_dict({"a": ["to be or not to be"] * 2, "b": ["that is it"] * 2})
    columns = ("a", "b") if pair else "a"
    taken = end + special * (3 if pair else 2)
    for length in range(1, 9):
        for data in (texts, texts.to_iterable_dataset()):
            if length <= taken:
                with pytest.raises(DataError, match=f"max_length is {length}, .* no place for"):
                    tokenized(
                        data, framed(), text=columns, max_length=length, special=special, end=end
                    )
                continue
            made = tokenized(
                data, framed(), text=columns, max_length=length, special=special, end=end
            )
            assert {len(row["input_ids"]) for row in made} == {length}


def test_a_tokenizer_that_does_not_cut_is_told() -> None:
    class Uncut(Counted):
        def __call__(self, *texts: Any, **options: Any) -> Any:
            return self._of(*texts, **{**options, "truncation": False, "max_length": None})

    with pytest.raises(DataError, match="Uncut leaves a row of"):
        tokenized(rows(), Uncut(tokenizer()), max_length=5)


@pytest.mark.parametrize(("value", "told"), [(None, "no text in a row"), (3, "holds no text")])
def test_a_row_of_a_stream_without_a_text_is_told(value: Any, told: str) -> None:
    stream = datasets.Dataset.from_dict({"text": [value]}).to_iterable_dataset()
    with pytest.raises(DataError, match=told):
        list(tokenized(stream, tokenizer()))
