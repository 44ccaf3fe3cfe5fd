"""How an attempt ended, from what its processes left behind."""

from __future__ import annotations

import itertools
import signal

import pytest

from burst.core.launch import EXIT_FENCED, EXIT_INVALID_HP, Outcome
from burst.core.model import Drain, DrainCause, ExitKind, Failure
from burst.runner.agent.ends.classify import Ended, classify, signal_of, traceback_in

PAUSE = Drain(cause=DrainCause.PAUSE, at=0.0)
KILL = Drain(cause=DrainCause.KILL, at=0.0)
FAILED = Failure(kind="ValueError", message="no", traceback="Traceback …", rank=1, exit_code=1)
UNCAUGHT = """epoch 1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
  File "train.py", line 2, in main
    raise ValueError("bad: value")
ValueError: bad: value
"""


@pytest.mark.parametrize("kind", [ExitKind.COMPLETED, ExitKind.STOPPED, ExitKind.DRAINED])
def test_what_rank_0_said_last_is_how_it_ended(kind: ExitKind) -> None:
    exit = classify(Ended(status=0, outcome=Outcome(kind=kind, durable=False)))
    assert (exit.kind, exit.durable, exit.failure) == (kind, False, None)


@pytest.mark.parametrize("status", [1, -signal.SIGSEGV, 139, None])
def test_a_crash_after_the_last_word_costs_nothing(status: int | None) -> None:
    exit = classify(Ended(status=status, outcome=Outcome(kind=ExitKind.COMPLETED)))
    assert exit.kind is ExitKind.COMPLETED


PART = Outcome(kind=ExitKind.COMPLETED, status_to_come=True, part=True)


@pytest.mark.parametrize("status", [1, -signal.SIGKILL, 137, None])
@pytest.mark.parametrize("kind", [ExitKind.COMPLETED, ExitKind.STOPPED])
def test_what_a_part_of_a_command_said_does_not_stand_where_the_command_failed(
    status: int | None, kind: ExitKind
) -> None:
    said = PART.model_copy(update={"kind": kind})
    assert classify(Ended(status=status, outcome=said)).kind is ExitKind.CRASHED
    assert classify(Ended(status=0, outcome=said)).kind is kind


def test_a_part_that_left_as_it_was_asked_to_has_left_whatever_the_shell_makes_of_it() -> None:
    left = Outcome(kind=ExitKind.DRAINED, part=True)
    assert classify(Ended(status=75, outcome=left)).kind is ExitKind.DRAINED


SAID = Outcome(kind=ExitKind.COMPLETED, status_to_come=True)


def test_a_status_that_a_script_chose_after_its_last_word_still_counts() -> None:
    failed = classify(Ended(3, SAID, log="there is no such split"))
    assert failed.kind is ExitKind.CRASHED
    assert failed.failure is not None
    assert failed.failure.kind == "exit 3"
    assert "no such split" in failed.failure.traceback


@pytest.mark.parametrize("status", [0, -signal.SIGSEGV, 134, None])
def test_but_not_how_it_was_torn_down(status: int | None) -> None:
    assert classify(Ended(status, SAID)).kind is ExitKind.COMPLETED


def test_nor_a_status_that_it_was_forced_to() -> None:
    assert classify(Ended(1, SAID, drain=PAUSE, forced=True)).kind is ExitKind.COMPLETED


def test_what_a_trial_says_of_its_stop_is_part_of_the_exit() -> None:
    said = Outcome(kind=ExitKind.STOPPED, text="eval_loss is no better", code="early_stopping")
    exit = classify(Ended(0, said))
    assert (exit.text, exit.code) == ("eval_loss is no better", "early_stopping")


def test_a_drain_that_ends_after_its_outcome_is_durable_even_if_it_was_killed_then() -> None:
    ended = Ended(None, Outcome(kind=ExitKind.DRAINED), drain=PAUSE, forced=True)
    assert classify(ended).durable


def test_a_failure_that_a_rank_left_wins_over_an_outcome_and_a_drain() -> None:
    outcome = Outcome(kind=ExitKind.COMPLETED)
    exit = classify(Ended(1, outcome, FAILED, PAUSE, forced=True))
    assert (exit.kind, exit.failure) == (ExitKind.CRASHED, FAILED)


def test_a_kill_is_a_drain_without_a_checkpoint_whatever_the_processes_left() -> None:
    for status, failure in itertools.product((0, 1, -9, None), (None, FAILED)):
        exit = classify(Ended(status, failure=failure, drain=KILL, forced=True))
        assert (exit.kind, exit.durable, exit.failure) == (ExitKind.DRAINED, False, None)


def test_a_plain_script_that_ends_quietly_has_completed() -> None:
    assert classify(Ended(0)).kind is ExitKind.COMPLETED


def test_a_script_that_cannot_hear_that_it_is_asked_to_leave_has_come_to_its_end() -> None:
    assert classify(Ended(0, drain=PAUSE)).kind is ExitKind.COMPLETED


def test_a_trial_class_that_leaves_without_a_word_has_crashed() -> None:
    exit = classify(Ended(0, connected=True, trial_class=True))
    assert exit.kind is ExitKind.CRASHED


def test_one_that_could_hear_and_ends_without_a_word_may_not_have_finished() -> None:
    exit = classify(Ended(0, drain=PAUSE, connected=True))
    assert (exit.kind, exit.durable) == (ExitKind.DRAINED, False)


@pytest.mark.parametrize("status", [-signal.SIGTERM, -signal.SIGKILL, 143, 1, None])
def test_what_was_forced_out_has_drained_and_is_not_durable(status: int | None) -> None:
    exit = classify(Ended(status, drain=PAUSE, forced=True, log=UNCAUGHT))
    assert (exit.kind, exit.durable) == (ExitKind.DRAINED, False)


