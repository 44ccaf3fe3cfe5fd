"""The gang as one rank sees it: who it is, and agreeing on small values."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from burst.core.errors import Unreachable

GANG_OF_ONE = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",  # whichever is free
}


@dataclass(frozen=True)
class Place:
    """A rank's place in its gang."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Place:
        """As torch's launchers tell it; the only rank where they do not."""
        size = int(environ.get("WORLD_SIZE", "1"))
        return cls(
            rank=int(environ.get("RANK", "0")),
            size=size,
            local_rank=int(environ.get("LOCAL_RANK", "0")),
            local_size=int(environ.get("LOCAL_WORLD_SIZE", str(size))),
        )


class DistributedContext:
    """Collective operations over all ranks (`burst.harness.collective.Collective`), and over the
    ranks of this node (`…_local`). Values are what JSON can hold. Every rank makes the same calls
    in the same order."""

    def __init__(self, place: Place, group: Any = None, local_group: Any = None) -> None:
        """`group` is a gloo process group of all ranks, `local_group` one of this node's; both
        None for the only rank."""
        self._place = place
        self._group = group
        self._local_group = local_group

    @property
    def rank(self) -> int:
        return self._place.rank

    @property
    def size(self) -> int:
        return self._place.size

    @property
    def local_rank(self) -> int:
        return self._place.local_rank

    @property
    def local_size(self) -> int:
        return self._place.local_size

    @property
    def nodes(self) -> int:
        return self.size // self.local_size

    def get_rank(self) -> int:
        return self.rank

    def get_local_rank(self) -> int:
        return self.local_rank

    def get_size(self) -> int:
        return self.size

    def get_num_agents(self) -> int:
        return self.nodes

    def allgather(self, value: Any) -> list[Any]:
        """Every rank's value, by rank."""
        return [value] if self.size == 1 else _allgather(value, self._group)

    def gather(self, value: Any) -> list[Any] | None:
        """Every rank's value on rank 0, None elsewhere."""
        values = self.allgather(value)
        return values if self.rank == 0 else None

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value."""
        return self.allgather(value if self.rank == 0 else None)[0]

    def barrier(self) -> None:
        self.allgather(None)

    def twin(self) -> DistributedContext:
        """A channel of its own between the same ranks, for another thread. Collective."""
        if self.size == 1:
            return self
        import torch.distributed as dist

        return DistributedContext(self._place, dist.new_group(backend="gloo"), self._local_group)

    def allgather_local(self, value: Any) -> list[Any]:
        return [value] if self.local_size == 1 else _allgather(value, self._local_group)

    def gather_local(self, value: Any) -> list[Any] | None:
        values = self.allgather_local(value)
        return values if self.local_rank == 0 else None

    def broadcast_local(self, value: Any) -> Any:
        return self.allgather_local(value if self.local_rank == 0 else None)[0]


def _allgather(value: Any, group: Any) -> list[Any]:
    import torch
    import torch.distributed as dist

    mine = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    ranks = dist.get_world_size(group)
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(ranks)]
    dist.all_gather(sizes, torch.tensor([mine.numel()]), group=group)
    longest = max(int(size) for size in sizes)
    padded = torch.zeros(longest, dtype=torch.uint8)
    padded[: mine.numel()] = mine
    parts = [torch.empty(longest, dtype=torch.uint8) for _ in range(ranks)]
    dist.all_gather(parts, padded, group=group)
    return [
        json.loads(part[: int(size)].numpy().tobytes())
        for part, size in zip(parts, sizes, strict=True)
    ]


def join_gang(place: Place, device: str) -> DistributedContext:
    """Meet the other ranks (`MASTER_ADDR` and `MASTER_PORT` say where) and set up the groups:
    torch's default one for gradients, gloo ones for burst's own agreements.

    Raises:
        Unreachable: another program has taken the port since it was chosen.
    """
    if place.size == 1:
        return DistributedContext(place)
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        if device.startswith("cuda"):
            torch.cuda.set_device(torch.device(device))
        try:
            dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        except dist.DistNetworkError as error:
            if "EADDRINUSE" not in str(error):
                raise
            raise Unreachable(
                "the ranks could not meet: another program has taken their port",
                why=str(error).partition("\n")[0],
                mend="nothing is to be done: the next attempt chooses another one",
            ) from error
    group = dist.new_group(backend="gloo")
    if place.local_size == place.size:
        return DistributedContext(place, group, group)
    locals_ = [
        dist.new_group(list(range(first, first + place.local_size)), backend="gloo")
        for first in range(0, place.size, place.local_size)
    ]
    return DistributedContext(place, group, locals_[place.rank // place.local_size])


def leave_gang() -> None:
    dist: Any = sys.modules.get("torch.distributed")  # whoever did not load it has no gang
    if dist is not None and dist.is_available() and dist.is_initialized():
        # A sharded model, in a cycle of references, holds groups whose threads abort the process
        # where they outlive the interpreter.
        gc.collect()
        dist.destroy_process_group()


@contextmanager
def gang_of_one(environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Let code that sets up torch.distributed, as sharding a model does, find a gang of one, where
    no launcher has said anything else."""
    if "RANK" in environ:
        yield
        return
    added = dict(GANG_OF_ONE)
    if sys.platform == "linux":
        added["GLOO_SOCKET_IFNAME"] = "lo"
    before = {name: environ.get(name) for name in added}
    environ.update(added)
    try:
        yield
    finally:
        leave_gang()
        for name, value in before.items():
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value
