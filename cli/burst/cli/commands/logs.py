"""`burst logs`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from burst.cli.completing import any_id
from burst.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from burst.cli.reading import Picture
    from burst.cli.tailing import Line, Tail
    from burst.core.model import Experiment, Trial

LOOK_EVERY_S = 0.5


class LogOptions(TypedDict):
    """Which lines, and how."""

    follow: bool
    rank: int | None
    attempt: int | None
    head: int | None
    tail: int | None
    launcher: bool
    as_json: bool


@click.command()
@click.argument("id", shell_complete=any_id, default="latest")
@click.option("-f", "--follow", is_flag=True, help="Go on until it is over.")
@click.option("-r", "--rank", type=click.IntRange(min=0), metavar="N", help="Only this rank.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt.")
@click.option("--head", type=click.IntRange(min=1), metavar="N", help="Only the first N lines.")
@click.option(
    "-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines."
)
@click.option("--launcher", is_flag=True, help="Also what the launcher and set-up wrote.")
@json_option
@pass_session
def logs(session: Session, id: str, **options: Unpack[LogOptions]) -> None:
    """Print what the ranks of a trial wrote.

    For an experiment with several trials, and in GitHub Actions, each line begins with its trial;
    with several ranks, with its rank. What made a trial fail is said first, on stderr. --json
    prints a `LogLine` a line.
    """
    head, tail = options["head"], options["tail"]
    if head is not None and (tail is not None or options["follow"]):
        raise click.UsageError("--head goes with neither --tail nor --follow.")
    from burst.cli.ids import find_work
    from burst.cli.tailing import Tail, is_read_by_github
    from burst.core.model import Trial

    found = find_work(session.store, id)
    trials = [found] if isinstance(found, Trial) else session.store.children(Trial, found.id)
    _tell_failures(session, trials)
    tail_of = Tail(
        session.workspace.blobs,
        options["rank"],
        options["attempt"],
        options["launcher"],
        guarded=is_read_by_github(session.environ),
    )
    printer = _Printer(session, tail_of, options["as_json"])
    if not options["follow"] or tail is not None:
        lines = tail_of.read(trials, unfinished=not options["follow"])
        printer.print(_part(lines, head, tail))
    if options["follow"]:
        _follow(session, found, printer)
    elif not printer.printed:
        _tell_nothing(session, found, options["launcher"])


def _part(lines: Iterator[Line], head: int | None, tail: int | None) -> Iterator[Line]:
    if head is not None:
        return islice(lines, head)
    return lines if tail is None else iter(deque(lines, maxlen=tail))


class _Printer:
    def __init__(self, session: Session, tail: Tail, as_json: bool) -> None:
        self._session = session
        self._as_json = as_json
        self.tail = tail
        self.printed = 0

    def print(self, lines: Iterable[Line]) -> None:
        from burst.cli.tailing import line_json

        for trial, line in lines:
            self.printed += 1
            if self._as_json:
                self._session.json_line(dict(line_json(trial, line)))
            else:
                click.echo(self.tail.shown(trial, line))


def _follow(session: Session, found: Experiment | Trial, printer: _Printer) -> None:
    from burst.cli.elsewhere import see_driven
    from burst.cli.following import Follower
    from burst.cli.watching import follow_until
    from burst.core.states import is_terminal

    if not is_terminal(found.state):
        see_driven(session, found)
    experiment = found.id.partition(".")[0]

    def mine(picture: Picture) -> list[Trial]:
        return [t for t in picture.trials if found.id in (t.id, experiment)]

    follower = Follower(session.store, experiment, session.store.newest_cursor())
    for picture in follow_until(session, follower, LOOK_EVERY_S):
        over = all(is_terminal(t.state) for t in mine(picture)) and (
            found.id != experiment or picture.over
        )
        printer.print(printer.tail.read(mine(picture), unfinished=over))
        if over:
            return


def _tell_failures(session: Session, trials: list[Trial]) -> None:
    from burst.core.states import TrialState

    failed = [t for t in trials if t.failure is not None and t.state is TrialState.FAILED]
    if failed and failed[0].failure is not None:
        from burst.cli.views.failure import failure

        session.tell(failure(failed[0].failure, failed[0].id), "")


def _tell_nothing(session: Session, found: Experiment | Trial, launcher: bool) -> None:
    from burst.core.states import is_terminal

    if is_terminal(found.state):
        session.note(f"{found.id} wrote nothing.")
        return
    hint = "" if launcher else " `--launcher` shows what came before the ranks."
    session.note(f"{found.id} has written nothing yet.{hint}")
