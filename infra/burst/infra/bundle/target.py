"""The machine that a bundle is for."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from burst.core.errors import UsageError

What = Literal["runner", "node"]

_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_MANYLINUX = re.compile(r"manylinux_2_([0-9]+)_(\w+)")
_OLD_NAMES = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
_AMAZON_LINUX_2 = ("3.8", "3.9", "3.10", "3.11")
"""Pythons whose functions run there, with glibc 2.26; later ones run on Amazon Linux 2023."""
_PYTHON = re.compile(r"3\.[0-9]+")


@dataclass(frozen=True)
class Target:
    """Linux with glibc, as AWS's functions and images are."""

    python: str
    """`3.12`."""
    processor: str
    """As Linux and Python call it: `x86_64`, `aarch64`."""
    glibc: int
    """Compiled code may need at the most version 2.`glibc`; as the tags of wheels have it, of
    which there are 17 and 28 for all that matter."""

    def runs(self, tags: Sequence[str]) -> bool:
        """Whether a wheel with one of these tags of platforms (`any`, `manylinux_2_17_x86_64`)
        works there."""
        return any(self._runs(tag) for tag in tags)

    def _runs(self, tag: str) -> bool:
        if tag == "any":
            return True
        for old, glibc in _OLD_NAMES.items():
            if tag == f"{old}_{self.processor}":
                return glibc <= self.glibc
        found = _MANYLINUX.fullmatch(tag)
        if found is None:
            return False
        return found[2] == self.processor and int(found[1]) <= self.glibc

    def is_here(self) -> bool:
        """Whether what is installed for this process is for such a machine."""
        return (
            sys.platform == "linux"
            and platform.libc_ver()[0] == "glibc"
            and platform.python_implementation() == "CPython"
            and self.python == f"{sys.version_info.major}.{sys.version_info.minor}"
            and _PROCESSORS.get(platform.machine().lower()) == self.processor
        )

    def markers(self) -> dict[str, str]:
        """What requirements may depend on (PEP 508)."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.processor,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


def target_of(what: What, python: str, machine: str) -> Target:
    """Where a bundle will run.

    Raises:
        UsageError: there is no such Python, or no such machine.
    """
    if not _PYTHON.fullmatch(python):
        raise UsageError(f"{python!r} names no version of Python", mend="say it like 3.12")
    processor = _PROCESSORS.get(machine.lower())
    if processor is None:
        raise UsageError(f"there is no kind of machine {machine!r}", mend="say x86_64 or arm64")
    oldest = what == "runner" and python in _AMAZON_LINUX_2
    return Target(python, processor, 17 if oldest else 28)
