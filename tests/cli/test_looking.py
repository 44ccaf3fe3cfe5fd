from __future__ import annotations

import json
import os
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from burst.cli import shapes
from burst.cli.driving import driving
from burst.core.blobs.folder import FolderBlobs
from burst.core.logs import LAUNCHER, LogWriter
from burst.core.model import Failure, Trial
from burst.core.states import TrialState
from burst.core.store import update
from tests.cli import world
from tests.cli.conftest import Burst


def check(value: Any, shape: Any) -> None:
    """Holds a JSON value to a TypedDict: the same names, and what the annotation allows."""
    hints = typing.get_type_hints(shape)
    assert set(value) == set(hints), shape.__name__
    for name, hint in hints.items():
        _check_value(value[name], hint, f"{shape.__name__}.{name}")


def _check_value(value: Any, hint: Any, where: str) -> None:
    choices = typing.get_args(hint) if isinstance(hint, type(int | str)) else (hint,)
    for choice in choices:
        kind = typing.get_origin(choice) or choice
        if typing.is_typeddict(kind):
            if isinstance(value, dict):
                check(value, kind)
                return
        elif kind is typing.Any or (kind is float and isinstance(value, int)):
            return
        elif isinstance(value, kind):
            if kind is list:
                for item in value:
                    _check_value(item, typing.get_args(choice)[0], where)
            return
    raise AssertionError(f"{where}: {value!r} is not {hint}")


def test_ls_lists_the_newest_first(filled: Burst) -> None:
    lines = filled("ls", COLUMNS="160").stdout.splitlines()
    assert lines[0].split() == [
        "EXPERIMENT", "NAME", "STATE", "TRIALS", "PROGRESS", "BEST", "OWNER", "CREATED", "TOOK",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:]] == [world.FAILED, world.DONE, world.RUNNING]
    assert "2 running, 1 waiting, 1 paused" in lines[3]


def test_ls_never_leaves_a_live_one_out(filled: Burst) -> None:
    assert [e["id"] for e in filled.json("ls", "-n", "1")] == [world.FAILED, world.RUNNING]
    assert len(filled.json("ls", "--all")) == 3
    assert len(filled.json("experiment", "list")) == 3


def test_ls_of_nothing_says_how_to_start_and_prints_no_data(burst: Burst) -> None:
    result = burst("ls")
    assert result.stdout == ""
    assert "burst init" in result.stderr
    assert burst.json("ls") == []


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        (("show", world.RUNNING), shapes.ExperimentWholeJson),
        (("show", world.FAILED), shapes.ExperimentWholeJson),
        (("show", f"{world.RUNNING}.t0"), shapes.TrialWholeJson),
        (("show", "ckpt-1m3k9zq4w0b"), shapes.CheckpointJson),
        (("show", world.NODE), shapes.NodeJson),
        (("experiment", "show", "latest"), shapes.ExperimentWholeJson),
        (("trial", "show", "latest"), shapes.TrialWholeJson),
        (("checkpoint", "show", world.DONE), shapes.CheckpointJson),
        (("node", "show", world.NODE), shapes.NodeJson),
    ],
)
def test_show_prints_the_documented_shape(
    filled: Burst, arguments: tuple[str, ...], shape: Any
) -> None:
    check(filled.json(*arguments), shape)


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        (("ls",), shapes.ExperimentJson),
        (("trial", "list", world.RUNNING), shapes.TrialJson),
        (("trial", "metrics", f"{world.RUNNING}.t0"), shapes.MetricRowJson),
        (("checkpoint", "list", world.RUNNING, "--all"), shapes.CheckpointJson),
        (("node", "list"), shapes.NodeJson),
        (("pool", "list"), shapes.PoolJson),
        (("why", world.RUNNING), shapes.WhyJson),
        (("doctor",), shapes.CheckJson),
    ],
)
def test_lists_print_arrays_of_the_documented_shape(
    filled: Burst, arguments: tuple[str, ...], shape: Any
) -> None:
    rows = filled.json(*arguments)
    assert rows
    for row in rows:
        check(row, shape)


def test_json_has_no_name_for_not_a_number_so_it_is_a_string(filled: Burst) -> None:
    trial = f"{world.RUNNING}.t0001"
    point = (
        world.training()
        .latest["validation"]
        .model_copy(update={"metrics": {"validation_loss": float("nan"), "x": float("-inf")}})
    )
    update(
        filled.store,
        Trial,
        trial,
        lambda found: found.model_copy(update={"latest": {"validation": point}}),
    )
    shown = filled.json("trial", "show", trial)
    assert shown["latest"]["validation"]["metrics"] == {"validation_loss": "NaN",
                                                        "x": "-Infinity"}  # fmt: skip


def test_show_of_a_failed_experiment_begins_with_the_users_traceback(filled: Burst) -> None:
    assert filled("show", world.FAILED).stdout.startswith(world.TRACEBACK)
    assert filled("show", f"{world.FAILED}.t0").stdout.startswith(world.TRACEBACK)


