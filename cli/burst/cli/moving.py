"""What a person sees while bytes move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from burst.cli.session import Session


@contextmanager
def progress_bar(session: Session, doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar over bytes on stderr where a person watches; yields what is told how far it is."""
    if not session.err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(doing), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=session.err, transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
