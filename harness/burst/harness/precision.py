"""Whether a device computes in bfloat16, which GPUs before Ampere emulate, many times slower."""

from __future__ import annotations

from dataclasses import dataclass

from burst.harness.errors import TrialError

_FIRST = (8, 0)
"""The compute capability of Ampere."""


@dataclass(frozen=True)
class Hardware:
    """What is to be known of a device."""

    kind: str
    """As torch names it: cpu, cuda, mps, …"""
    name: str = ""
    """For people, such as Tesla T4."""
    capability: tuple[int, int] | None = None
    """CUDA's; None for what has none, such as a GPU of AMD."""


def hardware_of(device: str) -> Hardware:
    """The properties of a device that torch has, by its name: `cpu`, `cuda`, `cuda:1`."""
    import torch

    kind = torch.device(device).type
    if kind != "cuda" or not torch.cuda.is_available():
        return Hardware(kind)
    amd = torch.version.hip is not None
    capability = None if amd else torch.cuda.get_device_capability(device)
    return Hardware(kind, torch.cuda.get_device_name(device), capability)


def computes_in_bfloat16(hardware: Hardware) -> bool:
    """Whether bfloat16 is there for use. CPUs are given the benefit of the doubt: those without it
    compute right, and nobody takes them for speed."""
    return hardware.capability is None or hardware.capability >= _FIRST


def check_bfloat16(hardware: Hardware, asked_by: str, instead: str) -> None:
    """See that bfloat16 can be had, before a model is loaded. Idempotent.

    Args:
        asked_by: the setting that asks for it, as people write it.
        instead: the one that asks for float16.

    Raises:
        TrialError: the device has none; with what to change.
    """
    if computes_in_bfloat16(hardware):
        return
    had = ".".join(map(str, hardware.capability or ()))
    raise TrialError(
        f"`{asked_by}` asks for bfloat16, and {hardware.name or 'this GPU'} has none",
        why=f"its compute capability is {had}, and bfloat16 needs 8.0 (Ampere) or newer",
        mend=f"write `{instead}`, or choose a pool of newer GPUs (A10G, L4, A100, H100, …)",
    )
