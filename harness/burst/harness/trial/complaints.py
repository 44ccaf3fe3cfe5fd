"""What is said of checkpoints that fail: a cause once, however often it comes again.

A full disk fails every checkpoint of a night. Said each time, it would bury what else the log has
to tell; said once and never again, nobody would learn that it is over.
"""

from __future__ import annotations

from burst.core.checkpoints.assurance.causes import brief, cause


class Complaints:
    """Turns the failures and successes of saves into what is worth a line."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        """The causes of this row of failures."""
        self._failed = 0
        self._newest = ""

    def failed(self, problems: list[str]) -> list[str]:
        """The lines for problems that were just met: new causes in full, known ones when ten, a
        hundred, a thousand checkpoints in a row have failed."""
        lines = []
        for problem in problems:
            self._failed += 1
            self._newest = problem
            if cause(problem) not in self._said:
                self._said.add(cause(problem))
                lines.append(problem)
            elif str(self._failed).rstrip("0") == "1":
                lines.append(f"{self._failed} checkpoints in a row have failed: {brief(problem)}")
        return lines

    def worked(self) -> str:
        """The line for a checkpoint that is durable; empty unless some had failed before it."""
        failed, self._failed = self._failed, 0
        self._said.clear()
        if not failed:
            return ""
        times = "the one before" if failed == 1 else f"the {failed} before"
        return f"checkpoints work again; {times} failed, the last because: {brief(self._newest)}"
