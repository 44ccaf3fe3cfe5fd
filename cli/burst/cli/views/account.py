"""The account's side of a cluster as pages: what was looked at, what will be done, what was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from burst.cli.views import text
from burst.cli.views.table import facts, section
from burst.core.units import counted

if TYPE_CHECKING:
    from burst.infra.account.sorts import Thing
    from burst.infra.engine.changes import Change, Changes
    from burst.infra.preflight import Check
    from burst.infra.preflight.costs import Estimate

_MARKS = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "replace": ("±", "magenta"),
    "delete": ("-", "red"),
}
_DOING = {
    "create": ("to make", "made"),
    "update": ("to change", "changed"),
    "replace": ("to make anew", "made anew"),
    "delete": ("to remove", "removed"),
}
_NAMED = 8
"""So many things of one kind are named; of more their number is told."""


def upchecks(checks: Sequence[Check]) -> RenderableType:
    """One line a check, and what to do about those that are not good."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    marks = {"ok": ("✔", "green"), "warning": ("!", "yellow bold"), "failed": ("✘", "red bold")}
    for each in checks:
        mark, style = marks[str(each.verdict)]
        said = Text(each.found)
        if each.mend and str(each.verdict) != "ok":
            said.append(f"\n{each.mend}", style="yellow")
        made.add_row(Text(mark, style=style), each.name, said)
    return made


def changes_page(
    changes: Changes, spans: Mapping[str, tuple[float, float]], width: int
) -> RenderableType:
    """What will be done, part by part of the cluster.

    Args:
        spans: by part, about how many seconds it takes, at least and at most.
    """
    parts: list[RenderableType] = []
    for component, rows in changes.by_component().items():
        head = Text(component, style="bold")
        if component in spans:
            head.append(f"  {span(*spans[component])}", style=text.FAINT)
        parts += [head, *(_row(op, of_kind) for op, of_kind in _by_kind(rows))]
    counts = {str(op): count for op, count in changes.counts().items()}
    told = [f"{counts[op]} {words[0]}" for op, words in _DOING.items() if op in counts]
    same = counts.get("same", 0)
    told += [f"{same} as they are"] if same else []
    return Group(*parts, "", Text(", ".join(told)))


def cost_page(estimate: Estimate) -> RenderableType:
    """What it costs while nothing trains, and a node by the hour."""
    rows: list[tuple[str, RenderableType]] = [
        (f"${line.usd:,.2f}", line.what) for line in estimate.idle if line.usd >= 0.005
    ]
    nodes: list[tuple[str, RenderableType]] = [
        (
            "?" if node.usd is None else f"${node.usd + node.disk_usd:,.2f}",
            f"an hour of {node.type} in pool {node.pool}, on demand; at most {node.max_nodes}",
        )
        for node in estimate.nodes
    ]
    total = Text(f"${estimate.monthly:,.2f} a month while nothing trains", style="bold")
    notes = [Text(note, style=text.FAINT) for note in estimate.notes]
    return Group("", total, facts(rows), "", facts(nodes), *notes)


def span(least: float, most: float) -> str:
    """`about 20s to 1m 00s`."""
    return f"about {text.seconds(round(least))} to {text.seconds(round(most))}"


def one_change(change: Change, seconds: float | None = None) -> Text:
    """`+ VPC vpc  network  2.1s`, of what is done."""
    mark, style = _MARKS.get(str(change.op), ("·", ""))
    line = Text(f"{mark} ", style=style).append(f"{change.kind} {change.name}", style="default")
    line.append(f"  {change.component}", style=text.FAINT)
    if seconds is not None:
        line.append(f"  {text.seconds(seconds)}", style=text.FAINT)
    return line


def counts_line(changes: Changes) -> str:
    """`57 made, 1 changed`."""
    counts = {str(op): count for op, count in changes.counts().items()}
    told = [f"{counts[op]} {words[1]}" for op, words in _DOING.items() if op in counts]
    return ", ".join(told) or "nothing to do"


def up_summary(
    cluster: str, outputs: Mapping[str, object], pools: Sequence[str]
) -> RenderableType:
    """Where things are now, and what to type next."""
    rows: list[tuple[str, RenderableType]] = [
        ("account", f"{outputs.get('account', '–')}, {outputs.get('region', '–')}"),
        ("store", str(outputs.get("store", "–"))),
        ("blobs", str(outputs.get("blobs", "–"))),
        ("pools", ", ".join(pools) or "–"),
    ]
    pool = f" --pool {pools[0]}" if pools else ""
    next_ = Text("\nTrain there:  ").append(f"burst run exp.yaml{pool}", style="bold")
    next_.append("\nLook:         burst pool list, burst audit", style="default")
    next_.append("\nTake down:    burst down", style="default")
    return Group(Text(f"✔ cluster {cluster} stands", style="green"), facts(rows), next_)


def left_page(left: Sequence[tuple[Thing, str]]) -> RenderableType:
    """What could not be removed, why, and how a person removes it."""
    lines: list[RenderableType] = [
        Text(f"✘ {counted(len(left), 'thing')} left:", style="red bold")
    ]
    for thing, why in left:
        lines.append(Text(f"  {thing.kind} {thing.id}"))
        if why:
            lines.append(Text(f"    {why}", style="yellow"))
        lines.append(Text(f"    {thing.by_hand}", style=text.FAINT))
    return Group(*lines)


def kept_page(title: str, lines: Sequence[str]) -> RenderableType:
    return section(title, *(Text(f"  {line}") for line in lines))


def _by_kind(rows: Sequence[Change]) -> list[tuple[str, list[Change]]]:
    grouped: dict[tuple[str, str], list[Change]] = {}
    for row in sorted(rows, key=lambda row: row.name):  # Pulumi tells them as they come
        grouped.setdefault((str(row.op), row.kind), []).append(row)
    return [(op, changes) for (op, _), changes in grouped.items()]


def _row(op: str, rows: Sequence[Change]) -> Text:
    mark, style = _MARKS[op]
    kind = rows[0].kind
    if len(rows) > _NAMED:
        named = f"{len(rows)} of kind {kind}"
    else:
        named = f"{kind} {', '.join(row.name for row in rows)}"
    line = Text(f"  {mark} ", style=style).append(named, style="default")
    why = sorted({name for row in rows for name in row.why})
    if why and op in ("update", "replace"):
        line.append(f"  ({', '.join(why)})", style=text.FAINT)
    return line