def test_refused_hyperparameters_are_told_by_status_by_failure_or_by_outcome() -> None:
    refused = FAILED.model_copy(update={"exit_code": EXIT_INVALID_HP})
    said = Outcome(kind=ExitKind.INVALID_HP)
    for ended in (Ended(EXIT_INVALID_HP), Ended(1, failure=refused), Ended(1, said, FAILED)):
        exit = classify(ended)
        assert exit.kind is ExitKind.INVALID_HP
        assert exit.failure is not None


def test_a_fenced_rank_is_no_crash_of_the_users() -> None:
    fenced = FAILED.model_copy(update={"exit_code": EXIT_FENCED})
    for ended in (Ended(EXIT_FENCED), Ended(1, failure=fenced)):
        assert classify(ended).kind is ExitKind.INFRASTRUCTURE


def test_a_rank_that_could_not_reach_the_store_is_no_crash_of_the_users() -> None:
    exit = classify(Ended(6, Outcome(kind=ExitKind.INFRASTRUCTURE), FAILED))
    assert (exit.kind, exit.failure) == (ExitKind.INFRASTRUCTURE, FAILED)


def test_a_broken_device_is_no_crash_of_the_users() -> None:
    message = "CUDA error: uncorrectable ECC error encountered"
    failure = Failure(kind="RuntimeError", message=message, rank=0, exit_code=1)
    assert classify(Ended(1, failure=failure)).kind is ExitKind.INFRASTRUCTURE


def test_without_a_failure_file_the_users_traceback_is_found_in_the_log() -> None:
    exit = classify(Ended(1, log=UNCAUGHT, log_rank=3))
    assert exit.kind is ExitKind.CRASHED
    assert exit.failure is not None
    assert (exit.failure.kind, exit.failure.message) == ("ValueError", "bad: value")
    assert exit.failure.traceback.startswith("Traceback")
    assert exit.failure.traceback.endswith("ValueError: bad: value")
    assert (exit.failure.rank, exit.failure.exit_code) == (3, 1)


def test_a_traceback_that_the_program_survived_is_not_why_a_signal_ended_it() -> None:
    exit = classify(Ended(-signal.SIGSEGV, log=UNCAUGHT + "epoch 2\n"))
    assert exit.failure is not None
    assert exit.failure.kind == "SIGSEGV"
    assert exit.failure.traceback.endswith("epoch 2")


@pytest.mark.parametrize("status", [-signal.SIGKILL, 137])
def test_a_kill_from_outside_hints_at_memory_and_says_so_where_the_kernel_did(status: int) -> None:
    maybe = classify(Ended(status)).failure
    surely = classify(Ended(status, out_of_memory=True)).failure
    assert maybe is not None
    assert surely is not None
    assert maybe.kind == surely.kind == "SIGKILL"
    assert "usual cause" in maybe.message
    assert "ran out of memory" in surely.message
    assert "usual cause" not in surely.message


def test_a_bare_status_shows_the_last_lines() -> None:
    log = "\n".join(f"line {number}" for number in range(100))
    exit = classify(Ended(3, log=log))
    assert exit.failure is not None
    assert exit.failure.kind == "exit 3"
    assert exit.failure.traceback.splitlines()[0] == "line 80"


def test_processes_that_vanished_have_crashed() -> None:
    exit = classify(Ended(None))
    assert exit.kind is ExitKind.CRASHED
    assert exit.failure is not None
    assert exit.failure.kind == "lost"


def test_every_combination_has_an_exit_that_can_be_stored() -> None:
    outcomes = (None, *(Outcome(kind=kind) for kind in ExitKind))
    drains = (None, *(Drain(cause=cause, at=0.0) for cause in DrainCause))
    statuses = (None, 0, 1, EXIT_INVALID_HP, EXIT_FENCED, 127, 137, 255, -9, -15, -64)
    for status, outcome, failure, drain, forced, log in itertools.product(
        statuses, outcomes, (None, FAILED), drains, (False, True), ("", UNCAUGHT)
    ):
        exit = classify(Ended(status, outcome, failure, drain, forced, log))
        assert exit == type(exit).model_validate_json(exit.model_dump_json())
        failed = exit.kind in (ExitKind.CRASHED, ExitKind.INVALID_HP, ExitKind.INFRASTRUCTURE)
        assert failed == (exit.failure is not None)


def test_a_prefix_on_every_line_is_taken_off_a_traceback() -> None:
    log = "".join(f"[rank1]: {line}\n" for line in UNCAUGHT.splitlines())
    found = traceback_in(log)
    assert found is not None
    assert found[0] == "ValueError"
    assert "[rank1]" not in found[2]


def test_a_chained_traceback_is_shown_with_its_cause() -> None:
    link = "The above exception was the direct cause of the following exception:"
    second = UNCAUGHT.replace("ValueError", "RuntimeError").removeprefix("epoch 1\n")
    found = traceback_in(f"{UNCAUGHT}\n{link}\n\n{second}")
    assert found is not None
    assert found[0] == "RuntimeError"
    assert found[2].index("ValueError: bad") < found[2].index(link) < found[2].index("RuntimeE")


@pytest.mark.parametrize("text", ["", "all is well\n", "Traceback (most recent call last):\n  Fi"])
def test_no_traceback_is_made_up(text: str) -> None:
    assert traceback_in(text) is None


def test_statuses_of_signals_are_known_in_both_spellings() -> None:
    assert signal_of(-9) is signal_of(137) is signal.SIGKILL
    assert [signal_of(status) for status in (None, 0, 1, 127, 128, 255)] == [None] * 6
