"""How soon the command line answers.

Its help beside a bare click program, and `burst ls` in a store with a long history beside one
with a short one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.result import Result
from burst.core.model import Code, Experiment, Trial
from burst.core.states import ExperimentState, TrialState
from burst.core.store.port import Put, Store
from burst.core.workspace import open_workspace

ROUNDS = 15
FEW, MANY = 10, 10_000

_BARE = """
import click
@click.group()
def cli(): "A bare program."
@cli.command()
def run(): "Do something."
cli(['--help'])
"""
_HELP = "import sys; sys.argv[1:] = ['--help']; from burst.cli.main import main; main()"
_LS = "import sys; sys.argv[1:] = ['ls']; from burst.cli.main import main; main()"


def measure() -> list[Result]:
    return [_help(), _ls()]


def _help() -> Result:
    bare, ours = _race({}, _BARE), _race({}, _HELP)
    theirs, mine = _medians(bare, ours)
    return Result(
        what="`burst --help`",
        ours=f"{mine * 1000:.0f} ms",
        against=f"a bare click program {theirs * 1000:.0f} ms",
        ratio=mine / theirs,
        target="≤ 2×",
        met=mine / theirs <= 2,
        note=f"medians of {ROUNDS} new processes each, in turns",
    )


def _ls() -> Result:
    with tempfile.TemporaryDirectory() as folder:
        few, many = Path(folder, "few"), Path(folder, "many")
        for home, number in ((few, FEW), (many, MANY)):
            _fill(home, number)
        short, long = (
            _race({"BURST_HOME": str(few)}, _LS),
            _race({"BURST_HOME": str(many)}, _LS),
        )
        theirs, mine = _medians(short, long)
    return Result(
        what=f"`burst ls` with {MANY:,} finished experiments",
        ours=f"{mine * 1000:.0f} ms",
        against=f"with {FEW} {theirs * 1000:.0f} ms",
        ratio=mine / theirs,
        target="≤ 1.1×",
        met=mine / theirs <= 1.1,
        note=f"medians of {ROUNDS} new processes each, in turns",
    )


def _race(environ: Mapping[str, str], program: str) -> Iterator[float]:
    """Seconds of one new process after another."""
    while True:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **environ},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        yield time.perf_counter() - began


def _medians(first: Iterator[float], second: Iterator[float]) -> tuple[float, float]:
    next(first), next(second)  # the files come from the disk's cache from now on
    pairs = [(next(first), next(second)) for _ in range(ROUNDS)]
    ours, theirs = zip(*pairs, strict=True)
    return statistics.median(ours), statistics.median(theirs)


def _fill(home: Path, number: int) -> None:
    """`number` finished experiments of one trial each."""
    store = open_workspace({"BURST_HOME": str(home)}, home.parent).store
    try:
        for some in _some(range(number), 40):
            _write(store, some)
    finally:
        store.close()


def _write(store: Store, numbers: tuple[int, ...]) -> None:
    experiments = [
        Experiment(
            id=f"exp-1m3k9z{number:05d}",
            state=ExperimentState.COMPLETED,
            state_since=60.0,
            name="digits",
            owner="ada",
            created=0.0,
            config={"searcher": {"name": "single", "metric": "validation_loss"}},
            code=Code(digest="ab" * 32, size=1000),
            trials=1,
        )
        for number in numbers
    ]
    trials = [
        Trial(
            id=f"{experiment.id}.t0000",
            state=TrialState.COMPLETED,
            state_since=60.0,
            experiment=experiment.id,
            number=0,
            seed=1,
            slots=1,
            pools=("local",),
            created=0.0,
            queued=0.0,
        )
        for experiment in experiments
    ]
    store.commit(*(Put(record) for record in (*experiments, *trials)))


def _some(numbers: range, size: int) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(numbers), size):
        yield tuple(numbers[start : start + size])
