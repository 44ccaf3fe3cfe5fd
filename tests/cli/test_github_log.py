"""What ranks write, in a log in which GitHub looks for commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.cli.tailing import Tail, is_read_by_github
from burst.core.blobs import open_blobs
from burst.core.logs import LogLine, LogWriter
from tests.actions.double import obeyed
from tests.cli import world
from tests.cli.conftest import Burst

COMMANDS = (
    "::stop-commands::tok",
    "  ::add-mask::e",
    "::error file=a.py,line=1::no",
    "##[error]no",
    "loss 0.1 ##[add-mask]0",
)


def test_the_double_of_the_log_obeys_as_the_runner_does() -> None:
    assert [name for name, _ in obeyed("\n".join(COMMANDS[1:]))] == [
        "add-mask",
        "error",
        "error",
        "add-mask",
    ]
    log = "::stop-commands::tok\n::error::no\n##[error]no\n::tok::\r::error::yes"
    assert obeyed(log) == [("stop-commands", "tok"), ("tok", ""), ("error", "yes")]


@given(
    st.sampled_from(COMMANDS) | st.text(st.sampled_from("#[]: e\t")),
    st.integers(-2, 9),
)
def test_no_line_of_a_rank_is_a_command(text: str, rank: int) -> None:
    tail = Tail(open_blobs("file:///nowhere"), guarded=True)
    assert obeyed(tail.shown("exp-1.t0000", LogLine(1, rank, 0.0, text))) == []


@pytest.mark.parametrize("command", [("logs", world.DONE), ("logs", world.DONE, "-f")])
def test_in_a_job_of_github_each_line_begins_with_its_trial_and_elsewhere_as_it_was_written(
    filled: Burst, command: tuple[str, ...]
) -> None:
    trial = f"{world.DONE}.t0000"
    writer = LogWriter(filled.session.workspace.blobs, trial, 7, 0)
    writer.ship("".join(f"{line}\n" for line in COMMANDS).encode())
    plain = filled(*command, "--attempt", "7").stdout
    assert plain == "".join(f"{line}\n" for line in COMMANDS)
    filled.session.environ = {**filled.session.environ, "GITHUB_ACTIONS": "true"}
    assert is_read_by_github(filled.session.environ)
    told = filled(*command, "--attempt", "7").stdout.splitlines()
    assert [line.partition(" ")[0] for line in told] == ["(t0000)"] * len(COMMANDS)
    assert obeyed("\n".join(told)) == []
