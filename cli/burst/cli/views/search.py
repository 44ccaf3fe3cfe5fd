"""A search before it begins: its brackets, their rungs, and where trials are expected to end."""

from __future__ import annotations

from rich.console import Group, RenderableType

from burst.cli.searches import SearchPlan
from burst.cli.views.table import facts
from burst.core.config.halving import Ladder
from burst.core.length import Unit
from burst.core.units import counted


def search_page(plan: SearchPlan) -> RenderableType:
    """What `burst search preview` prints."""
    at_once = f", {plan.at_once} at once" if plan.at_once < plan.trials else ""
    rows: list[tuple[str, RenderableType]] = [
        ("search", plan.searcher),
        ("trials", f"{plan.trials:,}{at_once}, each on {counted(plan.slots, 'slot')}"),
    ]
    if plan.brackets:
        rows.append(("rungs", Group(*bracket_lines(plan))))
    if plan.ladder is None:
        rows.append(("length", "the trial's own code says how long it trains"))
        return facts(rows)
    rows.append(("ends", ends_line(plan)))
    rows.append(("in all", _in_all(plan, plan.ladder)))
    return facts(rows)


def bracket_lines(plan: SearchPlan) -> list[str]:
    """Each bracket's trials and rungs, the one with the most rungs first."""
    if plan.ladder is None:
        return []
    lines = []
    for bracket in plan.brackets:
        *below, top = bracket.rungs
        marks = [f"{length:,g}" for length in below] if _counts(plan.ladder) else [
            plan.ladder.words(length) for length in below
        ]  # fmt: skip
        climb = " → ".join([*marks, plan.ladder.words(top)])
        at_once = f", {bracket.concurrent} at once"
        lines.append(f"{climb}: {counted(bracket.trials, 'trial')}{at_once}")
    return lines


def ends_line(plan: SearchPlan) -> str:
    """How many trials are expected to end where."""
    if plan.ladder is None:
        return ""
    ends = ", ".join(f"{of:,} at {plan.ladder.words(length)}" for length, of in plan.ends)
    stops = not plan.brackets or any(len(bracket.rungs) > 1 for bracket in plan.brackets)
    return ends if stops else f"{ends}: too few trials, or too short ones, to stop any early"


def _in_all(plan: SearchPlan, ladder: Ladder) -> str:
    whole = ladder.top * plan.trials
    share = f", {plan.trained / whole:.0%} of training every trial to the top"
    hours = "" if plan.slot_hours is None else f", {plan.slot_hours:,.1f} slot-hours"
    return f"{ladder.words(plan.trained)}{hours}{share if plan.brackets else ''}"


def _counts(ladder: Ladder) -> bool:
    return isinstance(ladder.unit, Unit) and ladder.unit is not Unit.SECONDS
