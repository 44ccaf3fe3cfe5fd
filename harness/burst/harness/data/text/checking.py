"""`checked`: rows that would spoil a run, found before it begins.

Rules come from `data.validate` of the experiment file or are given by hand. Each looks at every
row, a column at a time in Arrow. Then rows are dropped, the run fails, or the rows are put aside
in a file; counts and the numbers of the first rows are told in any case.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import datasets
import numpy as np

from burst.core.blobs import open_blobs
from burst.core.config.data_rules import DataRules, read_data_rules
from burst.core.launch import LaunchSpec, read_launch
from burst.harness.data.checks import is_stream
from burst.harness.data.errors import DataError, RowsRefused
from burst.harness.data.text.rows import Numbers, broken_by, finders

_ROWS_AT_ONCE = 10_000
_SHOWN = 10
_FOLDER = "quarantine"

_log = logging.getLogger(__name__)


class Told(Protocol):
    """Who is told what was found: a trial's session."""

    @property
    def chief(self) -> bool: ...

    def warn(self, name: str, text: str, **data: Any) -> None: ...


@dataclass(frozen=True)
class Report:
    """What the rules found in some rows."""

    name: str
    """What the rows are called."""
    rows: int
    found: Mapping[str, Numbers]
    """By rule, the numbers of the rows that break it, rising."""
    rules: Mapping[str, str]
    """What is done with them."""

    def of(self, action: str) -> Numbers:
        """The rows that come to this, each once, rising."""
        parts = [rows for name, rows in self.found.items() if self.rules[name] == action]
        return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))

    def told(self, *actions: str) -> str:
        """Counts and the first rows of each rule that comes to one of these."""
        said = []
        for name, rows in self.found.items():
            if len(rows) and self.rules[name] in actions:
                shown = ", ".join(map(str, rows[:_SHOWN].tolist()))
                more = ", …" if len(rows) > _SHOWN else ""
                said.append(f"{name}: {len(rows)} of {self.rows} rows ({shown}{more})")
        return "; ".join(said)

    def data(self) -> dict[str, Any]:
        """The same for an event."""
        return {
            name: {"on": self.rules[name], "rows": len(rows), "first": rows[:_SHOWN].tolist()}
            for name, rows in self.found.items()
        }


def checked(
    rows: Any,
    rules: Mapping[str, Any] | None = None,
    *,
    context: Any = None,
    name: str = "rows",
    vocabulary: int | None = None,
) -> Any:
    """The rows that keep the rules. Rows that all keep them are returned as they are.

    Args:
        rows: a `datasets.Dataset`; or a streaming one, whose rows are then looked at while they
            are read, to drop them or to fail.
        rules: as `data.validate` in the experiment file, which is what is taken without.
        context: the trial's; its experiment says the rules, and its events tell what was found.
            Without one, that goes to the log.
        name: what the rows are called in messages and in the name of the quarantine's file.
        vocabulary: how many token ids there are, for the rule `ids`.

    Raises:
        DataError: rows break a rule that says `fail`, with counts and the first of their numbers;
            no row is left; a rule is about a column that is not there.
        ConfigError: the rules cannot be read.
    """
    if rules is None:
        rules = context.get_data_config().get("validate") if context is not None else None
    asked = read_data_rules(rules or {})
    if not rules:
        return rows
    if is_stream(rows):
        return _checked_stream(rows, asked, name, vocabulary)
    if not isinstance(rows, datasets.Dataset):
        raise DataError(
            f"{type(rows).__name__} cannot be looked at by rules",
            why="rules look at whole columns of a Hugging Face dataset",
            mend="check the rows before they become another kind of dataset",
        )
    report = look_at(rows, asked, name, vocabulary)
    told = context.session if context is not None else None
    return _without(rows, report, told)


def look_at(rows: Any, rules: DataRules, name: str, vocabulary: int | None = None) -> Report:
    """Look at every row by every rule; nothing is changed."""
    looking = finders(rules, rows.features.arrow_schema, vocabulary)
    found: dict[str, list[Numbers]] = {rule: [] for rule in looking}
    first = 0
    for table in rows.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
        for rule, (_, find) in looking.items():
            found[rule].append(find(table) + first)
        first += len(table)
    empty = np.empty(0, np.int64)
    numbers = {rule: np.concatenate([empty, *parts]) for rule, parts in found.items()}
    return Report(name, len(rows), numbers, {rule: each.on for rule, (each, _) in looking.items()})


