"""`tokenized`: texts as token ids, made once in batches and kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from burst.core.errors import BurstError
from burst.harness.data.checks import check_number, is_stream
from burst.harness.data.errors import DataError
from burst.harness.data.text.cache import open_cache
from burst.harness.data.text.tables import (
    content_of,
    fingerprint_of,
    kept_table,
    missing_rows,
    write_table,
)
from burst.harness.errors import did_you_mean
from burst.harness.trial.exports import tokenizer_files

IDS = "input_ids"
_MASK = "attention_mask"
_KINDS = "token_type_ids"
_PARALLEL = "TOKENIZERS_PARALLELISM"
_ROWS_AT_ONCE = 1000
_SHOWN = 5
_PASSING = {
    "tokenizer.json": ("truncation", "padding"),
    "tokenizer_config.json": ("name_or_path", "tokenizer_file", "is_local", "local_files_only"),
}
"""What a tokenizer's files say that changes no token: where it came from, and how it was called
last."""


def tokenized(
    rows: Any,
    tokenizer: Any,
    *,
    text: str | Sequence[str] = "text",
    max_length: int | None = None,
    special: bool = True,
    end: bool = False,
    cache: str | Path | None = None,
) -> Any:
    """The rows with `input_ids` (int32) in place of their text; other columns stay as they are.

    Map-style rows are tokenised beforehand, a thousand at a time on all cores, and kept in burst's
    cache under a name that follows from the texts, the tokenizer, these options and the versions
    of the libraries: trials, ranks and later runs find them there. Streams are tokenised while
    they are read. There is no attention mask, as nothing is padded yet: `Padding.of(tokenizer)`
    makes it.

    Args:
        rows: a `datasets.Dataset` or `datasets.IterableDataset`.
        tokenizer: of transformers.
        text: the column of the text; two for pairs, which then also have `token_type_ids` if the
            tokenizer's model takes them.
        max_length: tokens of a row at most; what is beyond is cut off. None cuts nothing.
        special: whether the tokenizer adds its special tokens, such as [CLS].
        end: add the token that ends a text, which tells documents of a packed row apart; it is not
            cut off.
        cache: a folder for the table, which is then not shared with other machines; None is
            burst's own, which is shared.

    Raises:
        DataError: there is no such column, it holds no text, or some of it is missing (named by
            its rows); `max_length` leaves no place for text beside the special tokens.
    """
    columns = (text,) if isinstance(text, str) else tuple(text)
    if not 1 <= len(columns) <= 2 or len(set(columns)) < len(columns):
        raise DataError(
            "a row has one text, or a pair of two columns", mend='text="text", or text=("a", "b")'
        )
    work = _Work(tokenizer, columns, max_length, special, _end_token(tokenizer) if end else None)
    work.check()
    if is_stream(rows):
        _check_stream_columns(rows, columns)
        return rows.map(
            work,
            batched=True,
            batch_size=_ROWS_AT_ONCE,
            remove_columns=[c for c in columns if c in (rows.column_names or columns)],
        )
    _check(rows, columns)
    store = open_cache(cache, share=True)
    name = fingerprint_of("tokenized", content_of(rows), work.identity())
    return kept_table(store, name, lambda to: _make(rows, work, to))


@dataclass(frozen=True)
class _Work:
    """Tokenises batches of rows."""

    tokenizer: Any
    columns: tuple[str, ...]
    max_length: int | None
    special: bool
    end: int | None

    def check(self) -> None:
        """Raises DataError for a length that leaves no place for text: the library cuts nothing
        then, and says nothing of it."""
        if self.max_length is None:
            return
        check_number("max_length", self.max_length, least=1)
        _check_tokenizer(self.tokenizer)
        taken = int(self.end is not None)
        if self.special:
            taken += self.tokenizer.num_special_tokens_to_add(pair=len(self.columns) > 1)
        if taken >= self.max_length:
            raise DataError(
                f"max_length is {self.max_length}, which leaves no place for text",
                why=f"of each row {taken} are special tokens",
                mend=f"give {taken + 1} at least, or leave out `end` or `special`",
            )

    def __call__(self, rows: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Columns of lists, by name."""
        texts = [_texts(rows[column], column) for column in self.columns]
        room = None if self.max_length is None else self.max_length - (self.end is not None)
        made = self.tokenizer(
            *texts,
            add_special_tokens=self.special,
            truncation=room is not None,
            max_length=room,
            padding=False,
            return_attention_mask=False,
            verbose=False,
        )
        longest = max(map(len, made[IDS]), default=0)
        if room is not None and longest > room:
            raise DataError(
                f"{type(self.tokenizer).__name__} leaves a row of {longest} tokens uncut",
                why=f"max_length={self.max_length} was asked for",
                mend="cut the texts themselves, or leave `max_length` out",
            )
        columns: dict[str, Any] = {
            name: made[name]
            for name in made
            if name != _MASK and (name != _KINDS or len(self.columns) > 1)
        }
        if self.end is not None:
            ended = {IDS: self.end}
            for name, lists in columns.items():
                columns[name] = [
                    [*each, ended.get(name, each[-1] if each else 0)] for each in lists
                ]
        return columns

    def identity(self) -> list[Any]:
        import tokenizers
        import transformers

        return [
            _identity(self.tokenizer),
            str(getattr(self.tokenizer, "truncation_side", "")),  # which its files leave out
            [self.columns, self.max_length, self.special, self.end],
            [transformers.__version__, tokenizers.__version__],
        ]


