"""What no field can say alone: the rules between the fields of an experiment file.

Each rule looks at the tree after it was compared with the model, and leaves alone what already has
a mistake, so that one slip is told once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from burst.core.config.check import Strangers, check_section, named
from burst.core.config.document import Node, Report
from burst.core.config.hparams import TYPES
from burst.core.config.problems import listed, nearest
from burst.core.errors import UsageError
from burst.core.ids import check_id
from burst.core.length import Length

POOL_NAME = re.compile(r"^[a-z][a-z0-9_-]{0,62}$")
_CLASS_ENTRYPOINT = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
_HP_REFERENCE = re.compile(r"\$\{hp\.([^}]*)\}")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SECRET_SOURCES = ("ssm:", "secretsmanager:", "env:")
_MOST_GRID_POINTS = 100_000
_LONGEST_NAME = 200
_ASHA = ("asha", "adaptive_asha")


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
    low, high = _value(node, "minval"), _value(node, "maxval")
    if low is None or high is None:
        return
    if not low < high:
        least = node.child("minval") or node
        report.wrong(least, f"`{node.path}`: minval {low} is not less than maxval {high}")
    elif _value(node, "type") == "log" and not _power_is_finite(node, low, high):
        report.wrong(
            node,
            f"`{node.path}`: the base to the power of minval or maxval is beyond every number",
            hint="minval and maxval are exponents",
        )


def _power_is_finite(node: Node, low: float, high: float) -> bool:
    base = _value(node, "base") or 10.0
    try:
        return all(math.isfinite(float(base) ** end) for end in (low, high))
    except OverflowError:
        return False


def check_rules(root: Node, report: Report) -> None:
    """Every rule between fields, on a tree in burst's own form."""
    for rule in (
        _name,
        _entrypoint,
        _project,
        _search_space,
        _search_length,
        _warm_start,
        _periods,
        _resources,
        _storage,
        _environment,
        _mounts,
        _profiling,
        _log_policies,
    ):
        rule(root, report)


def _name(root: Node, report: Report) -> None:
    node = root.child("name")
    if node is None or node.bad:
        return
    if not node.value.strip() or not node.value.isprintable():
        report.wrong(node, "`name` is one line of text")
    elif len(node.value) > _LONGEST_NAME:
        report.wrong(node, f"`name` is longer than {_LONGEST_NAME} characters")


def _entrypoint(root: Node, report: Report) -> None:
    node = root.child("entrypoint")
    if node is None or node.bad:
        return
    parts = node.value if isinstance(node.value, list) else [node]
    if any(part.bad for part in parts):
        return
    if not parts or not parts[0].value.strip():
        report.wrong(node, "`entrypoint` is empty", hint="write `module:Class`, or a command")
        return
    space = root.child("hyperparameters") or Node({}, root.place)
    known = [name for name, _ in _leaves(space, "")]
    for part in parts:
        for name in _HP_REFERENCE.findall(part.value):
            if name not in known:
                said = f"`${{hp.{name}}}` names no hyperparameter"
                hint = "" if known else "there are none"
                report.wrong(part, said, nearest=nearest(name, known), hint=hint)


def _project(root: Node, report: Report) -> None:
    workspace, project = _value(root, "workspace"), _value(root, "project")
    if bool(workspace) != bool(project):
        there, missing = ("workspace", "project") if workspace else ("project", "workspace")
        node = root.child(there) or root
        report.wrong(node, f"`{there}` needs a `{missing}` beside it", hint="give both or neither")


def _search_space(root: Node, report: Report) -> None:
    name, space = root.child("searcher", "name"), root.child("hyperparameters")
    if name is None or name.bad or space is None:
        return
    choices = [(path, n) for path, n in _leaves(space, "") if _is_choice(n) and not n.bad]
    for path, node in choices if name.value == "single" else ():
        said = f"hyperparameter `{path}` has a choice, but the searcher `single` runs one trial"
        report.wrong(node, said, hint="give it one value, or use grid, random or adaptive_asha")
    if name.value != "grid":
        return
    for path, node in choices:
        if _value(node, "type") != "categorical" and node.child("count") is None:
            said = f"hyperparameter `{path}` has no count, and the searcher is `grid`"
            report.wrong(node, said, hint="add how many points to try, such as `count: 5`")
    points = math.prod(_points(node) for _, node in choices)
    if points > _MOST_GRID_POINTS:
        said = f"this grid has {points:,} trials, more than {_MOST_GRID_POINTS:,}"
        report.wrong(name, said, hint="lower the counts, or use random or adaptive_asha")


def _points(node: Node) -> int:
    if _value(node, "type") == "categorical":
        return len(_value(node, "vals") or [0])
    return int(_value(node, "count") or 1)


def _search_length(root: Node, report: Report) -> None:
    searcher, entry = root.child("searcher"), _value(root, "entrypoint")
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
    elif length is None and metric is None and (halves or _is_class(entry)):
        of = f"the searcher `{name.value}`" if halves else f"the trial class `{entry}`"
        report.wrong(
            searcher,
            f"`searcher.max_length` is missing: {of} has to know how long to train",
            hint="write `max_length: 10ep`, `500ba` or `2h`"
            if searcher.key
            else "write `searcher: {name: single, max_length: 10ep}`",
        )


def _is_class(entrypoint: Any) -> bool:
    return isinstance(entrypoint, str) and bool(_CLASS_ENTRYPOINT.match(entrypoint.strip()))