def _without(rows: Any, report: Report, told: Told | None) -> Any:
    failing = report.told("fail")
    if failing:
        raise RowsRefused(
            f"the {report.name} break the rules for data (`data.validate`)",
            why=failing,
            mend="mend the rows, or let the rule `drop` or `quarantine` them",
        )
    aside, dropped = report.of("quarantine"), report.of("drop")
    where = _put_aside(rows, report, aside, told) if len(aside) else ""
    gone = np.union1d(aside, dropped)
    if not len(gone):
        return rows
    said = f"{len(gone)} of {report.rows} {report.name} are left out: "
    said += report.told("drop", "quarantine") + (f"; those set aside are in {where}" * bool(where))
    if told is not None:
        told.warn("data.left_out", said, rows=report.name, where=where, rules=report.data())
    elif _is_chief():
        _log.warning("%s", said)
    if len(gone) == report.rows:
        raise RowsRefused(
            f"none of the {report.name} keeps the rules for data (`data.validate`)",
            why=report.told("drop", "quarantine"),
            mend="look at the rules, and at how the rows are made",
        )
    return rows.select(np.setdiff1d(np.arange(report.rows), gone))


def _put_aside(rows: Any, report: Report, aside: Numbers, told: Told | None) -> str:
    """Write the rows with their numbers and rules; where that is. The same in every attempt."""
    spec = read_launch()
    file = f"{report.name.replace(' ', '-')}.jsonl.gz"
    chief = told.chief if told is not None else _is_chief()
    plain = rows.with_format(None)
    lines = (
        json.dumps({"row": row, "rules": broken_by(report.found, row), "data": data}, default=str)
        for row, data in zip(aside.tolist(), plain.select(aside), strict=True)
    )
    if spec is None:
        path = Path(_FOLDER, file).absolute()
        if chief:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_compressed(lines))
        return str(path)
    return _in_blobs(spec, file, lines, chief)


def _in_blobs(spec: LaunchSpec, file: str, lines: Iterator[str], chief: bool) -> str:
    blobs = open_blobs(spec.blobs_url)
    key = f"data/{_FOLDER}/{spec.trial}/{file}"
    if chief:
        blobs.put(key, _compressed(lines))
    return str(blobs.local_path(key) or f"{spec.blobs_url.partition('?')[0].rstrip('/')}/{key}")


def _compressed(lines: Iterator[str]) -> bytes:
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def _is_chief() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _checked_stream(rows: Any, rules: DataRules, name: str, vocabulary: int | None) -> Any:
    """A stream whose batches are looked at on their way."""
    given = {rule: each for rule, each in rules if each is not None}
    aside = [rule for rule, each in given.items() if each.on == "quarantine"]
    if aside:
        raise DataError(
            f"a stream's rows cannot be put aside, as {', '.join(aside)} would",
            why="they come again in every epoch and on every rank",
            mend="let the rule `drop` or `fail`, or load the rows without streaming",
        )
    if not hasattr(rows, "filter"):
        raise DataError(
            f"{type(rows).__name__} cannot be looked at by rules",
            mend="give Hugging Face's streaming dataset, before it is packed",
        )
    look = partial(_keep, rules=rules, name=name, vocabulary=vocabulary)
    return rows.filter(look, with_indices=True, batched=True, batch_size=1000)


def _keep(
    batch: Any, numbers: list[int], *, rules: DataRules, name: str, vocabulary: int | None
) -> list[bool]:
    part = datasets.Dataset.from_dict(dict(batch))
    report = look_at(part, rules, name, vocabulary)
    failing = report.of("fail")
    if len(failing):
        which = ", ".join(str(numbers[row]) for row in failing[:_SHOWN].tolist())
        broken = sorted(name for name, rows in report.found.items() if len(rows))
        raise DataError(
            f"the {name} break the rules for data (`data.validate`)",
            why=f"{', '.join(broken)}: rows {which} of the stream",
            mend="mend the rows, or let the rule `drop` them",
        )
    kept = np.ones(len(numbers), np.bool_)
    kept[report.of("drop")] = False
    return [bool(each) for each in kept]
