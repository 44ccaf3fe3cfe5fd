"""The Elastic Fabric Adapters that a machine seems to have: what the kernel and libfabric tell.

They carry nothing. What runs on a rehearsed machine talks over this machine's loopback.
"""

from __future__ import annotations

from pathlib import Path

FI_INFO = b"#!/bin/sh\necho 'provider: efa'\n"
"""A stand-in for libfabric's program of that name."""
_VENDOR, _DEVICE, _NETWORK = "0x1d0f", "0xefa2", "0x020000"


def lay_out(sys: Path, count: int) -> None:
    """Make a folder that looks as `/sys` does on a machine with `count` of them."""
    fabric = sys / "class" / "infiniband"
    fabric.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        device = sys / "bus" / "pci" / "devices" / f"0000:{number:02x}:00.0"
        device.mkdir(parents=True, exist_ok=True)
        for name, text in (("vendor", _VENDOR), ("device", _DEVICE), ("class", _NETWORK)):
            (device / name).write_text(text + "\n")
        link = fabric / f"efa_{number}"
        link.mkdir(exist_ok=True)
        if not (link / "device").exists():
            (link / "device").symlink_to(device)
