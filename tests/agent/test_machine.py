"""What an agent finds out about its machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.folder import FolderBlobs
from burst.core.errors import Unreachable
from burst.runner.agent.hardware import machine, memory
from burst.runner.agent.hardware.gpus import Gpu, list_gpus, parse, query, visible
from burst.runner.agent.hardware.machine import check_machine, facts_of, slots_for

GPUS = tuple(Gpu(i, f"GPU-{i}abc", "H200", 141 << 30, "550.1") for i in range(4))


def _fake_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_slots_are_the_first_gpus() -> None:
    slots = slots_for(GPUS, 2)
    assert [(slot.index, slot.device, slot.memory) for slot in slots] == [
        (0, "cuda", 141 << 30),
        (1, "cuda", 141 << 30),
    ]


def test_slots_are_shares_of_the_cpus_where_there_are_fewer_gpus() -> None:
    assert [slot.device for slot in slots_for(GPUS, 5)] == ["cpu"] * 5
    assert [slot.index for slot in slots_for((), 2)] == [0, 1]


@pytest.mark.parametrize(
    ("names", "shown"),
    [(None, [0, 1, 2, 3]), ("2,0", [0, 2]), ("", []), ("1,9,2", [1]), ("GPU-3", [3]), ("-1", [])],
)
def test_an_agent_offers_only_the_gpus_that_it_may_use(
    names: str | None, shown: list[int]
) -> None:
    assert [gpu.index for gpu in visible(GPUS, names)] == shown


def test_gpus_are_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "0, GPU-1, NVIDIA H200, 143771, 570.86.15"
    _fake_smi(tmp_path, f"echo '{row}'", monkeypatch)
    assert list_gpus({}) == (Gpu(0, "GPU-1", "NVIDIA H200", 143771 << 20, "570.86.15"),)


def test_a_machine_without_nvidia_smi_has_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert query(("index",)) == []


def test_no_devices_is_not_a_broken_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_smi(tmp_path, "echo No devices were found; exit 6", monkeypatch)
    assert query(("index",)) == []


def test_a_broken_driver_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_smi(tmp_path, "echo driver mismatch >&2; exit 9", monkeypatch)
    with pytest.raises(OSError, match="driver mismatch"):
        query(("index",))


def test_names_with_commas_are_read_whole() -> None:
    assert parse('0, "Tesla, big", 1\n\n') == [["0", "Tesla, big", "1"]]


def test_facts_tell_the_versions_without_importing_them(tmp_path: Path) -> None:
    facts = facts_of(GPUS, tmp_path)
    assert facts["gpus"] == 4
    assert facts["driver"] == "550.1"
    assert "torch" in facts["versions"]
    assert "burst" in facts["versions"]


def test_the_agent_never_imports_torch() -> None:
    base = Path(machine.__file__).parents[1]
    paths = [path.relative_to(base).with_suffix("") for path in base.rglob("[a-z]*.py")]
    modules = [".".join(path.parts) for path in paths]
    assert "serving.agent" in modules
    program = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module('burst.runner.agent.' + name)\n"
        "print(sorted({'torch', 'boto3', 'numpy', 's3fs'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_fit_machine_has_no_problems_and_nothing_is_left_of_the_check(tmp_path: Path) -> None:
    home = tmp_path / "home"
    blobs = FolderBlobs(tmp_path / "blobs")
    assert check_machine(home, blobs) == []
    assert list(home.iterdir()) == []
    assert list(blobs.list("probes/")) == []


def test_too_little_disk_is_a_problem(tmp_path: Path) -> None:
    (problem,) = check_machine(tmp_path, FolderBlobs(tmp_path / "b"), min_free=1 << 60)
    assert "are free" in problem


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_home_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    (problem,) = check_machine(home, FolderBlobs(tmp_path / "b"))
    assert "cannot be written" in problem


def test_a_home_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("")
    (problem,) = check_machine(home, FolderBlobs(tmp_path / "b"))
    assert "cannot be written" in problem


def test_blobs_that_do_not_answer_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = open_blobs(f"file://{tmp_path}/b")

    def refuse(key: str, data: object) -> None:
        raise Unreachable("nobody there")

    monkeypatch.setattr(blobs, "put", refuse)
    (problem,) = check_machine(tmp_path, blobs)
    assert "nobody there" in problem


def test_the_kernels_count_of_memory_kills_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 1\noom_kill 2\n")
    monkeypatch.setattr(memory, "_VMSTAT", vmstat)
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "none")
    counter = memory.OomCounter()
    assert not counter.grew()
    vmstat.write_text("oom_kill 3\n")
    assert counter.grew()
    vmstat.unlink()
    assert memory.count_kills() == 0
