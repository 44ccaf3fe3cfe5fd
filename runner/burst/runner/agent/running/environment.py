"""What the ranks find in their environment. Pure, but for reading the agent's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from burst.core.config.experiment import Environment
from burst.core.errors import BurstError
from burst.core.launch import ALLOCATION_VARIABLE, LAUNCH_VARIABLE
from burst.core.model import Json, Slot

_NUMBER = re.compile(r"\d+")


class CannotPrepare(BurstError):
    """The experiment asks for something that this node cannot do: its owner has to see it."""


def resolve_secrets(secrets: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The values of an experiment's secrets; `env:NAME` is read from the agent's environment.

    Raises:
        CannotPrepare: one is not there, or is kept where this node cannot read.
    """
    found = {}
    for name, source in sorted(secrets.items()):
        scheme, _, key = source.partition(":")
        if scheme != "env":
            raise CannotPrepare(
                f"secret {name} cannot be read",
                why=f"secrets from {scheme!r} are accepted, but not acted on yet",
                mend=f"give it to the agent's environment and write `{name}: env:{name}`",
            )
        if key not in environ:
            raise CannotPrepare(
                f"secret {name} is not there",
                why=f"the agent has no {key} in its environment",
                mend=f"set {key} where the agent is started",
            )
        found[name] = environ[key]
    return found


def threads_for(environment: Environment, *, cpus: int, node_slots: int) -> int:
    """CPU threads of a rank: the experiment's OMP_NUM_THREADS, else an even share of the node."""
    wanted = environment.variables.get("OMP_NUM_THREADS", "").strip()
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return max(1, cpus // max(1, node_slots))


def devices_for(slots: Sequence[Slot]) -> tuple[str, ...]:
    """One device a local rank, as the rank sees it; a trial without slots has one CPU rank."""
    if not slots:
        return ("cpu",)
    return tuple(
        f"cuda:{rank}" if slot.device == "cuda" else "cpu" for rank, slot in enumerate(slots)
    )


def visible_devices(slots: Sequence[Slot]) -> str:
    """CUDA_VISIBLE_DEVICES: exactly the GPUs of the allocation's slots, in order."""
    return ",".join(str(slot.index) for slot in slots if slot.device == "cuda")


def rank_environment(
    base: Mapping[str, str],
    environment: Environment,
    secrets: Mapping[str, str],
    *,
    slots: Sequence[Slot],
    threads: int,
) -> dict[str, str]:
    """Everything but what names the allocation. The experiment's variables win over the node's."""
    return {
        **base,
        "OMP_NUM_THREADS": str(threads),
        "PYTHONUNBUFFERED": "1",
        **environment.variables,
        **secrets,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order of nvidia-smi, and so of the slots
        "CUDA_VISIBLE_DEVICES": visible_devices(slots),
    }


def marks(allocation: str, spec: str) -> dict[str, str]:
    """What names the allocation to its ranks, and to a sweep."""
    return {ALLOCATION_VARIABLE: allocation, LAUNCH_VARIABLE: spec}


def check_versions(environment: Environment, facts: Mapping[str, Json]) -> None:
    """Compare the driver that the experiment expects with the node's.

    Raises:
        CannotPrepare: the node has an older one, or none.
    """
    wanted = environment.driver
    if wanted is None:
        return
    found = str(facts.get("driver") or "")
    if not found or _numbers(found) < _numbers(wanted):
        raise CannotPrepare(
            f"the node's NVIDIA driver is {found or 'missing'}, and {wanted} is needed",
            why="environment.driver in the experiment file asks for it",
            mend="choose a pool whose nodes have it, or update the driver",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(version))
