"""Launchers of processes in front of a trial's command."""

from __future__ import annotations

import sys

import pytest

from burst.core.errors import UsageError
from burst.harness.interpolate import command_of
from burst.harness.launchers import without_launcher

PLAIN = [sys.executable, "train.py", "--lr", "1"]


@pytest.mark.parametrize(
    "front",
    [
        ["torchrun", "--nproc_per_node=2"],
        ["/opt/venv/bin/torchrun", "--standalone", "--nproc-per-node", "gpu"],
        ["python", "-m", "torch.distributed.run", "--nproc_per_node", "2"],
        ["python3", "-u", "-m", "torch.distributed.run", "--nproc_per_node", "2"],
        ["python", "-m", "torch.distributed.launch", "--nproc_per_node", "2"],
        ["accelerate", "launch", "--num_processes", "2"],
        ["accelerate-launch", "--num_processes", "2"],
        ["python", "-m", "accelerate.commands.launch", "--num_processes", "2"],
    ],
)
def test_a_launcher_is_taken_off_and_the_scripts_own_words_stay(front: list[str]) -> None:
    direct = without_launcher([*front, "train.py", "--lr", "1"], 2)
    assert direct is not None
    assert direct.words == PLAIN
    assert "the trial's 2 processes itself" in direct.said
    assert "nothing comes of" not in direct.said
    assert "asks for" not in direct.said


def test_modules_and_programs_are_started_as_the_launcher_would() -> None:
    module = without_launcher(["torchrun", "-m", "package.train", "-m"], 2)
    program = without_launcher(["torchrun", "--no-python", "./train", "--no-python"], 2)
    assert module is not None
    assert program is not None
    assert module.words == [sys.executable, "-m", "package.train", "-m"]
    assert program.words == ["./train", "--no-python"]


@pytest.mark.parametrize(
    "words",
    [
        ["python", "train.py", "torchrun"],
        ["bash", "run.sh"],
        ["python", "-m", "package.train"],
        ["accelerate", "config"],
        ["/bin/sh", "-c", "exec torchrun --nproc_per_node=$N train.py"],
        ["/bin/sh", "-c", "cd src && torchrun train.py"],
    ],
)
def test_another_command_is_left_as_it_is(words: list[str]) -> None:
    assert without_launcher(words, 2) is None


def test_a_trial_of_one_process_may_have_a_gang_of_its_own() -> None:
    assert without_launcher(["torchrun", "--nproc_per_node=2", "train.py"], 1) is None
    assert without_launcher(["deepspeed", "train.py"], 1) is None


def test_a_line_is_looked_into_with_its_hyperparameters() -> None:
    words = command_of("torchrun --nproc_per_node 2 train.py --name ${hp.name}", {"name": "a $b"})
    direct = without_launcher(words, 2)
    assert direct is not None
    assert direct.words == [sys.executable, "train.py", "--name", "a $b"]


def test_options_that_burst_decides_are_named_as_without_effect() -> None:
    torchrun = ["torchrun", "--nnodes=2", "--rdzv-endpoint=host:1", "--nproc_per_node=4", "a.py"]
    accelerate = ["accelerate", "launch", "--num_machines=2", "--machine_rank=1", "a.py"]
    one, other = without_launcher(torchrun, 2), without_launcher(accelerate, 2)
    assert one is not None
    assert other is not None
    assert one.said.endswith("it asks for 4; nothing comes of --nnodes, --rdzv_endpoint")
    assert other.said.endswith("nothing comes of --num_machines, --machine_rank")


def test_what_accelerate_would_have_told_the_script_of_training_is_told() -> None:
    words = ["accelerate", "launch", "--use_fsdp", "--fsdp_version=2", "--mixed_precision=fp16"]
    direct = without_launcher([*words, "--num_processes=2", "a.py"], 2)
    assert direct is not None
    told = direct.environment
    assert (told["ACCELERATE_MIXED_PRECISION"], told["FSDP_VERSION"]) == ("fp16", "2")
    assert told["ACCELERATE_USE_FSDP"] == "true"
    assert {"RANK", "WORLD_SIZE", "MASTER_ADDR", "OMP_NUM_THREADS"}.isdisjoint(told)


@pytest.mark.parametrize(
    "front", [["deepspeed"], ["accelerate", "launch", "--use_deepspeed", "--num_processes=2"]]
)
def test_a_launcher_that_burst_cannot_stand_in_for_is_refused(front: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        without_launcher([*front, "train.py"], 2)
    assert "entrypoint: [python, train.py" in str(caught.value)
