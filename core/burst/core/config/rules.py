"""What no field can say alone: the rules between the fields of an experiment file.

Each rule looks at the tree after it was compared with the model, and leaves alone what already has
a mistake, so that one slip is told once.
"""

from __future__ import annotations

import re

from burst.core.config.check import named
from burst.core.config.data_rules import data_rules
from burst.core.config.document import Node, Report
from burst.core.config.problems import listed, nearest
from burst.core.config.rules_search import search_length, search_space, space_leaves, warm_start
from burst.core.config.rules_storage import is_zero, storage
from burst.core.config.trees import entries_of, good_value, items_of

POOL_NAME = re.compile(r"^[a-z][a-z0-9_-]{0,62}$")
POOL_NAME_RULE = "a name is lower-case letters, digits, `-` and `_`, and begins with a letter"
_HP_REFERENCE = re.compile(r"\$\{hp\.([^}]*)\}")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SECRET_SOURCES = ("ssm:", "secretsmanager:", "env:")
_LONGEST_NAME = 200


def check_rules(root: Node, report: Report) -> None:
    """Every rule between fields, on a tree in burst's own form."""
    for rule in (
        _name,
        _entrypoint,
        _project,
        search_space,
        search_length,
        warm_start,
        _periods,
        _resources,
        storage,
        data_rules,
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
    known = [name for name, _ in space_leaves(space)]
    for part in parts:
        for name in _HP_REFERENCE.findall(part.value):
            if not _is_there(name.strip(), known):
                said = f"`${{hp.{name}}}` names no hyperparameter"
                hint = "" if known else "there are none"
                report.wrong(part, said, nearest=nearest(name, known), hint=hint)


def _is_there(name: str, known: list[str]) -> bool:
    """Whether a reference is to a hyperparameter, a level of them, or inside of a value."""
    return any(
        name == path or path.startswith(f"{name}.") or name.startswith(f"{path}.")
        for path in known
    )


def _project(root: Node, report: Report) -> None:
    workspace, project = good_value(root, "workspace"), good_value(root, "project")
    if bool(workspace) != bool(project):
        there, missing = ("workspace", "project") if workspace else ("project", "workspace")
        node = root.child(there) or root
        report.wrong(node, f"`{there}` needs a `{missing}` beside it", hint="give both or neither")


def _periods(root: Node, report: Report) -> None:
    for path in ("searcher.max_length", "validate.every", "checkpoints.every", "report_every"):
        node = root.child(*path.split("."))
        if node is None or node.bad or node.value in (None, "auto"):
            continue
        if is_zero(node.plain()):
            never = path in ("validate.every", "checkpoints.every")
            hint = "`null` means never" if never else ""
            report.wrong(node, f"{named(node)} must be more than zero", hint=hint)


def _resources(root: Node, report: Report) -> None:
    slots, most = (
        good_value(root, "resources", name) for name in ("slots_per_trial", "max_slots")
    )
    if most is not None and most < (1 if slots is None else slots):
        node = root.child("resources", "max_slots") or root
        said = (
            f"{named(node)} is less than the {slots or 1} slots of one trial, which never starts"
        )
        report.wrong(node, said, nearest=str(slots or 1))
    seen: set[str] = set()
    for node in items_of(root.child("resources", "pools")):
        if not node.bad:
            if node.value in seen:
                report.wrong(node, f"the pool `{node.value}` is named twice")
            elif not POOL_NAME.match(node.value):
                report.wrong(node, f"`{node.value}` is no name of a pool", hint=POOL_NAME_RULE)
            seen.add(node.value)


def _environment(root: Node, report: Report) -> None:
    variables = root.child("environment", "variables")
    secrets = root.child("environment", "secrets")
    for group in (variables, secrets):
        for name, node in entries_of(group):
            if not _VARIABLE.match(name):
                report.wrong(node, f"`{name}` is no name of a variable", at_key=True)
    taken = {name for name, _ in entries_of(variables)}
    for name, node in entries_of(secrets):
        if name in taken:
            report.wrong(node, f"`{name}` is both a variable and a secret", at_key=True)
        elif not node.bad and not node.value.startswith(_SECRET_SOURCES):
            hint = f"it begins with {listed(_SECRET_SOURCES)}"
            report.wrong(node, f"{named(node)} does not say where the secret is kept", hint=hint)


def _mounts(root: Node, report: Report) -> None:
    for mount in items_of(root.child("bind_mounts")):
        host, inside = mount.child("host_path"), mount.child("container_path")
        if host and not host.bad and not host.value.startswith("/"):
            report.wrong(host, f"{named(host)} is an absolute path")
        if inside and not inside.bad and inside.value in ("", "."):
            report.wrong(inside, f"{named(inside)} cannot be the working folder itself")


def _profiling(root: Node, report: Report) -> None:
    begin = good_value(root, "profiling", "begin_on_batch") or 0
    end = root.child("profiling", "end_after_batch")
    if end and not end.bad and end.value is not None and end.value < begin:
        report.wrong(end, f"{named(end)} is before `profiling.begin_on_batch`, which is {begin}")


def _log_policies(root: Node, report: Report) -> None:
    for policy in items_of(root.child("log_policies")):
        pattern = policy.child("pattern")
        if pattern is None or pattern.bad:
            continue
        try:
            re.compile(pattern.value)
        except re.error as error:
            report.wrong(pattern, f"{named(pattern)} is no regular expression: {error}")
