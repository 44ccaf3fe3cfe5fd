"""What becomes of a trial after an attempt: every class of exit, every wish."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.experiment import LogPolicy
from burst.core.model import Allocation, Drain, DrainCause, Exit, ExitKind, Failure, Share, Trial
from burst.core.states import AllocationState, Reason, TrialState, can_advance
from burst.runner.reconcile.allocations import why_not_again
from burst.runner.reconcile.exits import after_exit, failures_in_a_row
from burst.runner.reconcile.policies import Verdict, judge

NOW = 1000.0


def trial(**fields: object) -> Trial:
    made = Trial(
        id="exp-1m3k9zq4w7c.t0000",
        state=TrialState.RUNNING,
        state_since=0,
        experiment="exp-1m3k9zq4w7c",
        number=0,
        seed=0,
        slots=1,
        pools=("local",),
        created=0,
        queued=0,
        attempts=1,
    )
    return made.model_copy(update=fields)


def attempt(
    kind: ExitKind | None = None, *, node: str = "n1", ran: float | None = 5.0, **fields: object
) -> Allocation:
    made = Allocation(
        id="alloc-1m3k9zq4w7c",
        state=AllocationState.RELEASED,
        state_since=0,
        trial="exp-1m3k9zq4w7c.t0000",
        experiment="exp-1m3k9zq4w7c",
        pool="local",
        attempt=1,
        token=1,
        shares=(Share(node=node, slots=(0,)),),
        created=0.0,
        started=None if ran is None else 10.0,
        ended=10.0 + (ran or 0.0),
        exit=None if kind is None else Exit(kind=kind, failure=Failure(kind="E", message="m")),
    )
    return made.model_copy(update=fields)


def lost(**fields: object) -> Allocation:
    return attempt(None, state=AllocationState.LOST, reason=Reason(code="dead"), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("exit", "state"),
    [
        (ExitKind.COMPLETED, TrialState.COMPLETED),
        (ExitKind.STOPPED, TrialState.STOPPED),
        (ExitKind.INVALID_HP, TrialState.FAILED),
        (ExitKind.DRAINED, TrialState.WAITING),
        (ExitKind.CRASHED, TrialState.WAITING),
        (ExitKind.INFRASTRUCTURE, TrialState.WAITING),
    ],
)
def test_each_class_of_exit_has_its_state(exit: ExitKind, state: TrialState) -> None:
    assert after_exit(trial(), attempt(exit), 5, NOW).state is state


@pytest.mark.parametrize(
    ("exit", "paused", "cancelled"),
    [
        (ExitKind.COMPLETED, TrialState.COMPLETED, TrialState.COMPLETED),
        (ExitKind.STOPPED, TrialState.STOPPED, TrialState.STOPPED),
        (ExitKind.INVALID_HP, TrialState.FAILED, TrialState.CANCELLED),
        (ExitKind.DRAINED, TrialState.PAUSED, TrialState.CANCELLED),
        (ExitKind.CRASHED, TrialState.PAUSED, TrialState.CANCELLED),
        (ExitKind.INFRASTRUCTURE, TrialState.PAUSED, TrialState.CANCELLED),
    ],
)
def test_a_wish_decides_where_the_exit_itself_says_nothing_final(
    exit: ExitKind, paused: TrialState, cancelled: TrialState
) -> None:
    pausing = trial(wanted=TrialState.PAUSED)
    ending = trial(state=TrialState.STOPPING, wanted=TrialState.CANCELLED)
    assert after_exit(pausing, attempt(exit), 5, NOW).state is paused
    assert after_exit(ending, attempt(exit), 5, NOW).state is cancelled


def test_max_restarts_of_five_means_six_attempts() -> None:
    fifth = after_exit(trial(restarts=4), attempt(ExitKind.CRASHED), 5, NOW)
    sixth = after_exit(trial(restarts=5), attempt(ExitKind.CRASHED), 5, NOW)
    assert (fifth.state, sixth.state) == (TrialState.WAITING, TrialState.FAILED)
    assert fifth.fields["failure"] == sixth.fields["failure"] == Failure(kind="E", message="m")


def test_a_crash_while_pausing_still_counts() -> None:
    pausing = trial(wanted=TrialState.PAUSED, restarts=5)
    assert after_exit(pausing, attempt(ExitKind.CRASHED), 5, NOW).state is TrialState.FAILED
    again = after_exit(trial(wanted=TrialState.PAUSED), attempt(ExitKind.CRASHED), 5, NOW)
    assert again.fields["restarts"] == 1
    assert "wait" not in again.fields


def test_a_drain_says_why() -> None:
    drained = attempt(
        ExitKind.DRAINED,
        drain=Drain(cause=DrainCause.NOTICE, at=0.0),
        reason=Reason(code="drained", text="the node is taken away"),
    )
    after = after_exit(trial(), drained, 5, NOW)
    assert after.reason == Reason(code="notice", text="the node is taken away")


def test_one_loss_goes_on_at_once_and_a_row_of_them_slows_down() -> None:
    waits = []
    for count in range(1, 14):
        row = failures_in_a_row([lost() for _ in range(count)])
        until = after_exit(trial(), lost(), 0, NOW, row=row).fields.get("wait_until", NOW)
        waits.append(until - NOW)
    assert waits[:4] == [0.0, 1.0, 2.0, 4.0]
    assert waits == sorted(waits)
    assert max(waits) == 300.0


def test_a_long_attempt_ends_a_row() -> None:
    row = failures_in_a_row([lost(), attempt(ExitKind.INFRASTRUCTURE, ran=None), lost(ran=3600.0)])
    assert len(row) == 2
    assert failures_in_a_row([attempt(ExitKind.CRASHED), lost()]) == ()


def test_a_node_is_blocked_after_three_failures_in_a_row_on_it() -> None:
    here = [attempt(ExitKind.INFRASTRUCTURE, node="n1")] * 3
    after = after_exit(trial(), here[0], 0, NOW, row=here)
    assert after.fields["blocked_nodes"] == ("n1",)
    elsewhere = [*here[:2], attempt(ExitKind.INFRASTRUCTURE, node="n2")]
    assert "blocked_nodes" not in after_exit(trial(), here[0], 0, NOW, row=elsewhere).fields


def test_a_log_policy_ends_the_trial_at_its_first_crash() -> None:
    after = after_exit(trial(), attempt(ExitKind.CRASHED), 5, NOW, stop_retrying="policy oom")
    assert after.state is TrialState.FAILED
    assert "policy oom" in after.reason.text


@pytest.mark.parametrize(
    ("kind", "final"),
    [
        ("burst.harness.errors.TrialError", True),
        ("ConfigError", True),
        ("burst.harness.data.errors.RowsRefused", True),
        ("DataError", False),
        ("burst.harness.transformers.script.ending.LeftEarly", False),
        ("RuntimeError", False),
        ("SIGKILL", False),
    ],
)
def test_what_was_written_wrong_is_not_tried_again(kind: str, final: bool) -> None:
    exit = Exit(kind=ExitKind.CRASHED, failure=Failure(kind=kind, message="no"))
    assert bool(why_not_again(exit, None)) is final
    assert why_not_again(exit, Verdict(stop_retrying="policy oom")) == "policy oom"


def test_a_reason_is_one_line_however_long_the_message() -> None:
    failure = Failure(kind="burst.harness.errors.TrialError", message="no model\n  Why:  none\n")
    crashed = attempt(ExitKind.CRASHED)
    crashed = crashed.model_copy(update={"exit": Exit(kind=ExitKind.CRASHED, failure=failure)})
    after = after_exit(trial(), crashed, 5, NOW)
    assert after.reason.text == "TrialError: no model; restart 1 of 5"


def test_log_policies_are_matched_against_lines() -> None:
    cancel = LogPolicy(name="oom", pattern="CUDA out of memory", action="cancel_retries")
    exclude = LogPolicy(pattern=r"NCCL .* failed", action="exclude_node")
    lines = ["step 1", "RuntimeError: CUDA out of memory"]
    verdict = judge([cancel, exclude], lines, ("n1",))
    assert verdict is not None
    assert (verdict.stop_retrying, verdict.blocked) == ("not tried again: log policy 'oom'", ())
    verdict = judge([cancel, exclude], ["NCCL ring failed"], ("n1", "n2"))
    assert verdict is not None
    assert verdict.blocked == ("n1", "n2")
    assert judge([cancel, exclude], ["all is well"], ("n1",)) is None


@given(
    st.sampled_from([None, *ExitKind]),
    st.sampled_from(
        [
            (TrialState.RUNNING, None),
            (TrialState.RUNNING, TrialState.PAUSED),
            (TrialState.STOPPING, TrialState.STOPPED),
            (TrialState.STOPPING, TrialState.CANCELLED),
            (TrialState.STOPPING, None),
        ]
    ),
    st.integers(0, 9),
    st.booleans(),
    st.integers(0, 40),
)
def test_every_outcome_is_reachable_by_the_table(
    kind: ExitKind | None,
    wish: tuple[TrialState, TrialState | None],
    restarts: int,
    gone: bool,
    row: int,
) -> None:
    was = trial(state=wish[0], wanted=wish[1], restarts=restarts)
    allocation = lost() if gone else attempt(kind)
    after = after_exit(was, allocation, 5, NOW, row=[allocation] * row)
    direct = can_advance(was.state, after.state)
    by_stopping = can_advance(was.state, TrialState.STOPPING) and can_advance(
        TrialState.STOPPING, after.state
    )
    assert direct or by_stopping
    counted = after.fields.get("restarts", restarts) - restarts
    assert counted == (0 if gone else int(kind is ExitKind.CRASHED))


def without_credentials(**fields: object) -> Allocation:
    message = "there are no AWS credentials to use s3://lab with\n  Mend: log in"
    failure = Failure(kind="Unauthorized", message=message)
    return attempt(exit=Exit(kind=ExitKind.INFRASTRUCTURE, failure=failure), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("tries", [1, 3, 10])
def test_a_trial_without_credentials_waits_for_them_and_loses_nothing(tries: int) -> None:
    last = without_credentials()
    after = after_exit(trial(), last, 0, NOW, row=[last] * tries)
    assert (after.state, after.reason.code) == (TrialState.WAITING, "no-credentials")
    assert after.reason.text.startswith("there are no AWS credentials to use s3://lab with: type")
    assert "`burst run`" in after.reason.text
    assert "\n" not in after.fields["wait"].text
    assert NOW < after.fields["wait_until"] <= NOW + 60.0
    assert not after.fields.keys() & {"blocked_nodes", "restarts", "failure"}


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_node_is_not_blocked_for_what_its_environment_lacked(at: int) -> None:
    row = [attempt(ExitKind.INFRASTRUCTURE)] * 3
    row[at] = without_credentials()
    assert "blocked_nodes" not in after_exit(trial(), row[0], 0, NOW, row=row).fields


def test_a_trial_that_stopped_itself_keeps_its_own_word_for_why() -> None:
    said = Exit(kind=ExitKind.STOPPED, code="early_stopping", text="eval_loss is no better")
    own = after_exit(trial(), attempt(ExitKind.STOPPED).model_copy(update={"exit": said}), 5, NOW)
    silent = after_exit(trial(), attempt(ExitKind.STOPPED), 5, NOW)
    assert own.reason == Reason(code="early_stopping", text="eval_loss is no better")
    assert silent.reason == Reason(code="stopped", text="it stopped itself early")
