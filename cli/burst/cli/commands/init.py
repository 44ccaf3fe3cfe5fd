"""`burst init`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from burst.cli.paths import GivenPath
from burst.cli.session import Session, pass_session

FILES = ("exp.yaml", "train.py", "test_train.py")


@click.command()
@click.argument("folder", type=GivenPath(file_okay=False), default=".")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@pass_session
def init(session: Session, folder: Path, force: bool) -> None:
    """Write an experiment, a trial and a test to start from.

    In FOLDER (default: here) it writes exp.yaml with a comment for every choice, train.py with a
    PyTorchTrial that learns in seconds on a CPU, and test_train.py, which runs it.
    """
    from burst.core.errors import Refused

    there = [name for name in FILES if (folder / name).exists()]
    if there and not force:
        raise Refused(
            f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already",
            why="nothing was written",
            mend="name another folder (`burst init DIR`), or overwrite with --force",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        template = files("burst.cli").joinpath("templates", f"{name}.txt")
        (folder / name).write_text(template.read_text())
        session.note(f"wrote {folder / name}")
    start = "" if folder == Path() else f"cd {folder} && "
    session.note(f"\nTrain it:  {start}burst run exp.yaml")
