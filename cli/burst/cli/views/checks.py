"""What `burst doctor` found."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from burst.cli.shapes import CheckJson


def checks_page(checks: Sequence[CheckJson]) -> RenderableType:
    """One line a check, and a sentence at the end."""
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
    end = (
        Text("This machine can train.", style="green")
        if not bad
        else Text(f"{bad} of {len(checks)} checks failed.", style="red bold")
    )
    return Group(made, "", end)


def _mark(one: CheckJson) -> Text:
    if not one["ok"]:
        return Text("✘", style="red bold")
    return Text("!", style="yellow bold") if one["warning"] else Text("✔", style="green")
