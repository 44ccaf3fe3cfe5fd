"""`burst experiment …`: the same as the short commands, under the noun."""

from __future__ import annotations

import click

from burst.cli.commands.steer import cancel, kill, pause, resume
from burst.cli.completing import experiment_id
from burst.cli.session import Session, json_option, pass_session


@click.group()
def experiment() -> None:
    """List, show and steer experiments."""


@experiment.command("list")
@click.option("-a", "--all", "everything", is_flag=True, help="Every experiment there is.")
@click.option(
    "-n",
    "--limit",
    default=20,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="How many of the newest, besides the live ones.",
)
@json_option
@pass_session
def list_(session: Session, everything: bool, limit: int, as_json: bool) -> None:
    """List experiments; the same as `burst ls`. --json prints an array of `Experiment`."""
    from burst.cli.commands.ls import list_experiments

    list_experiments(session, None if everything else limit, as_json)


@experiment.command()
@click.argument("experiment", shell_complete=experiment_id, default="latest")
@json_option
@pass_session
def show(session: Session, experiment: str, as_json: bool) -> None:
    """Show an experiment. --json prints `ExperimentWhole`."""
    from burst.cli.ids import find_experiment
    from burst.cli.pages import show_any

    show_any(session, find_experiment(session.store, experiment), as_json)


for _command in (pause, resume, cancel, kill):
    experiment.add_command(_command)
