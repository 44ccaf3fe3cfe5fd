"""`burst show`."""

from __future__ import annotations

import click

from burst.cli.completing import any_id
from burst.cli.session import Session, json_option, pass_session


@click.command()
@click.argument("id", shell_complete=any_id, default="latest")
@json_option
@pass_session
def show(session: Session, id: str, as_json: bool) -> None:
    """Show an experiment, a trial, a checkpoint or a node.

    ID may be any unique beginning of one; without it, the newest experiment is shown. What failed
    comes first, with its own traceback. --json prints `ExperimentWhole`, `TrialWhole`,
    `Checkpoint` or `Node`.
    """
    from burst.cli.ids import find_any
    from burst.cli.pages import show_any

    show_any(session, find_any(session.store, id), as_json)
