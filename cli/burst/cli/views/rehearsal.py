"""The report of a rehearsal as a page."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from burst.cli.views.hints import commands
from burst.cli.views.table import Column, facts, section, table
from burst.cli.views.text import FAINT
from burst.core.units import counted, format_duration
from burst.runner.rehearsal.folder import CLOUD, TRIALS
from burst.runner.rehearsal.report import Recovery, Report


def rehearsal_page(report: Report, width: int) -> RenderableType:
    """What was lost and made good, what it would have cost, what was left behind."""
    parts: list[RenderableType] = []
    if report.recoveries:
        parts.append(section("Losses", _losses(report, width)))
    if report.unmade:
        why = "it was given up" if report.given_up else "the training was over"
        text = f"{counted(report.unmade, 'loss')} came to nothing: {why} before"
        parts.append(Text(text, style="yellow"))
    if report.given_up:
        parts.append(Text(f"✘ given up: {report.given_up}", style="red"))
    rows: list[tuple[str, RenderableType]] = [
        ("asked for", _after(report.first_asked) + " of the submission"),
        *(("refused", each) for each in report.refused),
        ("machines", f"{report.machines}, for {format_duration(float(round(report.seconds)))}"),
        ("cost", f"${report.usd:.4f} at the prices of their types, had they been real"),
        ("left behind", _left(report)),
    ]
    parts.append(section("Fleet", facts(rows)))
    return Group(*parts)


def kept_lines(kept: Path | None) -> list[Text]:
    """Where what came of a rehearsal is once its cloud is gone."""
    if kept is None:
        line = (
            "Nothing of it is kept; --keep DIR keeps metrics, checkpoints and what machines wrote."
        )
        return [Text(line, style=FAINT)]
    rows = [
        (f"{kept / TRIALS}", "metrics and newest checkpoint of each trial"),
        (f"{kept / CLOUD}/ec2/machines/*/console.log", "what each machine wrote"),
    ]
    return commands(rows)


def _losses(report: Report, width: int) -> RenderableType:
    found = report.recoveries
    columns = [
        Column("TRIAL", [each.trial.rpartition(".")[2] for each in found]),
        Column("MACHINE", [each.instance for each in found], rank=2),
        Column("NOTICE", [_notice(each) for each in found]),
        Column("REPLACEMENT ASKED", [_after(each.asked) for each in found], justify="right"),
        Column("TRAINS AGAIN", [_after(each.resumed) for each in found], justify="right"),
        Column("BATCHES LOST", [str(each.repeated) for each in found], justify="right"),
    ]
    return table(columns, width)


def _notice(recovery: Recovery) -> str:
    return "none" if recovery.notice is None else format_duration(recovery.notice)


def _after(seconds: float | None) -> str:
    return "–" if seconds is None else f"after {seconds:.1f}s"


def _left(report: Report) -> Text:
    if report.clean:
        return Text("✔ nothing", style="green")
    names = ", ".join((*report.left, *report.unexplained))
    return Text(f"✘ {names}", style="red")
