"""The page of one trial."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from burst.cli.encoding import progress_of
from burst.cli.reading import Picture, metric_of
from burst.cli.views import text
from burst.cli.views.failure import failure
from burst.cli.views.records import allocations_table, checkpoints_table, events_table
from burst.cli.views.table import facts, section
from burst.cli.views.trials import alarms, rate_of, saved, seconds_left, waits, where
from burst.core.checkpoints.assurance.age import checkpoint_age
from burst.core.model import Allocation, Checkpoint, Event, Trial
from burst.core.units import counted

_CHECKPOINTS = 8
"""Checkpoints on the page."""


def trial_page(
    picture: Picture,
    trial: Trial,
    attempts: Sequence[Allocation],
    checkpoints: Sequence[Checkpoint],
    events: Sequence[Event],
    *,
    width: int,
    unproved: bool = False,
) -> RenderableType:
    """`burst show TRIAL`: its failure first, then where it stands, its attempts and checkpoints.

    Args:
        picture: the trial's experiment, with this trial alone in it.
        unproved: whether a checkpoint of it is yet to be proved to restore.
    """
    parts: list[RenderableType] = []
    if trial.failure is not None:
        parts += [failure(trial.failure, trial.id), ""]
    parts.append(facts(_head(picture, trial, unproved)))
    said = [*alarms(picture), *waits(picture)]
    parts += ["", *said] if said else []
    if trial.latest or trial.best:
        parts.append(section("Metrics", facts(_metrics(trial, metric_of(picture.experiment)))))
    hparams = text.flatten(trial.hparams)
    if hparams:
        rows = [(name, text.value(item)) for name, item in hparams.items()]
        parts.append(section("Hyperparameters", facts(rows)))
    if attempts:
        parts.append(section("Attempts", allocations_table(attempts, picture.now, width)))
    if checkpoints:
        parts.append(section("Checkpoints", *_checkpoints(picture, checkpoints, width)))
    if events:
        parts.append(section("Lately", events_table(events, width)))
    return Group(*parts)


def _head(picture: Picture, trial: Trial, unproved: bool) -> list[tuple[str, RenderableType]]:
    called = text.one_line(picture.experiment.name)
    name = Text(trial.id, style="bold").append(f"  {called}", style="default")
    rows: list[tuple[str, RenderableType]] = [
        ("trial", name),
        ("state", _state(trial, picture.now)),
        ("progress", _progress(trial)),
    ]
    live = picture.allocations.get(trial.id)
    if live is not None:
        rows.append(("on", where(live, picture.nodes)))
    rows.append(("slots", f"{trial.slots} of {' or '.join(trial.pools) or 'any pool'}"))
    crashed = f", of which {trial.restarts} crashed" if trial.restarts else ""
    rows.append(("tries", counted(trial.attempts, "attempt") + crashed))
    if trial.checkpoint or checkpoint_age(trial, picture.now) is not None:
        rows.append(("checkpoint", _checkpoint(trial, picture.now)))
    if trial.checkpoint_problem and trial.live:
        rows.append(("not saved", Text(trial.checkpoint_problem.strip(), style="yellow")))
    if trial.proved or trial.unprovable or unproved:
        rows.append(("restore", _proof(trial)))
    rows.append(("seed", str(trial.seed)))
    return rows


def _checkpoint(trial: Trial, now: float) -> Text:
    """`2m ago (every ~5m)  ckpt-…`; red where the next one is late."""
    line = saved(trial, now) if trial.live else Text()
    if not trial.checkpoint:
        return Text("none yet").append(f" after {line.plain}", style=line.style)
    line.append("  " * bool(line.plain))
    return line.append(trial.checkpoint, style="default")


def _proof(trial: Trial) -> Text:
    """Whether what it saves was restored once in a process to throw away."""
    if trial.proved:
        return Text("proved", style="green").append(f" with {trial.proved}", style="default")
    if trial.unprovable:
        return Text(f"✘ not as it was saved: {text.one_line(trial.unprovable)}", style="red")
    words = "not proved yet; it is tried beside training once there is a checkpoint"
    return Text(words, style="yellow")


def _state(trial: Trial, now: float) -> Text:
    line = text.state(trial.state)
    if trial.wanted is not None and trial.live:
        line.append(f" → {trial.wanted}", style=text.FAINT)
    line.append(f"  since {text.ago(trial.state_since, now)}", style=text.FAINT)
    if trial.reason.text:
        line.append(f"  {text.one_line(trial.reason.text)}", style="default")
    return line


def _progress(trial: Trial) -> Text:
    fraction = progress_of(trial)
    line = text.bar(fraction, 24, text.state_style(trial.state))
    whole = f"/{trial.target_batches}" if trial.target_batches else ""
    done = trial.done
    line.append(f"  {done.batches}{whole} batches, {text.amount(done.epochs)} epochs")
    line.append(f", {text.seconds(done.seconds)} of training")
    if rate_of(trial):
        line.append(f" at {text.rate(rate_of(trial))}")
    left = seconds_left(trial)
    return line.append(f", {text.seconds(left)} left") if left is not None else line


def _checkpoints(
    picture: Picture, checkpoints: Sequence[Checkpoint], width: int
) -> list[RenderableType]:
    kept = [one for one in checkpoints if one.deleted is None]
    parts: list[RenderableType] = []
    if kept:
        metric = metric_of(picture.experiment)
        parts.append(checkpoints_table(kept[-_CHECKPOINTS:], picture.now, width, metric))
    gone = len(checkpoints) - len(kept[-_CHECKPOINTS:])
    if gone:
        command = f"burst checkpoint list --all {picture.trials[0].id}"
        parts.append(Text(f"… and {gone} more, deleted ones too: {command}", style=text.FAINT))
    return parts


def _metrics(trial: Trial, metric: str) -> list[tuple[str, RenderableType]]:
    rows: list[tuple[str, RenderableType]] = []
    for group, point in trial.latest.items():
        shown = Text(text.metrics(point.metrics, metric, most=8))
        rows.append((group, shown.append(f"  at batch {point.batches}", style=text.FAINT)))
    if trial.best is not None:
        shown = Text(text.metrics(trial.best.metrics, metric, most=8)).append(" ★", style="yellow")
        rows.append(("best", shown.append(f"  at batch {trial.best.batches}", style=text.FAINT)))
    return rows
