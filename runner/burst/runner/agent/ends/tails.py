"""Reading the ends of the logs that an attempt leaves."""

from __future__ import annotations

import re
from pathlib import Path

from burst.runner.agent.ends.classify import last_lines, traceback_in

LAUNCHER_LOG = "launcher.log"
_RANK_LOG = re.compile(r"^rank(\d+)\.log$")


def tail_of(path: Path, size: int = 64 * 1024) -> str:
    """The last `size` bytes of a text; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def rank_logs(logs: Path) -> dict[int, Path]:
    """The logs of the ranks that wrote one, by rank."""
    found = ((_RANK_LOG.match(path.name), path) for path in logs.glob("rank*.log"))
    return {int(match[1]): path for match, path in sorted(found, key=str) if match}


def failing_log(logs: Path) -> tuple[int | None, str]:
    """The rank that seems to have failed first and the end of its log; None is the launcher.

    A rank that failed wrote a traceback and then nothing more, so of those with a traceback it is
    the one whose log was written to least recently.
    """
    ranks = rank_logs(logs)
    tails = {rank: tail_of(path) for rank, path in ranks.items()}
    failed = [rank for rank, text in tails.items() if traceback_in(text)]
    if failed:
        first = min(failed, key=lambda rank: (ranks[rank].stat().st_mtime, rank))
        return first, tails[first]
    launcher = tail_of(logs / LAUNCHER_LOG)
    if traceback_in(launcher) or not any(text.strip() for text in tails.values()):
        return None, launcher
    wordy = min(rank for rank, text in tails.items() if text.strip())
    return wordy, tails[wordy]


def last_lines_of(path: Path, begin: int = 0, lines: int = 20) -> str:
    """The last `lines` lines of what follows byte `begin`."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(begin, size - 64 * 1024))
            return last_lines(file.read().decode(errors="replace"), lines)
    except OSError:
        return ""
