"""Rules of where checkpoints are kept: one place, or several, fastest first."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from burst.core.config.check import named
from burst.core.config.document import Node, Report
from burst.core.config.trees import good_value, items_of
from burst.core.length import Length

_NEEDS = {
    "s3": ("bucket", "a `bucket`"),
    "shared_fs": ("path", "a `path` (or `host_path`, `container_path`)"),
    "directory": ("path", "a `path` (or `host_path`, `container_path`)"),
}
_LOCAL = "local"
_SHAPES = {
    "bucket": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"),
        ("name of a bucket", "it has letters, digits, dots, hyphens; folders go into `prefix`"),
    ),
    "endpoint_url": (
        re.compile(r"https?://[^/\s]+(/\S*)?"),
        ("URL of a server", "it begins with http:// or https://"),
    ),
}


def storage(root: Node, report: Report) -> None:
    """Every tier alone, then all of them together."""
    node = root.child("checkpoints", "storage")
    if node is None or node.bad:
        return
    tiers = [node] if isinstance(node.value, dict) else items_of(node)
    for tier in tiers:
        if isinstance(tier.value, dict):
            _tier(tier, report)
    if node.value is not None and not any(part.bad for part in node.walk()):
        _order(node, tiers, report)
        _measures(tiers, report)


def is_zero(value: Any) -> bool:
    """Whether a value is a length of nothing."""
    try:
        return Length.model_validate(value).amount == 0
    except ValueError:  # below a searcher that is none, lengths were not looked at
        return False


def _tier(node: Node, report: Report) -> None:
    kind = good_value(node, "type")
    wanted, said = _NEEDS.get(str(kind), ("", ""))
    if wanted and not node.bad and not good_value(node, wanted):
        report.wrong(node, f"{named(node)} of type {kind} needs {said}")
    path, prefix, every = (node.child(name) for name in ("path", "prefix", "every"))
    if path and not path.bad and path.value:
        _path(path, report)
    for name, (shape, rule) in _SHAPES.items():
        part = node.child(name)
        if part and not part.bad and part.value and not shape.fullmatch(part.value):
            report.wrong(part, f"`{part.value}` is no {rule[0]}", hint=rule[1])
    if prefix and not prefix.bad and ".." in str(prefix.value).split("/"):
        report.wrong(prefix, f"{named(prefix)} may not contain `..`")
    if every and not every.bad and every.value is not None and is_zero(every.plain()):
        said = f"{named(every)} must be more than zero"
        report.wrong(every, said, hint="leave it out to copy every checkpoint")


def _path(path: Node, report: Report) -> None:
    if not path.value.startswith("/"):
        report.wrong(path, f"{named(path)} is an absolute path")
    elif not path.value.isprintable():
        report.wrong(path, f"{named(path)} holds characters that no folder should have")
    elif posixpath.normpath(path.value).strip("/") == "":
        report.wrong(path, f"{named(path)} is the root of the file system", hint="name a folder")


def _order(node: Node, tiers: list[Node], report: Report) -> None:
    seen: dict[tuple[str, ...], Node] = {}
    shared: Node | None = None
    for tier in tiers:
        place = _place(tier)
        if place in seen:
            report.wrong(tier, f"{named(tier)} is the same place as {named(seen[place])}")
            return
        seen[place] = tier
        if good_value(tier, "type") != _LOCAL:
            shared = shared or tier
        elif shared is not None:
            said = f"{named(tier)} is the node's own disk and comes after {named(shared)}"
            report.wrong(tier, said, hint="tiers are written fastest first: put it before")
            return
    if shared is None:
        said = f"{named(node)} has no tier that outlives the node"
        report.wrong(
            node, said, hint="add one of type `shared_fs`, `directory` or `s3` at its end"
        )


def _measures(tiers: list[Node], report: Report) -> None:
    every = tiers[0].child("every") if tiers else None
    if every is not None and every.value is not None:
        said = f"{named(every)}: saves are written to the first tier, every one of them"
        report.wrong(every, said, hint="write `checkpoints.every` for how often to save")
    shared = [tier for tier in tiers if good_value(tier, "type") != _LOCAL]
    keep = shared[0].child("keep") if len(shared) == 1 else None
    if keep is not None and keep.value is not None:
        said = "`checkpoints.keep` says what stays in the only tier that outlives the node"
        report.warn(keep, f"`{keep.path}` has no effect: {said}")


def _place(tier: Node) -> tuple[str, ...]:
    """Equal for two tiers that are one place."""
    if good_value(tier, "type") == "s3":
        prefix = str(good_value(tier, "prefix") or "").strip("/")
        bucket = str(good_value(tier, "bucket")).strip("/")
        return "s3", f"{bucket}/{prefix}".strip("/"), str(good_value(tier, "endpoint_url") or "")
    path = str(good_value(tier, "path") or "")
    return "folder", posixpath.normpath(path) if path else ""
