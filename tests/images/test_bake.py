"""An image for nodes is made of a machine that never was one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from burst.core.aws import booting

BAKE = Path(__file__).parents[2] / "images" / "node" / "bake.sh"
BUNDLE = "s3://burst-lab/cluster/node-77.zip"


def bake(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run bake.sh on a machine that has docker and cloud-init; what they are asked is noted."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    for name in ("docker", "cloud-init"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >> "{folder}/asked"\n')
        (programs / name).chmod(0o755)
    return subprocess.run(
        ["sh", str(BAKE), *words],
        env={
            "PATH": f"{programs}:{os.defpath}",
            "BURST_BOOT": str(Path(booting.__file__).parent / "boot"),
            "BURST_PYTHON": str(programs / "python"),
            "BURST_ETC": str(folder / "etc"),
            "BURST_OPT": str(folder / "opt"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_has_burst_and_the_images_of_trials_and_will_run_user_data(tmp_path: Path) -> None:
    (tmp_path / "opt" / "77").mkdir(parents=True)
    done = bake(tmp_path, "--bundle", BUNDLE, "one:1", "two:2")
    assert done.returncode == 0, done.stderr
    assert "has burst 77 already" in done.stderr
    assert (tmp_path / "asked").read_text().splitlines() == [
        "docker pull --quiet one:1",
        "docker pull --quiet two:2",
        "cloud-init clean --logs",
    ]


def test_a_machine_that_is_a_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "node.env").touch()
    done = bake(tmp_path, "one:1")
    assert done.returncode == 1
    assert "take another" in done.stderr
    assert not (tmp_path / "asked").exists()
