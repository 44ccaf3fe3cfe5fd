"""Scripts that do something odd: each has an end that is right for it, and a log that is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.model import ExitKind
from burst.harness.transformers.script.loops import TEXT
from tests.harness.transformers.odd import Command, run

ATTACHED = "import sys; print('attached', 'burst.harness.transformers.hook' in sys.modules)\n"


def test_one_that_fails_on_import_shows_its_own_traceback(tmp_path: Path) -> None:
    ended = run(tmp_path, "import a_package_that_is_not_there\n")
    assert ended.exit.kind is ExitKind.CRASHED
    assert ended.exit.failure is not None
    assert ended.exit.failure.kind == "ModuleNotFoundError"
    assert "a_package_that_is_not_there" in ended.exit.failure.message
    assert "train.py" in ended.exit.failure.traceback


@pytest.mark.parametrize(
    ("call", "kind", "failure"),
    [
        ("sys.exit(0)", ExitKind.COMPLETED, None),
        ("sys.exit(3)", ExitKind.CRASHED, "exit 3"),
        ("sys.exit('there is no data')", ExitKind.CRASHED, "exit 1"),
    ],
)
def test_one_without_a_training_ends_as_its_status_says(
    tmp_path: Path, call: str, kind: ExitKind, failure: str | None
) -> None:
    ended = run(tmp_path, f"import sys\nprint('begins')\n{call}\n")
    assert ended.exit.kind is kind
    assert (ended.exit.failure and ended.exit.failure.kind) == failure
    if "data" in call:
        assert ended.exit.failure is not None
        assert "there is no data" in ended.exit.failure.traceback


def test_the_log_holds_all_that_is_written_however_it_is_written(tmp_path: Path) -> None:
    script = """
    import os, subprocess, sys, threading, time
    for number in range(100_000):
        print("line", number)
    os.write(2, b"raw bytes \\xff\\n")
    subprocess.run(["echo", "by a child"])
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    if os.fork() == 0:
        print("by a fork")
        sys.exit(0)
    os.wait()
    os.chdir("/")
    print("from elsewhere")
    sys.stdout.write("no newline at the end")
    """
    site = Command(tmp_path, ["python", "train.py"], {"train.py": script})
    spec, process = site.start()
    assert process.wait(timeout=120) == 0
    lines = (spec.path / "logs" / "rank0.log").read_bytes().split(b"\n")
    assert lines[:100_000] == [b"line %d" % number for number in range(100_000)]
    assert b"|".join(lines[100_000:]) == (
        b"raw bytes \xff|by a child|by a fork|from elsewhere|no newline at the end"
    )


@pytest.mark.parametrize(
    ("entrypoint", "files"),
    [
        (["python", "src/train.py"], {"src/train.py": ATTACHED}),
        (["python", "-m", "package.train"], {"package/train.py": ATTACHED}),
        (["bash", "run.sh"], {"run.sh": "cd src && python train.py", "src/train.py": ATTACHED}),
        ("X=1 python train.py; true", {"train.py": ATTACHED}),
        (
            ["python", "train.py"],
            {"train.py": f"import subprocess\nsubprocess.run(['python', '-c', {ATTACHED!r}])"},
        ),
    ],
)
def test_burst_is_there_however_a_command_starts_python(
    tmp_path: Path, entrypoint: str | list[str], files: dict[str, str]
) -> None:
    ended = Command(tmp_path, entrypoint, files).judged()
    assert ended.log == "attached True\n"
    assert ended.exit.kind is ExitKind.COMPLETED


def test_burst_is_not_there_where_the_experiment_switches_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURST_TRANSFORMERS", "off")
    assert run(tmp_path, ATTACHED).log == "attached False\n"


def test_a_plain_script_loads_neither_transformers_nor_torch(tmp_path: Path) -> None:
    heavy = "{'torch', 'transformers', 'numpy', 'pydantic'}"
    assert run(tmp_path, f"import sys; print({heavy} & set(sys.modules))").log == "set()\n"


def test_a_loop_of_accelerates_own_runs_as_it_is_and_is_told_that_nothing_is_kept(
    tmp_path: Path,
) -> None:
    script = """
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(torch.nn.Linear(1, 1))
    accelerator.backward(model(torch.ones(1, 1)).sum())
    Accelerator(cpu=True)
    print("trained", type(model).__name__, accelerator.distributed_type)
    """
    ended = run(tmp_path, script)
    assert ended.exit.kind is ExitKind.COMPLETED
    assert ended.log.count(TEXT) == 1
    assert ended.log.endswith("trained Linear DistributedType.NO\n")


def test_torchrun_in_front_gives_way_to_the_gang_of_the_trial(tmp_path: Path) -> None:
    script = (
        "import os, sys; print('rank', os.environ['RANK'], os.environ['WORLD_SIZE'], sys.argv)"
    )
    words = ["torchrun", "--nproc_per_node=2", "--nnodes=3", "train.py", "--lr", "${hp.lr}"]
    ended = Command(tmp_path, words, {"train.py": script}).judged(ranks=2)
    assert ended.exit.kind is ExitKind.COMPLETED
    said, first = ended.log.splitlines()
    assert said.startswith("burst: it starts the trial's 2 processes itself, so torchrun is")
    assert said.endswith("nothing comes of --nnodes")
    assert first == "rank 0 2 ['train.py', '--lr', '0.5']"
    assert ended.logs[1] == "rank 1 2 ['train.py', '--lr', '0.5']\n"


@pytest.mark.slow
def test_a_launcher_inside_a_shell_script_is_refused_where_burst_has_a_gang(
    tmp_path: Path,
) -> None:
    files = {
        "run.sh": "torchrun --standalone --nproc_per_node=2 train.py",
        "train.py": "import transformers.trainer\nprint('trains')",
    }
    ended = Command(tmp_path, ["bash", "run.sh"], files).judged(ranks=2)
    assert ended.exit.kind is ExitKind.CRASHED
    assert ended.exit.failure is not None
    assert ended.exit.failure.kind == "TrialError"
    assert "once in each of the trial's 2 processes" in ended.exit.failure.message
    assert "trains" not in ended.log
