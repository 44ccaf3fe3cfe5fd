"""What the launcher says of ranks that could not say how they ended."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from burst.core.launch import LaunchSpec, Outcome, failures_left, write_failure
from burst.core.model import ExitKind, Failure
from burst.harness.gang import note_ends
from tests.harness.launching import TRIAL_CODE, Site


def spec(folder: Path) -> LaunchSpec:
    return LaunchSpec(
        folder=str(folder),
        store_url="memory:",
        blobs_url="",
        checkpoints_url="",
        experiment="",
        trial="",
        allocation="",
        node="",
        attempt=1,
        token=1,
        hparams={},
        seed=0,
        config={},
        ranks_per_node=4,
    )


def ended(rank: int, code: int, at: int = 100) -> ProcessFailure:
    failure = ProcessFailure(local_rank=rank, pid=1, exitcode=code, error_file="")
    failure.timestamp = at
    return failure


def noted(folder: Path) -> dict[int, tuple[str, int | None]]:
    return {rank: (each.kind, each.exit_code) for rank, (_, each) in failures_left(folder).items()}


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([ended(1, -9)], {1: ("SIGKILL", -9)}),
        ([ended(0, 1), ended(1, -11)], {0: ("exit 1", 1), 1: ("SIGSEGV", -11)}),
        ([ended(1, 3), ended(0, -signal.SIGTERM)], {1: ("exit 3", 3)}),
        ([ended(1, 3), ended(0, -signal.SIGKILL, 101)], {1: ("exit 3", 3)}),
        ([ended(0, -signal.SIGKILL, 130), ended(3, -6)], {3: ("SIGABRT", -6)}),
    ],
)
def test_ranks_that_failed_first_are_noted_and_those_ended_for_it_are_not(
    tmp_path: Path, ends: list[ProcessFailure], expected: dict[int, tuple[str, int]]
) -> None:
    note_ends(spec(tmp_path), ends)
    assert noted(tmp_path) == expected


def test_what_a_rank_said_itself_stays(tmp_path: Path) -> None:
    write_failure(tmp_path, 1, Failure(kind="ValueError", rank=1, exit_code=1), 7.0)
    note_ends(spec(tmp_path), [ended(1, 1), ended(2, -9)])
    assert noted(tmp_path) == {1: ("ValueError", 1), 2: ("SIGKILL", -9)}


def test_an_end_after_the_last_word_is_not_noted(tmp_path: Path) -> None:
    Outcome(kind=ExitKind.COMPLETED).write(tmp_path)
    note_ends(spec(tmp_path), [ended(0, -signal.SIGSEGV)])
    assert noted(tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("os._exit(3)", "exit 3"),
    ],
)
def test_a_rank_that_is_gone_without_a_word_is_the_cause(
    tmp_path: Path, act: str, kind: str
) -> None:
    code = TRIAL_CODE.replace(
        "loss = self.model",
        "\n        if batch_idx == 2 and self.context.distributed.rank == 1:\n"
        f"            import os; {act}\n"
        "        loss = self.model",
        1,
    )
    found = Site(tmp_path, code).run(2).failure
    assert found is not None
    assert (found.kind, found.rank) == (kind, 1)
