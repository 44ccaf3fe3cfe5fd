"""Options that several commands have."""

from __future__ import annotations

from typing import Any

import click

from burst.cli.paths import GivenPath

code_option = click.option(
    "--code",
    type=GivenPath(file_okay=False),
    metavar="DIR",
    help="The code folder; by default the file's own.",
)
set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a field of the file, nested by dots. Repeatable.",
)


def stack_options(command: Any) -> Any:
    """Which record of what is in the account: `stack`, `state`, `unlock`."""
    for option in (
        click.option(
            "--unlock",
            is_flag=True,
            help="Remove a lock that another machine has left there. Only if nobody is at it.",
        ),
        click.option(
            "--state",
            metavar="URL",
            help="Where it is kept that these things are there: file:///… or s3://bucket/….",
        ),
        click.option(
            "--stack", metavar="NAME", help="Its name there; by default that of the cluster."
        ),
    ):
        command = option(command)
    return command
