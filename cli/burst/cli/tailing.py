"""Lines that the ranks of trials wrote, each once, as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from burst.cli.shapes import LogLineJson
from burst.core.blobs.port import Blobs
from burst.core.logs import LAUNCHER, LogLine, LogReader, is_launcher
from burst.core.model import Trial

Line = tuple[str, LogLine]
"""A trial's id and a line of it."""
_COMMAND = "##["
"""GitHub takes it for a command wherever it stands in a line, and `::` where a line begins."""


def is_read_by_github(environ: Mapping[str, str]) -> bool:
    """Whether what is printed here goes to a log in which GitHub looks for commands."""
    return environ.get("GITHUB_ACTIONS") == "true"


@dataclass
class Tail:
    """Reads on from where it was.

    Args:
        rank: only this one's lines.
        attempt: only this one's.
        launcher: also what the launcher and set-up commands wrote.
        guarded: let no line be one that GitHub would obey: each begins with its trial.
    """

    blobs: Blobs
    rank: int | None = None
    attempt: int | None = None
    launcher: bool = False
    guarded: bool = False
    _readers: dict[str, LogReader] = field(default_factory=dict)
    _gangs: set[str] = field(default_factory=set)

    def read(self, trials: Sequence[Trial], *, unfinished: bool = False) -> Iterator[Line]:
        """What came since the last call, trial by trial; `unfinished`: also a last line that has
        no end yet."""
        self._gangs |= {trial.id for trial in trials if trial.slots > 1}
        for trial in trials:
            if trial.id not in self._readers:
                self._readers[trial.id] = LogReader(
                    self.blobs, trial.id, attempt=self.attempt, rank=self.rank
                )
            for line in self._readers[trial.id].read(unfinished=unfinished):
                if self.launcher or not is_launcher(line.rank):
                    yield trial.id, line

    def shown(self, trial: str, line: LogLine) -> str:
        """The line as it is printed."""
        text = line.text.replace(_COMMAND, "## [") if self.guarded else line.text
        return self._prefix(trial, line) + text

    def _prefix(self, trial: str, line: LogLine) -> str:
        """`(t0003, rank 1) `: what tells this line from others; empty where there is no other."""
        named = self.guarded or len(self._readers) > 1
        pieces = [trial.rpartition(".")[2]] if named else []
        if is_launcher(line.rank):
            node = LAUNCHER - line.rank
            pieces.append(f"launcher {node}" if node else "launcher")
        elif line.rank > 0 or trial in self._gangs:
            pieces.append(f"rank {line.rank}")
        return f"({', '.join(pieces)}) " if pieces else ""


def line_json(trial: str, line: LogLine) -> LogLineJson:
    return {
        "type": "log",
        "trial": trial,
        "attempt": line.attempt,
        "rank": None if is_launcher(line.rank) else line.rank,
        "at": line.at,
        "line": line.text,
    }
