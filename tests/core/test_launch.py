"""The process boundary: what agent and ranks leave for each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.launch import (
    LAUNCH_VARIABLE,
    LaunchSpec,
    Outcome,
    Stop,
    StopFlag,
    failures_left,
    read_launch,
    write_failure,
)
from burst.core.model import ExitKind, Failure


def spec(folder: Path) -> LaunchSpec:
    return LaunchSpec(
        folder=str(folder),
        store_url="memory:",
        blobs_url="file:///blobs",
        checkpoints_url="file:///blobs",
        experiment="exp-1m3k9zq4w7c",
        trial="exp-1m3k9zq4w7c.t0000",
        allocation="alloc-1m3k9zq4w7c",
        node="node-1m3k9zq4w7c",
        attempt=1,
        token=1,
        hparams={"lr": 0.1},
        seed=42,
        config={"name": "digits"},
    )


def test_a_rank_reads_the_launch_that_was_written(tmp_path: Path) -> None:
    written = spec(tmp_path)
    environ = {LAUNCH_VARIABLE: str(written.write())}
    assert read_launch(environ) == written
    assert read_launch({}) is None
    assert {path.name for path in tmp_path.iterdir()} == {"spec.json", "logs", "failures", "code"}


def test_an_outcome_is_read_back_and_is_none_before(tmp_path: Path) -> None:
    assert Outcome.read(tmp_path) is None
    outcome = Outcome(kind=ExitKind.DRAINED, batches=7, durable=False, text="out of time")
    outcome.write(tmp_path)
    assert Outcome.read(tmp_path) == outcome


def test_what_ranks_left_is_read_back_with_its_date_by_rank(tmp_path: Path) -> None:
    assert failures_left(tmp_path) == {}
    left = {
        rank: (at, Failure(kind="ValueError", rank=rank)) for rank, at in ((2, 30.0), (11, 1.5))
    }
    for rank, (at, failure) in left.items():
        write_failure(tmp_path, rank, failure, at)
    assert failures_left(tmp_path) == left


@given(st.sampled_from(Stop), st.floats(0, 4e9))
def test_what_is_set_is_seen_through_another_opening(
    tmp_path_factory: pytest.TempPathFactory, stop: Stop, deadline: float
) -> None:
    path = tmp_path_factory.mktemp("flag") / "stop"
    ours, theirs = StopFlag(path), StopFlag(path)
    assert (theirs.get(), theirs.is_set) == (Stop.RUN, False)
    ours.set(stop, deadline)
    assert (theirs.get(), theirs.deadline) == (stop, deadline)
    assert theirs.is_set is (stop is not Stop.RUN)
    assert StopFlag(path).get() is stop, "opening it again does not clear it"
    ours.close()
    theirs.close()


def test_another_process_sees_the_flag(tmp_path: Path) -> None:
    flag = StopFlag(tmp_path / "stop")
    flag.set(Stop.DRAIN, 12.5)
    program = (
        "import sys; from pathlib import Path; from burst.core.launch import StopFlag\n"
        "flag = StopFlag(Path(sys.argv[1])); print(int(flag.get()), flag.deadline)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "stop")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.split() == ["1", "12.5"]
    flag.close()


def test_an_agent_reads_what_ranks_of_a_newer_version_say(tmp_path: Path) -> None:
    (tmp_path / "outcome.json").write_text('{"kind": "completed", "mood": "content"}')
    assert Outcome.read(tmp_path) == Outcome(kind=ExitKind.COMPLETED)
