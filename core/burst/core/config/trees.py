"""Looking things up in a tree, and moving them about by dotted paths."""

from __future__ import annotations

from typing import Any

from burst.core.config.document import Node, Report


def take(root: Node, path: str) -> Node | None:
    """Remove and return the node at `path`; None where there is none."""
    *above, last = path.split(".")
    parent = root.child(*above) if above else root
    if parent is None or not isinstance(parent.value, dict):
        return None
    node: Node | None = parent.value.pop(last, None)
    return node


def put(root: Node, path: str, node: Node, report: Report) -> bool:
    """Set `node` at `path`, making the mappings above it; whether it now is there.

    Where something is there already, what came from the command line wins over what is in the
    file; two from the same source are a mistake.
    """
    *above, last = path.split(".")
    parent = root
    for name in above:
        if not isinstance(parent.value, dict):
            return False
        below = parent.value.get(name)
        if below is None or below.value is None:
            made = f"{parent.path}.{name}" if parent.path else name
            below = parent.value[name] = Node({}, node.place, made, node.key)
        parent = below
    if not isinstance(parent.value, dict):
        return False
    there = parent.value.get(last)
    if there is not None and there.value is not None:
        mine, theirs = node.place.source.override, there.place.source.override
        if mine == theirs:
            report.wrong(
                node,
                f"`{node.path}` and `{there.path}` are the same setting",
                hint=f"keep `{path}`",
                at_key=True,
            )
        if mine <= theirs:
            return False
    parent.value[last] = node
    return True


def items_of(node: Node | None) -> list[Node]:
    """The items of a list; none where it is not there or something else."""
    return node.value if node and isinstance(node.value, list) else []


def entries_of(group: Node | None) -> list[tuple[str, Node]]:
    """The entries of a mapping; none where it is not there or something else."""
    return list(group.value.items()) if group and isinstance(group.value, dict) else []


def good_value(node: Node, *keys: str) -> Any:
    """The plain value below, or None where there is none or it is known to be wrong."""
    found = node.child(*keys)
    return None if found is None or found.bad else found.plain()
