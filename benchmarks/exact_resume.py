"""Does a resumed run end equal to one that was never interrupted? Every library, the same problem.

Each cell is one combination of augmentation (random numbers drawn in the data set or not), workers
of the loader, and where the run was interrupted (inside an epoch or at its end). The interrupted
run goes on in a new process. A cell counts when all parameters end equal to the bit.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.problem import BOUNDARY, MIDDLE
from benchmarks.result import Result

LIBRARIES = {"ours": "burst", "hf": "HF Trainer", "accelerated": "accelerate", "lit": "Lightning"}
ROOT = Path(__file__).parent.parent


def measure() -> list[Result]:
    exact = {library: list(_cells(library)) for library in LIBRARIES}
    rows = []
    for augment, workers, at in itertools.product((False, True), (0, 1), (MIDDLE, BOUNDARY)):
        cell = (augment, workers, at)
        mine = cell in exact["ours"]
        others = ", ".join(
            f"{name} {'equal' if cell in exact[library] else 'differs'}"
            for library, name in LIBRARIES.items()
            if library != "ours"
        )
        where = "inside an epoch" if at == MIDDLE else "at an epoch's end"
        what = f"{'augmented' if augment else 'plain'} data, {workers} workers, {where}"
        rows.append(Result(what, "equal" if mine else "differs", others, None, "equal", mine))
    counts = ", ".join(
        f"{name} {len(exact[library])}" for library, name in LIBRARIES.items() if library != "ours"
    )
    ours = len(exact["ours"])
    return [*rows, Result("cells of 8", str(ours), counts, None, "8", ours == 8)]


def _cells(library: str) -> Iterator[tuple[bool, int, int]]:
    """The cells in which `library` ends equal."""
    for augment, workers in itertools.product((False, True), (0, 1)):
        with tempfile.TemporaryDirectory() as folder:
            uninterrupted = _run(library, folder, augment, workers)
            for at in (MIDDLE, BOUNDARY):
                if _run(library, folder, augment, workers, at) == uninterrupted:
                    yield augment, workers, at


def _run(library: str, folder: str, augment: bool, workers: int, at: int | None = None) -> str:
    command = [sys.executable, "-m", "benchmarks.peers.one", library, folder]
    command += ["--workers", str(workers)]
    command += ["--augment"] if augment else []
    command += ["--resume-at", str(at)] if at else []
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    digests = [line for line in done.stdout.splitlines() if line.startswith("digest ")]
    if done.returncode or not digests:
        raise RuntimeError(f"{library} failed:\n{done.stdout}{done.stderr}")
    return digests[-1]
