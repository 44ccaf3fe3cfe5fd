"""The folder that is a machine's disk, and the program that is the machine."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burst.runner.rehearsal.ec2 import fabric, shutdown
from burst.runner.rehearsal.ec2.marks import MARK

FOLDERS = {"BURST_ETC": "etc/burst", "BURST_RUN": "run/burst"}
"""Variables that name the folders which stand for /etc/burst and /run/burst."""
_KEPT = ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_LONGEST = 107 - len("/pymp-12345678/listener-12345678")
"""Bytes of a folder in which Python makes sockets, whose paths have 107 at the most."""
_CONSOLE_TAIL = 64 * 1024  # what GetConsoleOutput gives
_INIT = """\
{boot}
while :; do sleep 3600; done
"""


@dataclass(frozen=True)
class Disk:
    """Made at launch and kept after the end, so that it can be looked at."""

    root: Path
    efa: int = 0
    """Elastic Fabric Adapters that the machine was launched with."""

    @property
    def console(self) -> Path:
        return self.root / "console.log"

    @property
    def sys(self) -> Path:
        """What stands for /sys: the devices of the machine are there, and not the real one's."""
        return self.root / "sys"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def temporary(self) -> Path:
        """Its TMPDIR, by a name that is short enough for the sockets in it: Python's processes
        hand each other files through such, and wait for ever where one cannot be made."""
        folder = self.root / "tmp"
        if len(os.fsencode(folder)) <= _LONGEST:
            return folder
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"burst-{digest}"

    def make(self, user_data: bytes, shutdown_url: str) -> Sequence[str]:
        """Write what the machine boots from; the command that is the machine.

        As cloud-init does, a script is run by the program that its first line names, and anything
        else is not run. The machine stays up when its script has ended.
        """
        for folder in ("bin", "home", "tmp", *FOLDERS.values()):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        if self.temporary != self.root / "tmp":
            self.forget()
            self.temporary.symlink_to(self.root / "tmp")
        program = f"{sys.executable} -I -S {shlex.quote(shutdown.__file__)} {shutdown_url}"
        for name in ("shutdown", "poweroff", "halt"):
            _write_program(self.bin / name, f'#!/bin/sh\nexec {program} "$@"\n'.encode())
        fabric.lay_out(self.sys, self.efa)
        if self.efa:
            _write_program(self.bin / "fi_info", fabric.FI_INFO)
        script = self.root / "user-data"
        if user_data.startswith(b"#!"):
            _write_program(script, user_data)
            boot = f'{shlex.quote(str(script))}; echo "user data ended with status $?"'
        else:
            boot = 'echo "no script in the user data"'
        return "/bin/sh", "-c", _INIT.format(boot=boot)

    def forget(self) -> None:
        """Leave nothing outside of its folder. Idempotent."""
        if self.temporary.is_symlink():
            self.temporary.unlink(missing_ok=True)

    def environ(self, outside: Mapping[str, str], cloud: Mapping[str, str]) -> dict[str, str]:
        """What its programs see: of `outside` what finds the same Python, and `cloud`."""
        kept = {name: outside[name] for name in _KEPT if name in outside}
        paths = (str(self.bin), str(Path(sys.executable).parent), kept.get("PATH", os.defpath))
        return {
            **kept,
            **cloud,
            "PATH": os.pathsep.join(paths),
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.temporary),
            **{name: str(self.root / folder) for name, folder in FOLDERS.items()},
            "BURST_SYS": str(self.sys),
            "CUDA_VISIBLE_DEVICES": "",  # several machines cannot each have the real one's
            MARK: str(self.root),
        }

    def console_tail(self) -> bytes:
        """The end of what the machine wrote; empty before it has booted."""
        try:
            with self.console.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _CONSOLE_TAIL))
                return file.read()
        except FileNotFoundError:
            return b""


def _write_program(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
