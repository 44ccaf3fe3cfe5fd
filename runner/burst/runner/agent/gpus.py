"""The accelerators of this machine, as `nvidia-smi` tells them; without it there are none."""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Gpu:
    index: int
    name: str
    memory: int
    """Bytes."""
    driver: str


def list_gpus() -> tuple[Gpu, ...]:
    """The GPUs of this machine.

    Raises:
        OSError: `nvidia-smi` is there and does not answer, which means a broken driver.
    """
    rows = query(("index", "name", "memory.total", "driver_version"))
    return tuple(
        Gpu(int(index), name, int(float(mebibytes) * 2**20), driver)
        for index, name, mebibytes, driver in rows
    )


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
    return [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]
