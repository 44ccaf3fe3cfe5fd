"""`burst wait`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from burst.cli.completing import any_id
from burst.cli.session import Session, json_option, pass_session
from burst.cli.times import Span
from burst.core.errors import BurstError

if TYPE_CHECKING:
    from burst.cli.reading import Picture
    from burst.core.model import Experiment, Trial


@click.command()
@click.argument("id", shell_complete=any_id, default="latest")
@click.option(
    "-t", "--timeout", type=Span(), metavar="TIME", help="Give up after this long: 90s, 10m, 2h."
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing while waiting.")
@json_option
@pass_session
def wait(session: Session, id: str, timeout: float | None, quiet: bool, as_json: bool) -> int:
    """Wait until an experiment or a trial is over.

    The exit status is the result: 0 if it completed, 1 if it failed, was cancelled, is paused, or
    was not over in time. What is paused is not waited for: nothing goes on until somebody resumes
    it. Where nobody drives, a runner is started in the background. --json prints `Result`, or
    `Trial` for a trial.
    """
    from burst.cli.ids import find_work
    from burst.core.model import Trial

    found = find_work(session.store, id)
    if isinstance(found, Trial):
        return _wait_for_trial(session, found, timeout, quiet or as_json, as_json)
    return _wait_for_experiment(session, found, timeout, quiet or as_json, as_json)


def _wait_for_experiment(
    session: Session, experiment: Experiment, seconds: float | None, quiet: bool, as_json: bool
) -> int:
    from burst.cli.ending import finish
    from burst.cli.following import settled
    from burst.cli.views.hints import held

    picture = _watch(session, experiment, seconds, quiet, settled)
    status = finish(session, picture, as_json=as_json, indent=True)
    if not picture.over:
        session.note(held(picture))
    return status


def _wait_for_trial(
    session: Session, trial: Trial, seconds: float | None, quiet: bool, as_json: bool
) -> int:
    from burst.cli import encoding, pages
    from burst.cli.following import succeeded, trial_settled
    from burst.cli.views.hints import trial_held
    from burst.core.states import is_terminal

    def over(picture: Picture) -> bool:
        return trial_settled(picture, trial.id)

    picture = _watch(session, trial, seconds, quiet, over)
    ended = next(t for t in picture.trials if t.id == trial.id)
    if as_json:
        session.json(encoding.trial_json(ended, picture.now))
    else:
        pages.show_any(session, ended, False)
    if not is_terminal(ended.state):
        session.note(trial_held(picture, ended.id))
    return 0 if succeeded(ended) else 1


def _watch(
    session: Session,
    record: Experiment | Trial,
    seconds: float | None,
    quiet: bool,
    until: Callable[[Picture], bool],
) -> Picture:
    from burst.cli.elsewhere import driven, see_driven
    from burst.cli.following import Follower
    from burst.cli.presenting import presenter_for
    from burst.cli.reading import picture
    from burst.cli.watching import TimedOut, watch

    id = record.id.partition(".")[0]
    if not until(picture(session.store, id, session.clock.now())):
        see_driven(session, record)
    follower = Follower(session.store, id, session.store.newest_cursor())
    presenter = presenter_for(session, as_json=False, quiet=quiet)
    until = driven(session, record, until)
    try:
        return watch(session, follower, presenter, until=until, seconds=seconds)
    except TimedOut:
        raise BurstError(
            f"{id} is not over after {seconds:g} seconds",
            why="it goes on in the background",
            mend=f"`burst why {id}` says what it waits for, `burst wait {id}` waits on",
        ) from None
