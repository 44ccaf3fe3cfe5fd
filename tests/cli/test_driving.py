from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from burst.cli.driving import driving, is_driven
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
