"""`burst checkpoint verify`: what was found, what is done about it, and how it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from burst.cli.session import Session
from burst.core.checkpoints import rehearse as core
from burst.core.checkpoints.verify import Progress, Report
from burst.core.errors import BurstError
from burst.core.model import Checkpoint
from burst.core.units import counted


@dataclass(frozen=True)
class Rehearsed:
    report: Report
    marked: tuple[str, ...] = ()
    """Checkpoints that were marked damaged."""
    cleared: bool = False
    """Whether a mark was taken away."""
    loaded: dict[str, Any] | None = None
    """What a process with torch reported that restored it."""

    @property
    def good(self) -> bool:
        return self.report.good and (self.loaded is None or bool(self.loaded["good"]))

    def loading(self, session: Session, found: Checkpoint, code: Path | None) -> Rehearsed:
        return replace(self, loaded=_load(session, found, code))


def rehearse(
    session: Session, found: Checkpoint, progress: Progress | None, *, mark: bool
) -> Rehearsed:
    """Read it whole; with `mark`, let its record say what was found."""
    blobs, now = session.workspace.blobs, session.clock.now()
    report = core.rehearse(blobs, found, progress)
    if not mark:
        return Rehearsed(report)
    marked = core.mark_lost(blobs, session.store, found, report, now)
    cleared = report.good and core.clear_mark(session.store, found, now)
    return Rehearsed(report, tuple(each.id for each in marked), cleared)


def show(session: Session, found: Checkpoint, done: Rehearsed, as_json: bool) -> int:
    """Tell it; returns the exit status."""
    from burst.cli.views.text import one_line

    report, status = done.report, 0 if done.good else 1
    if as_json:
        problems = [
            {"key": each.key, "text": each.text, "place": each.place} for each in report.problems
        ]
        session.json({
            "checkpoint": found.id, "files": report.files, "size": report.size,
            "problems": problems, "lost": bool(problems) and report.lost,
            "marked": list(done.marked), "loaded": done.loaded,
        })  # fmt: skip
        return status
    for problem in report.problems:
        click.echo(
            f"✘ {one_line(problem.text)}" + (f", in {problem.place}" if problem.place else "")
        )
    for text in () if done.loaded is None else done.loaded["problems"]:
        click.echo(f"✘ {one_line(text['text'])}")
    if done.good:
        _tell_good(found, done)
    elif report.problems and not report.lost:
        session.note("Another place has it intact, or may have it where this machine cannot look.")
    for id in done.marked:
        session.note(f"{id} is marked damaged: trials go on from the one before it.")
    if done.cleared:
        session.note(f"{found.id} was marked damaged, and is used again.")
    return status


def _tell_good(found: Checkpoint, done: Rehearsed) -> None:
    from burst.cli.views import text

    report, loaded = done.report, done.loaded
    files = counted(report.files, "file")
    click.echo(f"✔ {found.id} is as it was written: {files}, {text.size(report.size)}")
    if loaded is not None:
        tensors = counted(loaded["tensors"], "tensor")
        click.echo(f"✔ restored in a process of its own: {tensors}, {loaded['what']}")


def _load(session: Session, found: Checkpoint, code: Path | None) -> dict[str, Any]:
    words = [sys.executable, "-m", "burst.harness.rehearse", "--store", session.store.url,
             "--checkpoint", found.id, *(["--code", str(code)] if code else [])]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, env=dict(session.environ))
    lines = done.stdout.splitlines()
    try:
        report: dict[str, Any] = json.loads(lines[-1])
        report["problems"], report["good"]
    except (IndexError, ValueError, KeyError) as error:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise BurstError(
            "the process that was to restore it ended without a report",
            why=last,
            mend="in a clone of burst, pip install -e '.[train]'; or leave --load out",
        ) from error
    return report
