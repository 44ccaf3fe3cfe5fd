"""What is said of checkpoints that fail: a reason once, however often it comes again.

A full disk fails every checkpoint of a night. Said each time, it would bury what else the log has
to tell; said once and never again, nobody would learn that it is over.
"""

from __future__ import annotations

import re

_VARYING = re.compile(r"\b(?:ckpt|exp|alloc)-\w+|\d+|0x[0-9a-f]+")


class Complaints:
    """Turns the failures and successes of saves into what is worth a line."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        """The reasons of this row of failures, without what differs each time."""
        self._failed = 0
        self._newest = ""

    def failed(self, problems: list[str]) -> list[str]:
        """The lines for problems that were just met: new reasons in full, old ones when they have
        come ten, a hundred, a thousand times in a row."""
        lines = []
        for problem in problems:
            self._failed += 1
            self._newest = problem
            reason = _VARYING.sub("#", problem)
            if reason not in self._said:
                self._said.add(reason)
                lines.append(problem)
            elif str(self._failed).strip("0") == "1":
                lines.append(f"{self._failed} checkpoints in a row have failed, now: {problem}")
        return lines

    def worked(self) -> str:
        """The line for a checkpoint that is durable; empty unless some had failed before it."""
        failed, self._failed = self._failed, 0
        self._said.clear()
        if not failed:
            return ""
        times = "the one before" if failed == 1 else f"the {failed} before"
        return f"checkpoints work again; {times} failed, the last because {_reason(self._newest)}"


def _reason(problem: str) -> str:
    """The cause on one line, without the words that a line about failures repeats."""
    return " ".join(problem.split()).rpartition(" was not saved: ")[2]
