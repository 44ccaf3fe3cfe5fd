"""The accelerators of this machine, as `nvidia-smi` tells them; without it there are none."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TIMEOUT_S = 20.0
_FIELDS = ("index", "uuid", "name", "memory.total", "driver_version")


@dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str
    name: str
    memory: int
    """Bytes."""
    driver: str


def list_gpus(environ: Mapping[str, str] | None = None) -> tuple[Gpu, ...]:
    """The GPUs of this machine that the agent may use, which CUDA_VISIBLE_DEVICES can restrict.

    Raises:
        OSError: `nvidia-smi` is there and does not answer, which means a broken driver.
    """
    found = tuple(
        Gpu(int(index), uuid, name, int(float(mebibytes) * 2**20), driver)
        for index, uuid, name, mebibytes, driver in query(_FIELDS)
    )
    return visible(found, (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES"))


def visible(gpus: Sequence[Gpu], names: str | None) -> tuple[Gpu, ...]:
    """Those that CUDA would show: all without the variable, else up to the first unknown name."""
    if names is None:
        return tuple(gpus)
    shown: list[Gpu] = []
    for name in (part.strip() for part in names.split(",")):
        found = [
            gpu for gpu in gpus if str(gpu.index) == name or (name and gpu.uuid.startswith(name))
        ]
        if len(found) != 1:
            break
        shown += found
    return tuple(sorted(shown, key=lambda gpu: gpu.index))


def query(fields: Sequence[str]) -> list[list[str]]:
    """One row a GPU; empty without `nvidia-smi`.

    Raises:
        OSError: it failed or took too long.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"nvidia-smi did not answer within {_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        if "No devices were found" in done.stdout + done.stderr:
            return []
        raise OSError((done.stderr or done.stdout).strip() or "nvidia-smi failed")
    return parse(done.stdout)


def parse(text: str) -> list[list[str]]:
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in rows if row]
