"""Whether the kernel has killed something for lack of memory."""

from __future__ import annotations

from pathlib import Path

_VMSTAT = Path("/proc/vmstat")
_CGROUP = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")


class OomCounter:
    """The kernel's count of out-of-memory kills, from the moment it was made on."""

    def __init__(self) -> None:
        self._before = count_kills()

    def grew(self) -> bool:
        return count_kills() > self._before


def count_kills() -> int:
    """Kills on the machine and in this process's control group; 0 where nobody counts them."""
    return _field(_VMSTAT) + _field(_events_file())


def _events_file() -> Path:
    """Of the control group in the unified hierarchy (`0::/path`)."""
    try:
        lines = _CGROUP.read_text().splitlines()
    except OSError:
        lines = []
    group = next((line[3:] for line in lines if line.startswith("0::")), "/")
    return _CGROUPS / group.strip("/") / "memory.events"


def _field(path: Path) -> int:
    try:
        rows = (line.split() for line in path.read_text().splitlines())
        return next((int(row[1]) for row in rows if row and row[0] == "oom_kill"), 0)
    except (OSError, ValueError, IndexError):
        return 0