def test_show_without_an_id_is_the_newest(filled: Burst) -> None:
    assert filled("show").stdout == filled("show", world.FAILED).stdout


def test_show_of_a_trial_tells_its_attempts(filled: Burst) -> None:
    shown = filled("show", f"{world.RUNNING}.t0").stdout
    assert "drained" in shown
    assert "batch 280" in shown
    assert "12s ago  ckpt-1m3k9zq4w0b" in shown


def test_show_of_a_node_says_what_runs_on_it(filled: Burst) -> None:
    shown = filled("node", "show", world.NODE).stdout
    assert f"{world.RUNNING}.t0000  ● running" in shown
    assert "12 GB" in shown


def test_an_unknown_id_is_status_4_and_prints_no_data(filled: Burst) -> None:
    result = filled("show", "exp-1m3k9zq4w0x", status=4)
    assert result.stdout == ""
    assert world.FAILED in result.stderr


def test_metrics_as_a_table_and_as_csv(filled: Burst) -> None:
    table = filled("trial", "metrics", f"{world.RUNNING}.t0").stdout.splitlines()
    assert table[0].split() == ["GROUP", "BATCH", "TIME", "validation_loss"]
    assert table[1].split()[::3] == ["validation", "0.2857"]
    csv = filled("trial", "metrics", f"{world.RUNNING}.t0", "--csv").stdout.splitlines()
    assert csv[0] == "group,batches,at,validation_loss"
    assert csv[1] == f"validation,280,{world.NOW - 60 + 14},{80 / 280!r}"


def test_metrics_of_a_group_that_is_not_there_says_so(filled: Burst) -> None:
    result = filled("trial", "metrics", f"{world.RUNNING}.t0", "-g", "mine")
    assert result.stdout == ""
    assert "no metrics in group mine" in result.stderr


def write_logs(burst: Burst, trial: str) -> None:
    blobs = burst.session.workspace.blobs
    LogWriter(blobs, trial, 1, LAUNCHER, clock=burst.session.clock).ship(b"setting up\n")
    LogWriter(blobs, trial, 1, 0, clock=burst.session.clock).ship(b"one\ntwo\nthr")
    LogWriter(blobs, trial, 2, 0, clock=burst.session.clock).ship(b"four\n")


def test_logs_are_what_the_ranks_wrote_and_nothing_else(filled: Burst) -> None:
    write_logs(filled, f"{world.DONE}.t0000")
    assert filled("logs", world.DONE).stdout == "one\ntwo\nthr\nfour\n"
    assert filled("logs", world.DONE, "--attempt", "2").stdout == "four\n"
    assert filled("logs", world.DONE, "--tail", "2").stdout == "thr\nfour\n"
    assert filled("logs", world.DONE, "--head", "1").stdout == "one\n"
    assert "(launcher) setting up\n" in filled("logs", world.DONE, "--launcher").stdout


def test_logs_of_several_ranks_say_which(burst: Burst) -> None:
    gang = world.trial(slots=2)
    world.put(burst.store, world.experiment(), gang)
    blobs = burst.session.workspace.blobs
    for rank in (0, 1):
        LogWriter(blobs, gang.id, 1, rank, clock=burst.session.clock).ship(b"hello\n")
    shown = sorted(burst("logs", "latest").stdout.splitlines())
    assert shown == ["(rank 0) hello", "(rank 1) hello"]
    assert burst("logs", "latest", "--rank", "1").stdout == "(rank 1) hello\n"


def test_logs_of_several_trials_say_which(filled: Burst) -> None:
    blobs = filled.session.workspace.blobs
    for number in (0, 1):
        trial = f"{world.RUNNING}.t000{number}"
        LogWriter(blobs, trial, 1, 0, clock=filled.session.clock).ship(b"hello\n")
    assert "(t0001) hello" in filled("logs", world.RUNNING).stdout


def test_logs_as_json_are_one_object_a_line(filled: Burst) -> None:
    write_logs(filled, f"{world.DONE}.t0000")
    lines = filled("logs", world.DONE, "--launcher", "--json").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        check(row, shapes.LogLineJson)
    first = rows[0]
    assert (first["attempt"], first["rank"], first["line"]) == (1, None, "setting up")


def test_logs_of_a_failed_trial_begin_with_what_failed(filled: Burst) -> None:
    write_logs(filled, f"{world.FAILED}.t0000")
    result = filled("logs", world.FAILED)
    assert result.stdout.startswith("one\n")
    assert result.stderr.startswith(world.TRACEBACK)


def test_following_logs_ends_with_the_trial(filled: Burst) -> None:
    write_logs(filled, f"{world.DONE}.t0000")
    assert filled("logs", world.DONE, "-f").stdout == "one\ntwo\nthr\nfour\n"


def test_logs_that_are_not_there_yet_say_so(filled: Burst) -> None:
    result = filled("logs", f"{world.RUNNING}.t2")
    assert result.stdout == ""
    assert "has written nothing yet" in result.stderr


