"""How a followed experiment is shown: a live table, lines, JSON, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Protocol

import click
from rich.live import Live

from burst.cli.following import Happening
from burst.cli.reading import Picture, metric_of
from burst.cli.session import Session
from burst.cli.tailing import Line, Tail, line_json
from burst.cli.views.lines import happening
from burst.cli.views.trials import live


class Presenter(Protocol):
    """Is told after every look what happened; entered before the first, left after the last."""

    def __enter__(self) -> Presenter: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, picture: Picture, happened: Sequence[Happening]) -> None: ...

    def log(self, lines: Iterable[Line], tail: Tail) -> None:
        """What the ranks wrote."""
        ...


class _Plain:
    def __enter__(self) -> Presenter:
        return self  # type: ignore[return-value]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


class Quiet(_Plain):
    """Shows nothing: for whoever wants only the end."""

    def show(self, picture: Picture, happened: Sequence[Happening]) -> None:
        pass

    def log(self, lines: Iterable[Line], tail: Tail) -> None:
        pass


class Lines(_Plain):
    """One line for every change of state, validation and reason to wait."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._told:
            click.echo()

    def show(self, picture: Picture, happened: Sequence[Happening]) -> None:
        metric = metric_of(picture.experiment)
        for one in happened:
            if one.for_people:
                self._told = True
                self._session.show(happening(one, picture.experiment.id, metric))
        self._session.out.file.flush()

    def log(self, lines: Iterable[Line], tail: Tail) -> None:
        for trial, line in lines:
            click.echo(tail.shown(trial, line))


class JsonLines(_Plain):
    """One JSON object a line for everything that happened."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def show(self, picture: Picture, happened: Sequence[Happening]) -> None:
        for one in happened:
            self._session.json_line(dict(one.data))

    def log(self, lines: Iterable[Line], tail: Tail) -> None:
        for trial, line in lines:
            self._session.json_line(dict(line_json(trial, line)))


class LiveTable:
    """The table that renews itself in place, and gives way to the summary at the end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._live = Live(console=session.out, auto_refresh=False, transient=True,
                          vertical_overflow="crop")  # fmt: skip

    def __enter__(self) -> Presenter:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.transient = error is None  # without a summary to come, the last table stays
        self._live.stop()

    def show(self, picture: Picture, happened: Sequence[Happening]) -> None:
        height = shutil.get_terminal_size().lines
        self._live.update(live(picture, self._session.out.width, height), refresh=True)

    def log(self, lines: Iterable[Line], tail: Tail) -> None:
        for trial, line in lines:
            self._session.out.print(tail.shown(trial, line))


def presenter_for(session: Session, *, as_json: bool, quiet: bool = False) -> Presenter:
    """The presenter that suits where stdout goes."""
    if as_json:
        return JsonLines(session)
    if quiet:
        return Quiet()
    return LiveTable(session) if session.on_terminal else Lines(session)
