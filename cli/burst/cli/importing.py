"""`burst checkpoint import`: here where the files need no torch, else in a process that has it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from burst.cli.session import Session
from burst.core.checkpoints.exchange.foreign import (
    check_there,
    open_foreign,
    written_by_torch,
)
from burst.core.checkpoints.exchange.importing import import_model
from burst.core.checkpoints.verify import Progress
from burst.core.errors import BurstError, ExitCode, NotFound, Unreachable, UsageError
from burst.core.model import Checkpoint

_ERRORS: dict[int, type[BurstError]] = {
    ExitCode.USAGE: UsageError,
    ExitCode.NOT_FOUND: NotFound,
    ExitCode.UNREACHABLE: Unreachable,
}


def bring_in(
    session: Session, path: Path, name: str, key: str, progress: Progress | None
) -> Checkpoint:
    """Import what lies at `path`; returns its record.

    Raises:
        NotFound, UsageError: there is no model there.
        BurstError: torch is needed, and not here; or it could not be written.
    """
    check_there(path)
    if not written_by_torch(path):
        foreign = open_foreign(path, key)
        blobs = session.workspace.blobs
        return import_model(
            blobs, session.store, foreign, session.clock, name=name, progress=progress
        )
    return session.store.get(Checkpoint, _with_torch(session, path, name, key, progress))


def _with_torch(
    session: Session, path: Path, name: str, key: str, progress: Progress | None
) -> str:
    words = [
        sys.executable, "-m", "burst.harness.importing", str(path.absolute()),
        "--store", session.store.url, "--blobs", session.workspace.blobs.url,
        "--name", name, "--key", key,
    ]  # fmt: skip
    last: dict[str, Any] = {}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(session.environ)
    ) as process:
        for line in process.stdout or ():
            last = json.loads(line)
            if "done" in last and progress:
                progress(last["done"], last["total"])
        said = process.stderr.read() if process.stderr else ""
    if "checkpoint" in last:
        return str(last["checkpoint"])
    if "error" in last:
        told = last["error"]
        kind = _ERRORS.get(told["code"], BurstError)
        raise kind(told["what"], why=told["why"], mend=told["mend"])
    raise BurstError(
        f"{path} could not be read",
        why=(said.strip().splitlines() or ["the process that reads it said nothing"])[-1],
        mend="what torch has written is read with torch: in a clone, pip install -e '.[train]'",
    )
