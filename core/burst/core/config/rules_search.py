"""The rules of a search: its space, its length, and where its trials begin."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from burst.core.config.check import Strangers, check_section, named
from burst.core.config.document import Node, Report
from burst.core.config.hparams import TYPES
from burst.core.config.problems import listed, nearest
from burst.core.config.trees import entries_of, good_value
from burst.core.errors import UsageError
from burst.core.ids import check_id
from burst.core.launch import names_class

_MOST_GRID_POINTS = 100_000
_ASHA = ("asha", "adaptive_asha")
MODEL_NAME = re.compile(r"(?!(?:ckpt|exp|node|alloc)-)[a-z0-9][a-z0-9._-]{0,99}")
"""The name of an imported checkpoint: never what an id looks like."""


def check_space(space: Node, report: Report, strangers: Strangers) -> None:
    """Every hyperparameter of a space by its type; every other mapping in it is a level."""
    for name, node in space.value.items() if isinstance(space.value, dict) else ():
        if not name:
            report.wrong(node, "a hyperparameter needs a name", at_key=True)
        kind = node.child("type")
        if not isinstance(node.value, dict):
            continue
        if kind is None or not isinstance(kind.value, str):
            check_space(node, report, strangers)
        elif kind.value in TYPES:
            check_section(node, TYPES[kind.value], report, strangers)
            if not node.bad:
                _check_range(node, report)
        else:
            near = nearest(kind.value, TYPES)
            hint = "" if near else "a constant mapping is written `{type: const, val: {…}}`"
            said = f"`{kind.path}`: there is no type of hyperparameter `{kind.value}`"
            report.wrong(kind, said, nearest=near, hint=hint or f"it is one of {listed([*TYPES])}")
            node.bad = True


def _check_range(node: Node, report: Report) -> None:
    low, high = good_value(node, "minval"), good_value(node, "maxval")
    if low is None or high is None:
        return
    if not low < high:
        least = node.child("minval") or node
        report.wrong(least, f"`{node.path}`: minval {low} is not less than maxval {high}")
    elif good_value(node, "type") == "log" and not _power_is_finite(node, low, high):
        report.wrong(
            node,
            f"`{node.path}`: the base to the power of minval or maxval is beyond every number",
            hint="minval and maxval are exponents",
        )


def _power_is_finite(node: Node, low: float, high: float) -> bool:
    base = good_value(node, "base") or 10.0
    try:
        return all(math.isfinite(float(base) ** end) for end in (low, high))
    except OverflowError:
        return False


def search_space(root: Node, report: Report) -> None:
    """`single` has nothing to choose from, and `grid` knows how many points to try."""
    name, space = root.child("searcher", "name"), root.child("hyperparameters")
    if name is None or name.bad or space is None:
        return
    choices = [(path, n) for path, n in space_leaves(space) if _is_choice(n) and not n.bad]
    for path, node in choices if name.value == "single" else ():
        said = f"hyperparameter `{path}` has a choice, but the searcher `single` runs one trial"
        report.wrong(node, said, hint="give it one value, or use grid, random or adaptive_asha")
    if name.value != "grid":
        return
    for path, node in choices:
        if good_value(node, "type") != "categorical" and node.child("count") is None:
            said = f"hyperparameter `{path}` has no count, and the searcher is `grid`"
            report.wrong(node, said, hint="add how many points to try, such as `count: 5`")
    points = math.prod(_points(node) for _, node in choices)
    if points > _MOST_GRID_POINTS:
        said = f"this grid has {points:,} trials, more than {_MOST_GRID_POINTS:,}"
        report.wrong(name, said, hint="lower the counts, or use random or adaptive_asha")


def _points(node: Node) -> int:
    if good_value(node, "type") == "categorical":
        return len(good_value(node, "vals") or [0])
    return int(good_value(node, "count") or 1)


def search_length(root: Node, report: Report) -> None:
    """A trial class and the halving searchers have to know how long to train."""
    searcher, entry = root.child("searcher"), good_value(root, "entrypoint")
    if searcher is None or searcher.bad or not isinstance(searcher.value, dict):
        return
    name, length = searcher.child("name"), searcher.child("max_length")
    if name is None or name.bad or (length and length.bad):
        return
    metric, most = searcher.child("time_metric"), searcher.child("max_time")
    halves = name.value in _ASHA
    if halves and (metric is None) != (most is None):
        report.wrong(
            metric or most or searcher,
            "`time_metric` and `max_time` belong together",
            hint="or write `max_length: 20ep`",
        )
    elif halves and metric and length:
        report.wrong(metric, "`time_metric` and `max_length` exclude each other")
    elif length is None and metric is None and (halves or names_class(entry)):
        of = f"the searcher `{name.value}`" if halves else f"the trial class `{entry}`"
        report.wrong(
            searcher,
            f"`searcher.max_length` is missing: {of} has to know how long to train",
            hint="write `max_length: 10ep`, `500ba` or `2h`"
            if searcher.key
            else "write `searcher: {name: single, max_length: 10ep}`",
        )


def warm_start(root: Node, report: Report) -> None:
    """Trials begin at one place, which is named by an id; `--from` wins over the file."""
    trial = root.child("searcher", "source_trial_id")
    checkpoint = root.child("searcher", "source_checkpoint_uuid")
    start = root.child("warm_start", "checkpoint")
    given = [n for n in (trial, checkpoint) if n is not None and n.value is not None and not n.bad]
    if len(given) == 2:
        said = "`source_trial_id` and `source_checkpoint_uuid` exclude each other"
        report.wrong(given[1], said, hint="keep one")
        return
    if start is not None and not start.bad:
        if given and not start.place.source.override:
            said = f"{named(given[0])} and `warm_start.checkpoint` exclude each other"
            report.wrong(given[0], said, hint="keep one")
        if not _is_source(str(start.value)):
            said = f"{named(start)} is the id of a checkpoint or a trial, or the name of a model"
            report.wrong(start, f"{said}, not `{start.shown}`")
    for node, kind in ((trial, "exp-….t0000"), (checkpoint, "ckpt-…")):
        if node in given and node is not None and _kind_of(str(node.value)) != kind:
            report.wrong(node, f"{named(node)} is an id such as {kind}, not `{node.shown}`")


def _is_source(written: str) -> bool:
    return bool(_kind_of(written)) or MODEL_NAME.fullmatch(written) is not None


def _kind_of(written: str) -> str:
    """What the id of a checkpoint or a trial looks like, if `written` is one."""
    try:
        check_id(written)
    except UsageError:
        return ""
    if written.startswith("ckpt-"):
        return "ckpt-…"
    return "exp-….t0000" if ".t" in written else ""


def space_leaves(space: Node, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Every hyperparameter's dotted name and node, in the order of the file."""
    for name, node in entries_of(space):
        if isinstance(node.value, dict) and not isinstance(good_value(node, "type"), str):
            yield from space_leaves(node, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", node


def _is_choice(node: Node) -> bool:
    return isinstance(node.value, dict) and good_value(node, "type") in TYPES.keys() - {"const"}
