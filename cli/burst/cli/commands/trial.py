"""`burst trial …`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from burst.cli.commands.steer import move
from burst.cli.completing import any_id, experiment_id
from burst.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from burst.core.model import MetricRow


@click.group()
def trial() -> None:
    """List, show and steer trials; read their metrics."""


@trial.command("list")
@click.argument("experiment", shell_complete=experiment_id, default="latest")
@json_option
@pass_session
def list_trials(session: Session, experiment: str, as_json: bool) -> None:
    """List the trials of an experiment (by default the newest).

    --json prints an array of `Trial`.
    """
    from burst.cli import encoding, reading
    from burst.cli.ids import find_experiment

    found = find_experiment(session.store, experiment)
    picture = reading.picture(session.store, found.id, session.clock.now())
    if as_json:
        session.json([encoding.trial_json(one, picture.now) for one in picture.trials])
        return
    if not picture.trials:
        session.note(f"{found.id} has no trial yet.")
        return
    from burst.cli.views.trials import trials_table

    session.show(trials_table(picture, session.out.width))


@trial.command()
@click.argument("trial", shell_complete=any_id)
@json_option
@pass_session
def show(session: Session, trial: str, as_json: bool) -> None:
    """Show a trial. --json prints `TrialWhole`."""
    from burst.cli.ids import find_trial
    from burst.cli.pages import show_any

    show_any(session, find_trial(session.store, trial), as_json)


@trial.command()
@click.argument("trial", shell_complete=any_id)
@click.option("-g", "--group", help="Only this group: training, validation, hardware, …")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@json_option
@pass_session
def metrics(session: Session, trial: str, group: str | None, as_csv: bool, as_json: bool) -> None:
    """Print the metrics a trial reported.

    What a lost attempt had reported beyond its last checkpoint is not in it: another attempt
    trained those batches again. --json prints an array of `MetricRow`.
    """
    from burst.cli import encoding
    from burst.cli.ids import find_trial

    if as_csv and as_json:
        raise click.UsageError("Choose one of --csv and --json.")
    found = find_trial(session.store, trial)
    rows = metric_rows(session, found.id, group)
    if as_json:
        session.json([encoding.metric_row_json(name, row) for name, row in rows])
    elif as_csv:
        _print_csv(rows)
    elif not rows:
        of = f" in group {group}" if group else ""
        session.note(f"{found.id} has reported no metrics{of} yet.")
    else:
        from burst.cli.views.records import metrics_table

        session.show(metrics_table(rows, session.out.width))


trial.add_command(move)


def metric_rows(session: Session, trial: str, group: str | None) -> list[tuple[str, MetricRow]]:
    """The merged rows of a trial with their group, by group and batch."""
    from burst.core.metrics import merge

    merged = merge(session.store.metrics(trial, group))
    return [(name, row) for name in sorted(merged) for row in merged[name]]


def _print_csv(rows: Sequence[tuple[str, MetricRow]]) -> None:
    names = list(dict.fromkeys(name for _, row in rows for name in row.metrics))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["group", "batches", "at", *names])
    for group, row in rows:
        values = [repr(row.metrics[n]) if n in row.metrics else "" for n in names]
        writer.writerow([group, row.batches, row.at, *values])
