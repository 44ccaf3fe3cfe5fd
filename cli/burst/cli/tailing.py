"""Lines that the ranks of trials wrote, each once, as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from burst.cli.shapes import LogLineJson
from burst.core.blobs.port import Blobs
from burst.core.logs import LAUNCHER, LogLine, LogReader, is_launcher
from burst.core.model import Trial

Line = tuple[str, LogLine]
"""A trial's id and a line of it."""


@dataclass
class Tail:
    """Reads on from where it was.

    Args:
        rank: only this one's lines.
        attempt: only this one's.
        launcher: also what the launcher and set-up commands wrote.
    """

    blobs: Blobs
    rank: int | None = None
    attempt: int | None = None
    launcher: bool = False
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

    def prefix(self, trial: str, line: LogLine) -> str:
        """`(t0003, rank 1) `: what tells this line from others; empty where there is no other."""
        pieces = [trial.rpartition(".")[2]] if len(self._readers) > 1 else []
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
