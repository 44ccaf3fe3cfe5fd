"""`burst checkpoint lost`: a person says that a place was emptied for good."""

from __future__ import annotations

import click

from burst.cli.session import Session
from burst.core.blobs import names_blobs, open_blobs
from burst.core.checkpoints.removal.lost import accept_loss, refuse_unless_empty, said_to_lie_in
from burst.core.errors import UsageError
from burst.core.units import counted


def give_up(session: Session, url: str, *, ask: bool) -> None:
    """Let no record say any more that a checkpoint lies in an empty place, and tell on stderr
    what came of it.

    Raises:
        UsageError: the URL names no place.
        Refused: something lies there.
        Unreachable: it did not answer.
    """
    if not names_blobs(url):
        raise UsageError(
            f"{url!r} names no place of checkpoints",
            why="such a place is file:///absolute/path or s3://bucket/prefix",
            mend="give the URL that `burst checkpoint show` prints at `lies in`",
        )
    place = open_blobs(url)
    refuse_unless_empty(place)
    records = said_to_lie_in(session.store, place.url)
    if not records:
        session.note(f"No checkpoint is said to lie in {place.url}.")
        return
    trials = counted(len({record.trial for record in records}), "trial")
    what = f"{counted(len(records), 'checkpoint')} of {trials}"
    if ask:
        click.confirm(
            f"{place.url} is empty here. If it is not mounted on this machine, mount it instead.\n"
            f"Give up {what} in it?",
            abort=True,
            err=True,
        )
    now = session.clock.now()
    after = [accept_loss(session.store, record.id, place.url, now) for record in records]
    lost = sum(1 for record in after if record.damaged)
    session.note(f"{what} given up: {lost} lay nowhere else.")
    if lost:
        session.note("Trials go on from what other places hold, or begin again.")
