"""Whether an instance is fit to train, beyond what every machine is asked: judged from facts.

`gather` looks, `problems_of` judges and is pure, so that what is said of a machine can be tried
without one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burst.core.aws.instance_types import known_type
from burst.core.model import Json
from burst.runner.agent.hardware.gpus import list_gpus
from burst.runner.node.timekeeping import MOST_SKEW_S, skew_in_words, skew_of

SYS_VARIABLE = "BURST_SYS"
"""Where the kernel tells of devices, if not in `/sys`."""
_NVIDIA, _DISPLAYS = "0x10de", "0x03"
_AMAZON, _EFA = "0x1d0f", "0xefa"
_FI_INFO = "/opt/amazon/efa/bin"
_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Found:
    """What was found on a machine."""

    gpus_on_bus: int = 0
    gpus: int = 0
    efa_on_bus: int = 0
    efa: int = 0
    """Devices that the driver shows."""
    fi_info: str | None = None
    """Why libfabric shows no EFA, empty where it does; None where there is no `fi_info`."""
    skew: float | None = None
    """Seconds that this machine's clock is ahead of AWS's; None where nobody told."""


def problems_of(found: Found, type: str, efa: bool) -> list[str]:
    """What keeps an instance of `type` from training, in words, each with what mends it.

    Args:
        efa: whether its pool wants Elastic Fabric Adapters where the type can have some.
    """
    problems = []
    if found.gpus < found.gpus_on_bus:
        problems.append(
            f"{found.gpus_on_bus} NVIDIA GPUs are on the bus and nvidia-smi shows {found.gpus}: "
            "the image's driver is missing or does not fit; use an image with the right one"
        )
    if found.skew is not None and abs(found.skew) > MOST_SKEW_S:
        problems.append(skew_in_words(found.skew))
    known = known_type(type)
    wanted = max(found.efa_on_bus, known.efa if known else 1)
    if efa and wanted:
        problems += _efa_problems(found, type, wanted)
    return problems


def _efa_problems(found: Found, type: str, wanted: int) -> list[str]:
    if found.efa < wanted:
        if found.efa_on_bus < wanted:
            mend = "the pool's launch template gives it too few network interfaces of type efa"
        else:
            mend = "the image's EFA driver is missing; use an image with the EFA software"
        return [f"{found.efa} EFA devices are here and {type} has {wanted}: {mend}"]
    if found.fi_info is None:
        return ["there is no fi_info: the image lacks libfabric; use one with the EFA software"]
    if found.fi_info:
        return [f"libfabric shows no EFA (`fi_info -p efa`: {found.fi_info})"]
    return []


def facts_of(found: Found) -> dict[str, Json]:
    """What the node's record tells of it."""
    skew = None if found.skew is None else round(found.skew, 1)
    provider = "efa" if found.efa and found.fi_info == "" else ""
    return {"efa": found.efa, "fabric": provider, "clock_skew": skew}


# --- looking ------------------------------------------------------------------------------------


def gather(asked: str = "", environ: Mapping[str, str] | None = None) -> Found:
    """Look at this machine.

    Args:
        asked: URL of an AWS service whose answers tell its time; empty asks nobody.
    """
    environ = os.environ if environ is None else environ
    sys = Path(environ.get(SYS_VARIABLE) or "/sys")
    devices = list(_pci(sys))
    efa = _efa_devices(sys)
    return Found(
        gpus_on_bus=sum(
            vendor == _NVIDIA and kind.startswith(_DISPLAYS) for vendor, _, kind in devices
        ),
        gpus=_gpus(),
        efa_on_bus=sum(
            vendor == _AMAZON and device.startswith(_EFA) for vendor, device, _ in devices
        ),
        efa=efa,
        fi_info=_fi_info(environ) if efa else None,
        skew=skew_of(asked) if asked else None,
    )


def _gpus() -> int:
    try:
        return len(list_gpus({}))
    except OSError:
        return 0


def _pci(sys: Path) -> list[tuple[str, str, str]]:
    """Vendor, device and class of everything on the bus."""
    folders = sorted(sys.glob("bus/pci/devices/*"))
    return [
        (_word(folder / "vendor"), _word(folder / "device"), _word(folder / "class"))
        for folder in folders
    ]


def _efa_devices(sys: Path) -> int:
    """Those of Amazon's among the fabric devices; another maker's (InfiniBand) are not EFA."""
    folders = sorted(sys.glob("class/infiniband/*"))
    return sum(_word(folder / "device" / "vendor") == _AMAZON for folder in folders)


def _word(path: Path) -> str:
    try:
        return path.read_text().strip().lower()
    except OSError:
        return ""


def _fi_info(environ: Mapping[str, str]) -> str | None:
    program = shutil.which("fi_info", path=f"{environ.get('PATH', '')}:{_FI_INFO}")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-p", "efa"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0 and "provider: efa" in done.stdout:
        return ""
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"status {done.returncode}"
