"""The plan that `burst run` prints before anything happens."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from burst.cli.planning import Plan
from burst.cli.views import text
from burst.cli.views.search import bracket_lines, ends_line
from burst.cli.views.table import facts
from burst.core.units import counted


def plan_page(plan: Plan) -> RenderableType:
    """Trials, slots, pools, code: what is about to be asked for."""
    direction = "smaller" if plan.smaller_is_better else "larger"
    rows: list[tuple[str, RenderableType]] = [
        ("trials", _trials(plan)),
        ("each", _each(plan)),
        ("on", _pools(plan)),
        ("runs", plan.entrypoint),
        ("metric", f"{plan.metric}, {direction} is better"),
        ("validates", plan.validate),
        ("checkpoints", plan.checkpoints),
        ("code", _code(plan)),
    ]
    if plan.search.brackets:
        rows[1:1] = [
            ("rungs", Group(*bracket_lines(plan.search))),
            ("ends", ends_line(plan.search)),
        ]
    if plan.start:
        rows.insert(-6, ("from", plan.start))
    return Group(Text(plan.name, style="bold"), facts(rows))


def _trials(plan: Plan) -> str:
    search = plan.search
    if search.searcher == "single":
        return "1"
    most = "up to " if search.brackets else ""
    at_once = f", {plan.at_once} at once" if plan.at_once < search.trials else ""
    return f"{most}{search.trials} by {search.searcher} search{at_once}"


def _each(plan: Plan) -> str:
    length = f", {plan.length} long" if plan.length else ""
    return f"{counted(plan.slots_per_trial, 'slot')}{length}"


def _pools(plan: Plan) -> str:
    named = [
        name if name == kind else f"{name} ({kind})"
        for name, kind in zip(plan.pools, plan.pool_kinds, strict=True)
    ]
    return ", then ".join(named)


def _code(plan: Plan) -> str:
    code = plan.code
    commit = f", commit {code.commit[:10]}{' with changes' if code.dirty else ''}"
    return f"{plan.folder}, {text.size(code.size)} packed{commit if code.commit else ''}"
