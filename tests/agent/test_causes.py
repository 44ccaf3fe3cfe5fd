"""Of a gang's failures, the one that the others came of is shown."""

from __future__ import annotations

import itertools

import pytest

from burst.core.model import Failure
from burst.runner.agent.ends.causes import first_cause, told

GLOO = "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]"
ALONE = Failure(kind="RuntimeError", message=GLOO, rank=0, exit_code=1)
RESET = Failure(kind="RuntimeError", message="Read error: Connection reset by peer", exit_code=1)
NCCL = Failure(
    kind="torch.distributed.DistBackendError",
    message="NCCL error: ncclRemoteError: A call failed possibly due to a network error",
    exit_code=1,
)
STORE = Failure(
    kind="DistNetworkError",
    message="Failed to recv, got 0 bytes. Connection was likely closed.",
    exit_code=1,
)
RAISED = Failure(kind="ValueError", message="the learning rate is negative", rank=1, exit_code=1)
SHAPES = Failure(kind="RuntimeError", message="mat1 and mat2 shapes", rank=1, exit_code=1)
HTTP = Failure(kind="ConnectionResetError", message="Connection reset by peer", exit_code=1)
KILLED = Failure(kind="SIGKILL", message="was killed from outside", rank=1, exit_code=-9)
CRASHED = Failure(kind="SIGSEGV", message="was ended by SIGSEGV", rank=1, exit_code=-11)
ABORTED = Failure(kind="SIGABRT", message="was ended by SIGABRT", rank=2, exit_code=-6)
LEFT = Failure(kind="exit 3", message="ended with status 3", rank=1, exit_code=3)


@pytest.mark.parametrize("alone", [ALONE, RESET, NCCL, STORE])
@pytest.mark.parametrize("cause", [RAISED, SHAPES, HTTP, KILLED, CRASHED, ABORTED, LEFT])
def test_who_lost_a_peer_is_never_the_cause_of_another_s_end(
    cause: Failure, alone: Failure
) -> None:
    for at in (1.0, 3.0):
        for found in itertools.permutations([(at, cause), (2.0, alone), (2.5, ALONE)]):
            assert first_cause(found) is cause


@pytest.mark.parametrize(
    ("cause", "other"),
    [(KILLED, RAISED), (CRASHED, RAISED), (RAISED, ABORTED), (RAISED, LEFT), (KILLED, ABORTED)],
)
def test_a_kill_comes_before_an_error_and_an_error_before_an_end_without_one(
    cause: Failure, other: Failure
) -> None:
    assert first_cause([(1.0, other), (2.0, cause)]) is cause


@pytest.mark.parametrize(
    "alike", [(RAISED, SHAPES), (KILLED, CRASHED), (ALONE, NCCL), (ABORTED, LEFT)]
)
def test_of_failures_alike_the_earliest_is_the_cause(alike: tuple[Failure, Failure]) -> None:
    for one, other in (alike, alike[::-1]):
        assert first_cause([(2.0, other), (1.0, one)]) is one


def test_a_peer_that_is_gone_is_told_where_nothing_else_is() -> None:
    assert first_cause([]) is None
    assert first_cause([(1.0, ALONE)]) is ALONE


def test_what_only_the_launcher_noted_is_told_in_words_and_by_the_rank_s_log() -> None:
    killed = told(Failure(kind="SIGKILL", rank=1, exit_code=-9), "step 6\nstep 7\n")
    assert killed.message.startswith("rank 1 was killed from outside")
    assert (killed.kind, killed.rank, killed.traceback) == ("SIGKILL", 1, "step 6\nstep 7")
    log = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\nRuntimeError: {GLOO}'
    alone = told(Failure(kind="exit 1", rank=0, exit_code=1), log)
    assert (alone.kind, alone.message, alone.exit_code) == ("RuntimeError", GLOO, 1)
    assert first_cause([(1.0, alone), (2.0, killed)]) is killed
    assert told(RAISED, log) is RAISED


@pytest.mark.parametrize("alone", [False, True])
def test_a_kill_by_the_kernel_is_told_as_such(alone: bool) -> None:
    bare = Failure(kind="SIGKILL", rank=0, exit_code=-9)
    failure = told(bare, "", alone=alone, out_of_memory=True)
    assert failure.message.startswith("was killed" if alone else "rank 0 was killed")
    assert failure.message.endswith("the machine ran out of memory")
