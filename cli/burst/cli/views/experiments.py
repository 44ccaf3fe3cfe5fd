"""Experiments: the list, the page of one, and what is said when one is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from burst.cli.encoding import progress_of
from burst.cli.reading import Overview, Picture, best_trial, metric_of, searcher_of
from burst.cli.views import text
from burst.cli.views.failure import failure
from burst.cli.views.hints import commands
from burst.cli.views.records import checkpoints_table, events_table
from burst.cli.views.table import Column, facts, section, table
from burst.cli.views.trials import alarms, headline, own_stop, short_id, trials_table, waits
from burst.core.checkpoints.assurance.age import is_late
from burst.core.model import Checkpoint, Event, Experiment, Trial
from burst.core.states import TrialState, is_terminal
from burst.core.units import counted

BAR = 12


def experiments_table(overviews: Sequence[Overview], now: float, width: int) -> Table:
    """`burst ls`: one row an experiment, newest first."""
    columns = [
        Column("EXPERIMENT", [o.experiment.id for o in overviews]),
        Column("NAME", [o.experiment.name for o in overviews], rank=1),
        Column("STATE", [_state(o, now) for o in overviews]),
        Column("TRIALS", [_tally(o) for o in overviews], rank=4),
        Column("PROGRESS", [_progress(o) for o in overviews], rank=6),
        Column("BEST", [_best(o) for o in overviews], rank=3),
        Column("OWNER", [o.experiment.owner for o in overviews], rank=7),
        Column("CREATED", [text.ago(o.experiment.created, now) for o in overviews], rank=2,
               justify="right"),
        Column("TOOK", [_took(o, now) for o in overviews], rank=5, justify="right"),
    ]  # fmt: skip
    return table(columns, width)


def experiment_page(
    picture: Picture,
    checkpoints: Sequence[Checkpoint],
    events: Sequence[Event],
    width: int,
) -> RenderableType:
    """`burst show EXPERIMENT`: failures first, then the head, trials, waits and what happened."""
    parts: list[RenderableType] = []
    failed = [t for t in picture.trials if t.failure is not None and t.state is TrialState.FAILED]
    for trial in failed[:3]:
        if trial.failure is not None:
            parts += [failure(trial.failure, trial.id), ""]
    if len(failed) > 3:
        parts += [f"… and {counted(len(failed) - 3, 'more failed trial')}", ""]
    parts += [headline(picture), _head(picture)]
    if picture.trials:
        parts.append(section("Trials", trials_table(picture, width)))
    wrong = alarms(picture, most=10)
    if wrong:
        parts.append(section("Alarms", *wrong))
    waiting = waits(picture, most=10)
    if waiting:
        parts.append(section("Waiting", *waiting))
    if checkpoints:
        metric = metric_of(picture.experiment)
        newest = sorted(checkpoints, key=lambda c: c.created)[-8:]
        parts.append(section("Checkpoints", checkpoints_table(newest, picture.now, width, metric)))
    if events:
        parts.append(section("Lately", events_table(events, width)))
    return Group(*parts)


def summary(
    picture: Picture,
    width: int,
    checkpoint: Checkpoint | None = None,
    hints: Sequence[Text] | None = None,
) -> RenderableType:
    """What `burst run` and `burst wait` say at the end.

    Args:
        checkpoint: the one to offer for download, of the best trial.
        hints: what to say instead of the commands that find it again.
    """
    best = best_trial(picture.experiment, picture.trials)
    failed = [t for t in picture.trials if t.state is TrialState.FAILED and t.failure is not None]
    parts: list[RenderableType] = []
    if failed and failed[0].failure is not None:
        parts += [failure(failed[0].failure, failed[0].id), ""]
    parts += [headline(picture), ""]
    if picture.trials:
        parts.append(trials_table(picture, width, most=40))
    if best is not None:
        parts += ["", Text("Best", style="bold"), best_line(picture.experiment, best)]
    parts += ["", *(_next(picture, best, checkpoint) if hints is None else hints)]
    return Group(*parts)


def best_line(experiment: Experiment, best: Trial) -> Text:
    """`★ t0002  validation_loss 0.0931  at batch 840  lr=0.01`."""
    metric = metric_of(experiment)
    line = Text("★ ", style="yellow").append(f"{short_id(best)}", style="bold default")
    if best.best is not None:
        shown = text.metrics(best.best.metrics, metric, most=4)
        line.append(f"  {shown}", style="default")
        line.append(f"  at batch {best.best.batches}", style=text.FAINT)
    hparams = text.flatten(best.hparams)
    if hparams:
        pieces = [f"{name}={text.value(item)}" for name, item in list(hparams.items())[:8]]
        line.append("\n  " + "  ".join(pieces), style=text.FAINT)
    return line


def _next(picture: Picture, best: Trial | None, checkpoint: Checkpoint | None) -> list[Text]:
    shown = best or (picture.trials[0] if picture.trials else None)
    rows = [(f"burst show {picture.experiment.id}", "the whole story")]
    if shown is not None:
        rows.append((f"burst logs {shown.id}", "what its ranks wrote"))
        rows.append((f"burst trial metrics {shown.id}", "every metric it reported"))
    if checkpoint is not None:
        where = f"{text.size(checkpoint.size)} at batch {checkpoint.batches}"
        rows.append((f"burst checkpoint download {checkpoint.id}", f"its weights, {where}"))
    if not picture.over:
        rows.append((f"burst resume {picture.experiment.id}", "go on where it left off"))
    return commands(rows)


def _head(picture: Picture) -> Table:
    experiment = picture.experiment
    code = experiment.code
    commit = f"commit {code.commit[:10]}{' with changes' if code.dirty else ''}, " * bool(
        code.commit
    )
    rows: list[tuple[str, RenderableType]] = [
        ("created", f"{text.moment(experiment.created)} by {experiment.owner}"),
        ("code", f"{commit}{text.size(code.size)}, sha256 {code.digest[:12]}"),
        ("runs", _entrypoint(experiment)),
    ]
    if experiment.reason.text:
        rows.insert(0, ("why", text.one_line(experiment.reason.text)))
    if experiment.labels:
        rows.append(("labels", ", ".join(experiment.labels)))
    length = searcher_of(experiment).get("max_length")
    if isinstance(length, dict):
        rows.append(("length", ", ".join(f"{v} {unit}" for unit, v in length.items())))
    best = best_trial(experiment, picture.trials)
    if best is not None and len(picture.trials) > 1:
        rows.append(("best", best_line(experiment, best)))
    return facts(rows)


def _entrypoint(experiment: Experiment) -> str:
    entrypoint = experiment.config.get("entrypoint", "")
    return entrypoint if isinstance(entrypoint, str) else " ".join(entrypoint)


def _state(overview: Overview, now: float) -> Text:
    shown = text.state(overview.experiment.state)
    if any(is_late(trial, now) for trial in overview.trials):
        shown.append("  ✘ checkpoint late", style="red bold")
    return shown


def _tally(overview: Overview) -> Text:
    counts = Counter(trial.state for trial in overview.trials)
    order = (TrialState.RUNNING, TrialState.STOPPING, TrialState.WAITING, TrialState.PAUSED,
             TrialState.FAILED)  # fmt: skip
    own = Counter(own_stop(trial) for trial in overview.trials if own_stop(trial))
    total = Text(str(overview.experiment.trials))
    pieces = [f"{number} {word}" for word, number in own.items()]
    if not is_terminal(overview.experiment.state) or counts[TrialState.FAILED]:
        pieces = [*(f"{counts[s]} {s}" for s in order if counts[s]), *pieces]
    return total.append("  " + ", ".join(pieces), style=text.FAINT) if pieces else total


def _progress(overview: Overview) -> Text:
    fractions = [
        1.0 if t.state in (TrialState.COMPLETED, TrialState.STOPPED) else progress_of(t) or 0.0
        for t in overview.trials
    ]
    fraction = sum(fractions) / len(fractions) if fractions else None
    done = text.bar(fraction, BAR, text.state_style(overview.experiment.state))
    return done.append(f" {fraction:4.0%}" if fraction is not None else "", style=text.FAINT)


def _best(overview: Overview) -> str:
    best = best_trial(overview.experiment, overview.trials)
    metric = metric_of(overview.experiment)
    if best is None or best.best is None:
        return "–"
    return f"{metric} {text.metric(best.best.metrics.get(metric))}"


def _took(overview: Overview, now: float) -> str:
    experiment = overview.experiment
    over = is_terminal(experiment.state)
    return text.seconds((experiment.state_since if over else now) - experiment.created)