def test_logs_of_what_is_over_are_not_awaited(filled: Burst) -> None:
    result = filled("logs", f"{world.DONE}.t0000")
    assert result.stderr.strip() == f"{world.DONE}.t0000 wrote nothing."


def test_head_and_tail_do_not_go_together(filled: Burst) -> None:
    filled("logs", "--head", "1", "--tail", "1", status=2)


def test_why_says_the_reason_and_when_it_is_looked_at_again(filled: Burst) -> None:
    shown = filled("why", f"{world.RUNNING}.t2").stdout
    assert "local: 2 of 2 slots are held; 1 is needed" in shown
    assert "looked at again in 5.0s" in shown


def test_waiting_for_what_is_over_tells_its_result(filled: Burst) -> None:
    assert "✔ completed" in filled("wait", world.DONE, status=0).stdout
    failed = filled("wait", world.FAILED, "--quiet", status=1).stdout
    assert failed.startswith(world.TRACEBACK)
    result = json.loads(filled("wait", world.DONE, "--json").stdout)
    check(result, shapes.ResultJson)
    assert result["exit_code"] == 0
    assert result["checkpoint"]["id"] == "ckpt-1m3k9zq4wdc"
    filled("wait", f"{world.DONE}.t0", status=0)
    filled("wait", f"{world.FAILED}.t0", status=1)


def test_a_wait_has_to_be_a_time(filled: Burst) -> None:
    assert "not a duration" in filled("wait", world.DONE, "-t", "soon", status=2).stderr


def test_pinning_and_unpinning(filled: Burst) -> None:
    filled("checkpoint", "pin", "ckpt-1m3k9zq4w0b", "--reason", "the paper")
    assert filled.json("show", "ckpt-1m3k9zq4w0b")["pin_reason"] == "the paper"
    filled("checkpoint", "delete", "ckpt-1m3k9zq4w0b", "--yes", status=5)
    filled("checkpoint", "unpin", "ckpt-1m3k9zq4w0b")
    assert filled.json("show", "ckpt-1m3k9zq4w0b")["pinned"] is False


def test_deleting_asks_first(filled: Burst) -> None:
    result = filled("checkpoint", "delete", world.DONE, status=130)
    assert "Delete ckpt-1m3k9zq4wdc" in result.stderr
    assert filled.json("show", "ckpt-1m3k9zq4wdc")["deleted"] is None


def test_verifying_a_checkpoint_that_is_not_there_is_status_1(filled: Burst) -> None:
    result = filled("checkpoint", "verify", world.DONE, status=1)
    assert "manifest.json is missing" in result.stdout


def test_a_failure_without_a_traceback_still_says_what_it_was(filled: Burst) -> None:
    failure = Failure(kind="SIGKILL", message="killed", exit_code=-9)
    trial = world.trial(0, "exp-1m3k9zq4w09", state=TrialState.FAILED, failure=failure)
    world.put(filled.store, world.experiment("exp-1m3k9zq4w09"), trial)
    assert filled("show", trial.id).stdout.startswith("SIGKILL: killed\nin exp-1m3k9zq4w09.t0000")


def complete(burst: Burst, *words: str) -> list[str]:
    """What the shell offers for the last of `words`."""
    environ = {
        **os.environ,
        "BURST_HOME": burst.session.environ["BURST_HOME"],
        "_BURST_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("burst", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['burst']; from burst.cli.main import main; main()",
        ],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_the_shell_completes_ids_from_the_store(filled: Burst) -> None:
    assert complete(filled, "show", "exp-") == [world.FAILED, world.DONE, world.RUNNING]
    assert complete(filled, "pause", f"{world.RUNNING}.") == [
        f"{world.RUNNING}.t000{number}" for number in range(4)
    ]


def test_completion_is_silent_where_there_is_no_store(burst: Burst) -> None:
    Path(burst.session.environ["BURST_HOME"], "store.db").write_bytes(b"this is no store")
    assert complete(burst, "show", "exp-") == []


def test_the_doctor_warns_of_experiments_that_nobody_drives(filled: Burst) -> None:
    def of_the_runner() -> tuple[bool, bool, bool]:
        (row,) = [row for row in filled.json("doctor") if row["name"] == "runner"]
        return row["ok"], row["warning"], row["mend"] is not None

    assert of_the_runner() == (True, True, True)
    lines = filled("doctor").stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if "none runs on this machine" in line]
    assert lines[at].startswith("!")
    assert "burst runner --until-idle" in lines[at + 1]
    with driving(filled.session.home):
        assert of_the_runner() == (True, False, False)


def test_the_doctor_finds_blobs_in_which_two_writers_could_both_win(
    filled: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_the_blobs(status: int) -> tuple[bool, str]:
        rows = json.loads(filled("doctor", "--json", status=status).stdout)
        (row,) = [row for row in rows if row["name"] == "blobs"]
        return row["ok"], row["mend"] or ""

    assert of_the_blobs(0)[0]
    monkeypatch.setattr(FolderBlobs, "put_new", FolderBlobs.put)
    ok, mend = of_the_blobs(1)
    assert not ok
    assert "conditional writes" in mend
