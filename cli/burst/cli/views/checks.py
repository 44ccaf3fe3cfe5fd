"""What `burst doctor` found."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from burst.cli.shapes import CheckJson
from burst.core.units import counted


def checks_page(checks: Sequence[CheckJson], good: str) -> RenderableType:
    """One line a check, and a sentence at the end.

    Args:
        good: what is said where nothing is bad; may be empty.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for one in checks:
        said = Text(one["found"])
        if one["mend"] and (one["warning"] or not one["ok"]):
            said.append(f"\n{one['mend']}", style="yellow")
        made.add_row(_mark(one), one["name"], said)
    bad = sum(not one["ok"] for one in checks)
    if bad:
        end = Text(f"{bad} of {counted(len(checks), 'check')} failed.", style="red bold")
    elif good:
        end = Text(good, style="green")
    else:
        return made
    return Group(made, "", end)


def _mark(one: CheckJson) -> Text:
    if not one["ok"]:
        return Text("✘", style="red bold")
    return Text("!", style="yellow bold") if one["warning"] else Text("✔", style="green")