def _texts(values: Sequence[Any], column: str) -> list[str]:
    """The texts of a batch of rows.

    Raises:
        DataError: some are missing, or none. Of map-style rows that is known beforehand.
    """
    texts = list(values)
    other = next((value for value in texts if not isinstance(value, str)), "")
    if other is None:
        raise DataError(
            f"column {column!r} has no text in a row of the stream",
            mend="leave such rows out: checked(rows, {'empty': 'drop'}) from burst.harness.data",
        )
    if not isinstance(other, str):
        raise DataError(f"column {column!r} holds no text", why=f"it holds {other!r}"[:200])
    return texts


def _make(rows: datasets.Dataset, work: _Work, to: Path) -> None:
    others = rows.remove_columns([*work.columns])
    features = datasets.Features(others.features)
    first = work(rows[:1])
    for name in first:
        features[name] = datasets.List(datasets.Value("int32" if name == IDS else "int8"))
    with _parallel():
        write_table(to, features, _tables(rows, list(others.column_names), work, features))


def _tables(
    rows: datasets.Dataset, others: list[str], work: _Work, features: datasets.Features
) -> Iterator[pa.Table]:
    schema = features.arrow_schema
    for table in rows.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
        made = work({name: table.column(name).to_pylist() for name in work.columns})
        columns = {name: table.column(name) for name in others}
        columns |= {name: pa.array(made[name], schema.field(name).type) for name in made}
        yield pa.table({name: columns[name] for name in features})


def _check(rows: Any, columns: Sequence[str]) -> None:
    if not isinstance(rows, datasets.Dataset):
        raise DataError(
            f"{type(rows).__name__} holds no texts that can be tokenised together",
            why="a dataset of Hugging Face is wanted, map-style or streaming",
            mend='load(path) gives one, and so does datasets.Dataset.from_list([{"text": …}, …])',
        )
    if not len(rows):
        raise DataError(
            "there are no rows to tokenise", mend="look at how they are loaded or filtered"
        )
    for name in columns:
        if name not in rows.column_names:
            raise _no_column(name, rows.column_names)
        kind = rows.data.schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise DataError(f"column {name!r} holds no text", why=f"its Arrow type is {kind}")
        missing = missing_rows(rows, name)
        if missing:
            raise DataError(
                f"column {name!r} has no text in {len(missing)} rows",
                why=f"rows {', '.join(map(str, missing[:_SHOWN]))}"
                + (" and others" if len(missing) > _SHOWN else ""),
                mend="leave them out: checked(rows, {'empty': 'drop'}) from burst.harness.data",
            )


def _check_stream_columns(rows: Any, columns: Sequence[str]) -> None:
    known = getattr(rows, "column_names", None)
    for name in columns:
        if known and name not in known:
            raise _no_column(name, known)


def _no_column(name: str, known: Sequence[str]) -> DataError:
    return DataError(
        f"there is no column {name!r}",
        why=f"the rows have {', '.join(known)}",
        mend=f"name the column of the text: tokenized(…, text=…); {did_you_mean(name, known)}",
    )


def _end_token(tokenizer: Any) -> int:
    token = tokenizer.eos_token_id
    if token is None:
        raise DataError(
            f"{type(tokenizer).__name__} has no token that ends a text",
            mend="set `tokenizer.eos_token`, or leave `end` out",
        )
    return int(token)


def _check_tokenizer(tokenizer: Any) -> None:
    if not callable(tokenizer):
        raise DataError(
            f"{type(tokenizer).__name__} is no tokenizer of transformers",
            mend="one of the library `tokenizers` is wrapped by "
            "transformers.PreTrainedTokenizerFast(tokenizer_object=…)",
        )


def _identity(tokenizer: Any) -> str:
    """A name of what the tokenizer does, whatever it was called with before."""
    _check_tokenizer(tokenizer)
    found = hashlib.sha256(f"{type(tokenizer).__module__}.{type(tokenizer).__name__}".encode())
    try:
        files = tokenizer_files(tokenizer)
    except BurstError as error:
        raise DataError(error.what, why=error.why, mend=error.mend) from error
    for name, data in sorted(files.items()):
        if name in _PASSING:
            said = json.loads(data)
            data = json.dumps(
                {key: value for key, value in said.items() if key not in _PASSING[name]},
                sort_keys=True,
            ).encode()
        found.update(f"{name} {len(data)} ".encode() + data)
    return found.hexdigest()


@contextmanager
def _parallel() -> Iterator[None]:
    """All cores for a while: trials start without, for the sake of the processes they fork."""
    before = os.environ.get(_PARALLEL)
    os.environ[_PARALLEL] = "true"
    try:
        yield
    finally:
        # Not unset: the library warns at every later fork if nothing was said.
        os.environ[_PARALLEL] = before or "false"
