"""`burst ls`."""

from __future__ import annotations

import click

from burst.cli.session import Session, json_option, pass_session


@click.command()
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
def ls(session: Session, everything: bool, limit: int, as_json: bool) -> None:
    """List experiments: the live ones and the newest.

    --json prints an array of `Experiment`.
    """
    list_experiments(session, None if everything else limit, as_json)


def list_experiments(session: Session, limit: int | None, as_json: bool) -> None:
    """Print the live experiments and the newest `limit` ones; None is all."""
    from burst.cli import encoding, reading

    found = reading.overviews(session.store, limit)
    if as_json:
        rows = [(o.experiment, reading.best_trial(o.experiment, o.trials)) for o in found]
        session.json([encoding.experiment_json(e, best) for e, best in rows])
        return
    if not found:
        session.note("No experiments yet. Start one: burst init, then burst run exp.yaml")
        return
    from burst.cli.views.experiments import experiments_table

    session.show(experiments_table(found, session.clock.now(), session.out.width))