def _warm_start(root: Node, report: Report) -> None:
    trial = root.child("searcher", "source_trial_id")
    checkpoint = root.child("searcher", "source_checkpoint_uuid")
    given = [n for n in (trial, checkpoint) if n is not None and n.value is not None and not n.bad]
    if len(given) == 2:
        said = "`source_trial_id` and `source_checkpoint_uuid` exclude each other"
        report.wrong(given[1], said, hint="keep one")
        return
    for node, kind in ((trial, "exp-….t0000"), (checkpoint, "ckpt-…")):
        if node not in given or node is None:
            continue
        try:
            valid = check_id(node.value).startswith(kind[:3]) and (".t" in node.value) == (
                node is trial
            )
        except UsageError:
            valid = False
        if not valid:
            report.wrong(node, f"{named(node)} is an id such as {kind}, not `{node.shown}`")


def _periods(root: Node, report: Report) -> None:
    for path in ("searcher.max_length", "validate.every", "checkpoints.every", "report_every"):
        node = root.child(*path.split("."))
        if node is None or node.bad or node.value in (None, "auto"):
            continue
        if Length.model_validate(node.plain()).amount == 0:
            never = path in ("validate.every", "checkpoints.every")
            hint = "`null` means never" if never else ""
            report.wrong(node, f"{named(node)} must be more than zero", hint=hint)


def _resources(root: Node, report: Report) -> None:
    slots, most = (_value(root, "resources", name) for name in ("slots_per_trial", "max_slots"))
    if most is not None and most < (1 if slots is None else slots):
        node = root.child("resources", "max_slots") or root
        said = (
            f"{named(node)} is less than the {slots or 1} slots of one trial, which never starts"
        )
        report.wrong(node, said, nearest=str(slots or 1))
    seen: set[str] = set()
    for node in _items(root.child("resources", "pools")):
        if not node.bad:
            if node.value in seen:
                report.wrong(node, f"the pool `{node.value}` is named twice")
            elif not POOL_NAME.match(node.value):
                report.wrong(node, f"`{node.value}` is no name of a pool", hint=POOL_NAME_RULE)
            seen.add(node.value)


POOL_NAME_RULE = "a name is lower-case letters, digits, `-` and `_`, and begins with a letter"


def _storage(root: Node, report: Report) -> None:
    node = root.child("checkpoints", "storage")
    if node is None or node.bad or not isinstance(node.value, dict):
        return
    kind = _value(node, "type")
    wanted = {"s3": "bucket", "shared_fs": "path", "directory": "path"}.get(str(kind))
    if wanted and not _value(node, wanted):
        said = {"bucket": "a `bucket`", "path": "a `path` (or `host_path`, `container_path`)"}
        report.wrong(node, f"{named(node)} of type {kind} needs {said[wanted]}")
    path, prefix = node.child("path"), node.child("prefix")
    if path and not path.bad and path.value and not path.value.startswith("/"):
        report.wrong(path, f"{named(path)} is an absolute path")
    if prefix and not prefix.bad and ".." in str(prefix.value).split("/"):
        report.wrong(prefix, f"{named(prefix)} may not contain `..`")


def _environment(root: Node, report: Report) -> None:
    variables = root.child("environment", "variables")
    secrets = root.child("environment", "secrets")
    for group in (variables, secrets):
        for name, node in _entries(group):
            if not _VARIABLE.match(name):
                report.wrong(node, f"`{name}` is no name of a variable", at_key=True)
    taken = {name for name, _ in _entries(variables)}
    for name, node in _entries(secrets):
        if name in taken:
            report.wrong(node, f"`{name}` is both a variable and a secret", at_key=True)
        elif not node.bad and not node.value.startswith(_SECRET_SOURCES):
            hint = f"it begins with {listed(_SECRET_SOURCES)}"
            report.wrong(node, f"{named(node)} does not say where the secret is kept", hint=hint)


def _mounts(root: Node, report: Report) -> None:
    for mount in _items(root.child("bind_mounts")):
        host, inside = mount.child("host_path"), mount.child("container_path")
        if host and not host.bad and not host.value.startswith("/"):
            report.wrong(host, f"{named(host)} is an absolute path")
        if inside and not inside.bad and inside.value in ("", "."):
            report.wrong(inside, f"{named(inside)} cannot be the working folder itself")


def _profiling(root: Node, report: Report) -> None:
    begin = _value(root, "profiling", "begin_on_batch") or 0
    end = root.child("profiling", "end_after_batch")
    if end and not end.bad and end.value is not None and end.value < begin:
        report.wrong(end, f"{named(end)} is before `profiling.begin_on_batch`, which is {begin}")


def _log_policies(root: Node, report: Report) -> None:
    for policy in _items(root.child("log_policies")):
        pattern = policy.child("pattern")
        if pattern is None or pattern.bad:
            continue
        try:
            re.compile(pattern.value)
        except re.error as error:
            report.wrong(pattern, f"{named(pattern)} is no regular expression: {error}")


def _items(node: Node | None) -> list[Node]:
    return node.value if node and isinstance(node.value, list) else []


def _entries(group: Node | None) -> list[tuple[str, Node]]:
    return list(group.value.items()) if group and isinstance(group.value, dict) else []


def _leaves(space: Node, prefix: str) -> Iterator[tuple[str, Node]]:
    for name, node in _entries(space):
        if isinstance(node.value, dict) and not isinstance(_value(node, "type"), str):
            yield from _leaves(node, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", node


def _is_choice(node: Node) -> bool:
    return isinstance(node.value, dict) and _value(node, "type") in TYPES.keys() - {"const"}


def _value(node: Node, *keys: str) -> Any:
    """The plain value below, or None where there is none or it is known to be wrong."""
    found = node.child(*keys)
    return None if found is None or found.bad else found.plain()
