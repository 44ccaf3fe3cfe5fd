"""What the ranks of several nodes talk over: gathered here, chosen by a pure function.

EFA where there is one, else InfiniBand, else the Ethernet interface on the way to the rendezvous,
which also carries what sets the others up. Ranks that all run on one machine use its loopback.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil

from burst.core.model import Json

LOOPBACK = "127.0.0.1"
_PROBE_PORT = 9  # nothing is ever sent there
_SOMEWHERE = "198.51.100.1"  # reserved for documentation: only the route to it is looked up
_RDMA = Path("/sys/class/infiniband")

Provider = Literal["efa", "infiniband", "tcp"]


@dataclass(frozen=True)
class Interface:
    name: str
    addresses: tuple[str, ...]
    """IPv4."""
    loopback: bool = False


@dataclass(frozen=True)
class Facts:
    """What a node can talk over."""

    stack: str
    """Nodes with the same share a kernel and its network, so they reach each other by loopback."""
    address: str
    """Where the node is reached, unless it is known on which way."""
    interfaces: tuple[Interface, ...] = ()
    """Those that are up."""
    efa: tuple[str, ...] = ()
    """EFA devices."""
    infiniband: tuple[str, ...] = ()
    """InfiniBand devices with an active port."""


@dataclass(frozen=True)
class Network:
    """What the ranks of one node talk over."""

    address: str
    interface: str
    provider: Provider
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that say so to gloo, NCCL and libfabric."""

    def record(self, stack: str) -> dict[str, Json]:
        """As `Allocation.network` keeps it."""
        return {
            "stack": stack,
            "address": self.address,
            "interface": self.interface,
            "provider": self.provider,
            "settings": dict(self.settings),
        }


def choose(facts: Facts, address: str, environ: Mapping[str, str], *, gpus: bool) -> Network:
    """What ranks at `address` of this node talk over. Pure.

    Args:
        environ: what the ranks' environment sets already, which is never overridden.
        gpus: whether they train on GPUs; what only NCCL uses is not set for others.
    """
    interface = next((each.name for each in facts.interfaces if address in each.addresses), "")
    provider = _provider(facts, address, gpus=gpus)
    wanted: dict[str, str] = {}
    if interface:
        # NCCL takes a plain name for the beginning of one
        wanted |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": f"={interface}"}
    if provider == "efa":
        wanted |= {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}
    if provider == "infiniband":
        wanted["NCCL_IB_HCA"] = "=" + ",".join(facts.infiniband)
    settings = {name: environ.get(name, value) for name, value in wanted.items()}
    return Network(address, interface, provider, settings)


def _provider(facts: Facts, address: str, *, gpus: bool) -> Provider:
    if not gpus or address == LOOPBACK:
        return "tcp"
    if facts.efa:
        return "efa"
    return "infiniband" if facts.infiniband else "tcp"


def meeting_address(facts: Facts, others: Sequence[Mapping[str, Json]], way: str) -> str:
    """The address of this node at which the others can reach it. Pure.

    Args:
        others: what the other nodes noted of themselves in `Allocation.network`.
        way: this node's address on the way to them; empty where there is none.
    """
    if all(each.get("stack") == facts.stack for each in others):
        return LOOPBACK
    return way or facts.address


def gather() -> Facts:
    """Reads this machine's interfaces and devices; opens no connection."""
    interfaces = _interfaces()
    named = next((each.addresses[0] for each in interfaces if not each.loopback), LOOPBACK)
    efa, infiniband = _rdma_devices(_RDMA)
    return Facts(_stack(), own_address(_SOMEWHERE) or named, interfaces, efa, infiniband)


def own_address(peer: str) -> str:
    """This machine's address on the route to `peer`; empty where there is no route."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((peer, _PROBE_PORT))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def free_port(address: str) -> int:
    """A port of `address` that nobody listens on now.

    Raises:
        OSError: this machine has no such address.
    """
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _interfaces() -> tuple[Interface, ...]:
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    found = []
    for name, addresses in psutil.net_if_addrs().items():
        own = tuple(each.address for each in addresses if each.family is socket.AF_INET)
        if name in up and own:
            found.append(Interface(name, own, loopback=own[0].startswith("127.")))
    return tuple(found)


def _stack() -> str:
    """The kernel and its network namespace: containers of one machine have several."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()


def _rdma_devices(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The EFA devices, and the InfiniBand devices of which a port is active."""
    efa, infiniband = [], []
    for device in sorted(folder.glob("*")):
        if (device / "device" / "driver").resolve().name == "efa":
            efa.append(device.name)
        elif any(_is_active(port) for port in device.glob("ports/*")):
            infiniband.append(device.name)
    return tuple(efa), tuple(infiniband)


def _is_active(port: Path) -> bool:
    try:
        layer, state = (port / "link_layer").read_text(), (port / "state").read_text()
    except OSError:
        return False
    return layer.strip() == "InfiniBand" and "ACTIVE" in state
