"""What Pulumi does, shown as it goes on: a live table, lines, or JSON."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from burst.cli.session import Session
from burst.cli.shapes import UpChangeJson
from burst.cli.views import text
from burst.cli.views.account import one_change
from burst.infra.engine.changes import Changes, Op, is_thing
from burst.infra.engine.hearing import Told

if TYPE_CHECKING:
    from burst.infra.engine.changes import Change

_BAR = 20
_NAMED = 3


class Lines(Told):
    """One line for everything that has been done."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._begun: dict[str, float] = {}

    def begun(self, change: Change) -> None:
        if _counts(change):
            self._begun.setdefault(change.urn, self._session.clock.monotonic())

    def done(self, change: Change) -> None:
        if _counts(change):
            self._say(change, one_change(change, self._took(change)))

    def failed(self, change: Change) -> None:
        self._say(change, Text("✘ ", style="red").append_text(one_change(change)))

    def warned(self, words: str) -> None:
        with self._lock:
            self._session.note(f"Pulumi warns: {text.one_line(words)}")

    def _say(self, change: Change, line: Text) -> None:
        clock = Text(text.clock_time(self._session.clock.now()), style=text.FAINT)
        with self._lock:
            self._session.tell(clock.append("  ").append_text(line))

    def _took(self, change: Change) -> float | None:
        since = self._begun.pop(change.urn, None)
        return None if since is None else self._session.clock.monotonic() - since


class JsonLines(Told):
    """One JSON object a line for everything that is begun, done or failed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()

    def begun(self, change: Change) -> None:
        self._line("begun", change)

    def done(self, change: Change) -> None:
        self._line("done", change)

    def failed(self, change: Change) -> None:
        self._line("failed", change)

    def warned(self, words: str) -> None:
        with self._lock:
            self._session.note(f"Pulumi warns: {text.one_line(words)}")

    def _line(self, state: str, change: Change) -> None:
        if not _counts(change):
            return
        line: UpChangeJson = {
            "type": "change",
            "at": self._session.clock.now(),
            "state": state,
            "op": str(change.op),
            "component": change.component,
            "kind": change.kind,
            "name": change.name,
            "urn": change.urn,
        }
        with self._lock:
            self._session.json_line(dict(line))


class Parts(Told):
    """A table of the cluster's parts that renews itself in place."""

    def __init__(self, session: Session, wanted: Changes) -> None:
        """
        Args:
            wanted: what is to be done.
        """
        self._session = session
        self._lock = threading.Lock()
        self._total = Counter(row.component for row in wanted.doing)
        self._done: dict[str, str] = {}
        self._under_way: dict[str, tuple[Change, float]] = {}
        self._failed: list[Change] = []
        self._warned: list[str] = []
        self._live = Live(
            console=session.err,
            get_renderable=self._table,
            refresh_per_second=4,
            transient=False,
        )

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self._live:
            yield
        for words in self._warned:
            self._session.note(f"Pulumi warns: {words}")

    def begun(self, change: Change) -> None:
        if _counts(change):
            with self._lock:
                self._under_way[change.urn] = change, self._session.clock.monotonic()

    def done(self, change: Change) -> None:
        if _counts(change):
            with self._lock:
                self._under_way.pop(change.urn, None)
                self._done[change.urn] = change.component

    def failed(self, change: Change) -> None:
        with self._lock:
            self._under_way.pop(change.urn, None)
            self._failed.append(change)

    def warned(self, words: str) -> None:
        with self._lock:
            self._warned.append(text.one_line(words))

    def _table(self) -> Table:
        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for _ in range(4):  # a row stays a row, so that the table does not jump
            made.add_column(no_wrap=True, overflow="ellipsis")
        now = self._session.clock.monotonic()
        with self._lock:
            busy, ready = list(self._under_way.values()), Counter(self._done.values())
            names = dict.fromkeys(
                [*self._total, *ready, *(change.component for change, _ in busy)]
            )
            for name in names:
                mine = [each for each in busy if each[0].component == name]
                done = ready[name]
                total = max(self._total[name], done + len(mine))
                made.add_row(*_part(name, done, total), _doing(mine, now))
            for change in self._failed:
                made.add_row(Text("✘", style="red"), "", "", one_change(change))
        return made


@contextmanager
def told_by(session: Session, *, as_json: bool, wanted: Changes) -> Iterator[Told]:
    """How a person or a program is told."""
    if as_json:
        yield JsonLines(session)
    elif session.err.is_terminal:
        parts = Parts(session, wanted)
        with parts.shown():
            yield parts
    else:
        yield Lines(session)


def _counts(change: Change) -> bool:
    return is_thing(change.urn) and change.op is not Op.SAME


def _part(name: str, done: int, total: int) -> tuple[Text, Text, Text]:
    mark = Text("✔", style="green") if done >= total else Text("●", style="cyan")
    bar = text.bar(done / total if total else 1.0, _BAR)
    return mark.append(f" {name}", style="default"), bar, Text(f"{done}/{total}")


def _doing(busy: list[tuple[Change, float]], now: float) -> Text:
    oldest = sorted(busy, key=lambda each: each[1])[:_NAMED]
    named = [f"{each.kind} {each.name} {text.seconds(now - since)}" for each, since in oldest]
    more = [f"{len(busy) - _NAMED} more"] if len(busy) > _NAMED else []
    return Text(", ".join([*named, *more]), style=text.FAINT)
