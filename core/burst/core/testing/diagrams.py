"""The machines of `burst.core.states` drawn for people, as `docs/states.md` shows them.

python -m burst.core.testing.diagrams > docs/states.md
"""

from __future__ import annotations

from enum import StrEnum

from burst.core.states import TABLES

_INTRODUCTION = """\
# States

Each machine is one table in `core/burst/core/states.py`, and `advance` is the only way along an
edge. The reason for a change is data beside the state, never a state of its own. This page is made
from the tables by `python -m burst.core.testing.diagrams`.
"""


def mermaid(machine: type[StrEnum]) -> str:
    """One machine as a Mermaid state diagram; its first state is where a record begins."""
    table = TABLES[machine]
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(table))}"]
    for before, targets in table.items():
        lines += [f"    {before} --> {after}" for after in targets or ("[*]",)]
    return "\n".join(lines)


def page() -> str:
    """The whole of `docs/states.md`."""
    parts = [_INTRODUCTION]
    for machine in TABLES:
        name = machine.__name__.removesuffix("State")
        parts.append(f"## {name}\n\n```mermaid\n{mermaid(machine)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
