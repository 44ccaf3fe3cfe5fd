"""Runs commands through the launcher, and judges what they left as an agent does."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burst.core.launch import LaunchSpec, is_connected
from burst.core.model import Exit
from burst.runner.agent.ends.classify import Ended, classify
from burst.runner.agent.ends.tails import failing_log
from tests.harness.launching import Site


@dataclass
class Judged:
    exit: Exit
    log: str
    """Of rank 0."""
    logs: dict[int, str]


class Command(Site):
    """A code folder of several files, and the command that is run in it."""

    def __init__(
        self, folder: Path, entrypoint: Any, files: dict[str, str], **config: Any
    ) -> None:
        super().__init__(folder, "", entrypoint, **config)
        self._files = files

    def prepare(self, ranks: int = 1) -> LaunchSpec:
        spec = super().prepare(ranks)
        for name, text in self._files.items():
            path = spec.path / "code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return spec

    def judged(self, ranks: int = 1) -> Judged:
        """Run it to its end."""
        spec, process = self.start(ranks)
        ended = self.finish(spec, process)
        rank, text = failing_log(spec.path / "logs")
        exit = classify(
            Ended(
                ended.status,
                ended.outcome,
                ended.failure,
                connected=is_connected(spec.path),
                log=text,
                log_rank=rank,
            )
        )
        return Judged(exit, ended.logs.get(0, ""), ended.logs)


def run(folder: Path, script: str, entrypoint: Any = ("python", "train.py")) -> Judged:
    """Run one script as `train.py`."""
    words = list(entrypoint) if isinstance(entrypoint, tuple) else entrypoint
    return Command(folder, words, {"train.py": script}).judged()
