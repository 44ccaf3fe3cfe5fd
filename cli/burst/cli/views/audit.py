"""`burst audit` as a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from burst.cli.views import text
from burst.cli.views.table import Column, table
from burst.core.units import counted, format_duration
from burst.runner.audit import Found, Verdict, unexplained

_STYLE = {
    Verdict.OWNED: "green",
    Verdict.YOUNG: "yellow",
    Verdict.STRAY: "red",
    Verdict.STOPPED: "red",
    Verdict.UNKNOWN: "red",
}


def audit_page(found: Sequence[Found], pools: Sequence[str], width: int) -> RenderableType:
    """What was found, one row each, and what it comes to.

    Args:
        pools: those that were looked at and cost money; of no use where something was found.
    """
    bad = unexplained(found)
    if not pools and not found:
        return Text("This cluster has no pool that costs money; there is nothing to look for.")
    if not found:
        looked = ", ".join(pools)
        return Text(f"✔ nothing carries the cluster's tags ({looked})", style="green")
    columns = [
        Column("WHAT", [each.kind for each in found]),
        Column("ID", [each.id for each in found]),
        Column("POOL", [each.pool or "–" for each in found], rank=3),
        Column("OWNER", [_owner(each) for each in found], rank=1),
        Column("AGE", [_age(each.age) for each in found], rank=4, justify="right"),
        Column("VERDICT", [Text(each.verdict, style=_STYLE[each.verdict]) for each in found]),
        Column(
            "WHAT WILL BE DONE", [Text(_will(each), style=text.FAINT) for each in found], rank=2
        ),
    ]
    if bad:
        total = Text(f"✘ {counted(len(bad), 'thing')} not explained", style="red")
    else:
        total = Text(f"✔ {counted(len(found), 'thing')}, all explained", style="green")
    silent = [
        Text(f"{each.kind} {each.id}: {each.will}", style="yellow")
        for each in found
        if _is_silent(each)
    ]
    return Group(table(columns, width), "", *silent, *([""] if silent else []), total)


def _owner(found: Found) -> str:
    is_unread = found.verdict is Verdict.UNKNOWN and not _is_silent(found)
    return "unknown" if is_unread else found.owner or "–"


def _will(found: Found) -> str:
    return "nothing before it answers: see below" if _is_silent(found) else found.will


def _is_silent(found: Found) -> bool:
    """Whether it is no thing that was found, but where nobody could look."""
    return found.kind in ("pool", "blobs", "store", "kind")


def _age(age: float | None) -> str:
    return "–" if age is None else format_duration(float(int(age)))
