"""`burst config …`."""

from __future__ import annotations

from pathlib import Path

import click

from burst.cli.paths import GivenPath
from burst.cli.session import Session, pass_session

_FILE = click.argument("file", type=GivenPath(), default="exp.yaml")
_SET = click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True,
                    help="Set a field, nested by dots.")  # fmt: skip


@click.group()
def config() -> None:
    """Show, check and describe experiment files."""


@config.command()
@_FILE
@_SET
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of YAML.")
@pass_session
def show(session: Session, file: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Print an experiment file in burst's own form with every default filled in."""
    from burst.cli.loading import load
    from burst.core.config.dump import dump_experiment

    loaded = load(session, file, overrides)
    if as_json:
        session.json(loaded.config.model_dump(mode="json"))
    else:
        click.echo(dump_experiment(loaded.config), nl=False)


@config.command()
@_FILE
@_SET
@pass_session
def validate(session: Session, file: Path, overrides: tuple[str, ...]) -> None:
    """Check an experiment file: exit status 0 if it is right, 3 with every mistake if not."""
    from burst.cli.loading import load

    loaded = load(session, file, overrides)
    session.note(f"{file} is right: {loaded.config.name}")


@config.command()
def schema() -> None:
    """Print the JSON schema of experiment files, for editors.

    In VS Code and others with the YAML language server, write it to a file and begin exp.yaml
    with `# yaml-language-server: $schema=schema.json`.
    """
    import json

    from burst.core.config.schema import experiment_schema

    click.echo(json.dumps(experiment_schema(), indent=2))
