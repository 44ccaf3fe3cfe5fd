"""`burst search …`."""

from __future__ import annotations

from pathlib import Path

import click

from burst.cli.options import set_option
from burst.cli.paths import GivenPath
from burst.cli.session import Session, pass_session


@click.group()
def search() -> None:
    """Look at a search before it begins."""


@search.command()
@click.argument("file", type=GivenPath(), default="exp.yaml")
@set_option
@click.option("--json", "as_json", is_flag=True, help="Print a `Search`.")
@pass_session
def preview(session: Session, file: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Print how many trials a search makes, and how long they train.

    Of `asha` and `adaptive_asha` it shows every bracket with its rungs, and how many trials end at
    each if those of a bracket come to it together. Nothing is written, and no pool is asked.
    """
    from burst.cli.loading import load
    from burst.cli.searches import search_json, search_plan
    from burst.cli.views.search import search_page
    from burst.runner.search import make_searcher

    config = load(session, file, overrides).config
    make_searcher(config)
    plan = search_plan(config)
    if as_json:
        session.json(search_json(plan))
    else:
        session.show(search_page(plan))
