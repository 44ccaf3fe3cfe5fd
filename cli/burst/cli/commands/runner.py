"""`burst runner`."""

from __future__ import annotations

import logging

import click

from burst.cli.session import Session, pass_session


@click.command()
@click.option("--until-idle", is_flag=True, help="Leave when nothing is left to do.")
@pass_session
def runner(session: Session, until_idle: bool) -> None:
    """Decide and act until told to stop.

    `burst run` does this by itself while it is in the foreground. Any number of runners may work
    at once; a second one only costs a little. Ctrl-C stops it, and nothing else.
    """
    raise NotImplementedError
