"""What this machine is: its slots, its facts, and whether it is fit to train."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import uuid
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import psutil

from burst.core.blobs.port import Blobs
from burst.core.errors import BurstError
from burst.core.model import Json, Slot
from burst.runner.agent.hardware.gpus import Gpu, list_gpus

MIN_FREE_BYTES = 200 * 2**20
"""Below this a node takes no work: its checkpoints and logs would fail halfway."""
_PACKAGES = ("burst", "torch", "transformers", "datasets", "numpy")


def cpu_count() -> int:
    """The CPUs that this process may use, which in a container are fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_slots() -> int:
    """The slots of a machine whose pool does not say: its GPUs, or one a CPU."""
    try:
        return len(list_gpus()) or cpu_count()
    except OSError:
        return cpu_count()


def slots_for(gpus: Sequence[Gpu], expected: int) -> tuple[Slot, ...]:
    """The slots to offer: the first GPUs, or shares of the CPUs where there are too few."""
    if len(gpus) >= expected:
        return tuple(
            Slot(index=gpu.index, device="cuda", name=gpu.name, memory=gpu.memory)
            for gpu in gpus[:expected]
        )
    memory = psutil.virtual_memory().total // max(1, expected)
    name = platform.processor() or platform.machine()
    return tuple(
        Slot(index=index, device="cpu", name=name, memory=memory) for index in range(expected)
    )


def facts_of(gpus: Sequence[Gpu], home: Path) -> dict[str, Json]:
    """What the node's record tells of the machine. Sizes are bytes."""
    return {
        "cpus": cpu_count(),
        "memory": psutil.virtual_memory().total,
        "disk_free": free_bytes(home),
        "gpus": len(gpus),
        "driver": gpus[0].driver if gpus else "",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": _versions(),
        "home": str(home),
        "pid": os.getpid(),
        "problems": [],
    }


def host_name() -> str:
    return socket.gethostname()


def free_bytes(folder: Path) -> int:
    """Free bytes where `folder` is or would be; 0 if that cannot be told."""
    for place in (folder, *folder.parents):
        if place.exists():
            return shutil.disk_usage(place).free
    return 0


def check_machine(
    home: Path, blobs: Blobs, *, gpus_missing: str = "", min_free: int = MIN_FREE_BYTES
) -> list[str]:
    """What keeps this machine from training; empty if nothing does.

    Writes a file below `home` and a blob, reads both back, and removes them.
    """
    problems = [gpus_missing] if gpus_missing else []
    free = free_bytes(home)
    if free < min_free:
        problems.append(f"only {free >> 20} MiB are free in {home}; {min_free >> 20} are needed")
    problem = _write_home(home)
    if problem:
        problems.append(problem)
    try:
        _round_trip(blobs)
    except BurstError as error:
        problems.append(f"the blobs at {blobs.url} cannot be used: {error.what}")
    return problems


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _write_home(home: Path) -> str:
    probe = home / f".probe-{uuid.uuid4().hex}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"burst" * 1000)
        probe.unlink()
    except OSError as error:
        return f"{home} cannot be written: {error.strerror or error}"
    return ""


def _round_trip(blobs: Blobs) -> None:
    key, data = f"probes/{uuid.uuid4().hex}", b"burst"
    blobs.put(key, data)
    found = blobs.get(key)
    blobs.delete(key)
    if found != data:
        raise BurstError("a blob came back with other bytes than were written")
