"""A machine whose programs are only those that a test puts there, and what boots on it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from burst.core.aws import booting

BOOT = Path(booting.__file__).parent / "boot"
LOCAL = "Amazon EC2 NVMe Instance Storage"
EBS = "Amazon Elastic Block Store"
_OF_EVERY_LINUX = (
    *("sh", "env", "sleep", "timeout"),
    *("cat", "chmod", "cp", "mkdir", "mv", "rm"),
    *("grep", "head", "sed", "sort", "tail", "tr", "wc"),
)


class Fakes:
    """What a machine has: its programs, and its disks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in _OF_EVERY_LINUX:
            found = shutil.which(name)
            assert found, name
            (self.bin / name).symlink_to(found)
        self.environ = {"PATH": str(self.bin), "HOME": str(folder)}

    def program(self, name: str, text: str) -> None:
        """Give it a program, as a script."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(
        self, script: str | Path, *words: str, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script of the folder `boot`, or another, to its end."""
        said, errors = self.folder / "stdout", self.folder / "stderr"
        # To files, because what it leaves running would keep a pipe open.
        with said.open("w") as stdout, errors.open("w") as stderr:
            done = subprocess.run(
                ["sh", str(BOOT / script), *words],
                env={**self.environ, **environ},
                cwd=self.folder,
                stdout=stdout,
                stderr=stderr,
                text=True,
                timeout=60,
                check=False,
            )
        done.stdout, done.stderr = said.read_text(), errors.read_text()
        return done


class Disks(Fakes):
    """One with disks, and the programs that make file systems of them."""

    def __init__(self, folder: Path, *models: str, lacks: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._state = folder / "disks.json"
        blank = {"holds": "", "label": "", "mount": "", "above": []}
        disks = {f"/dev/nvme{n}n1": {"model": model, **blank} for n, model in enumerate(models)}
        self.keep({"disks": disks, "array": None, "full": False, "asked": []})
        self.environ |= {"BURST_DISKS": str(folder / "mnt"), "BURST_DEV": str(folder / "dev")}
        fake = Path(__file__).with_name("fake_disks.py")
        for name in ("lsblk", "blkid", "mdadm", "mkfs.xfs", "mkfs.ext4", "mount"):
            if name not in lacks:
                words = f"{sys.executable} -I -S {fake} {name} {self._state}"
                self.program(name, f'exec {words} "$@"')

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._state.read_text())
        return found

    def keep(self, state: dict[str, Any]) -> None:
        self._state.write_text(json.dumps(state))

    def change(self, disk: int, **to: object) -> None:
        state = self.state
        state["disks"][f"/dev/nvme{disk}n1"] |= to
        self.keep(state)

    def reboot(self) -> None:
        """Nothing is mounted then, and no array runs."""
        state = self.state
        for each in [*state["disks"].values(), state["array"] or {}]:
            each["mount"] = ""
        if state["array"]:
            state["array"]["runs"] = False
            Path(state["array"]["name"]).unlink()
        self.keep(state | {"asked": []})

    def changed(self) -> list[list[str]]:
        """What was run that changes a disk, in order."""
        harmless = ("lsblk", "blkid")
        asked: list[list[str]] = self.state["asked"]
        return [words for words in asked if words[0] not in harmless and "--assemble" not in words]
