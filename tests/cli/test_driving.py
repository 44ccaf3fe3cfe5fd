from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from burst.cli.driving import driving, is_driven, runner_log, start_runner
from burst.core.errors import Unreachable


def test_somebody_drives_exactly_while_inside(tmp_path: Path) -> None:
    assert not is_driven(tmp_path)
    with driving(tmp_path):
        assert is_driven(tmp_path)
        with driving(tmp_path):
            assert is_driven(tmp_path)
        assert is_driven(tmp_path)
    assert not is_driven(tmp_path)


def test_a_driver_that_is_killed_is_no_driver(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from burst.cli.driving import driving\n"
        "with driving(Path(sys.argv[1])):\n"
        "    print('inside', flush=True)\n"
        "    time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert is_driven(tmp_path)
        other.kill()
        other.wait()
        assert not is_driven(tmp_path)


def test_a_home_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable, match="cannot be written"):
        is_driven(tmp_path / "file" / "home")


def test_a_runner_drives_from_its_birth_and_leaves_when_idle(burst_home: Path) -> None:
    pid = start_runner(burst_home, os.environ, burst_home)
    assert is_driven(burst_home)
    ended, status = os.waitpid(pid, 0)
    assert (ended, status) == (pid, 0), runner_log(burst_home).read_text()
    assert not is_driven(burst_home)
    assert runner_log(burst_home).read_text() == ""
