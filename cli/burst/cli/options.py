"""Options that several commands have."""

from __future__ import annotations

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
