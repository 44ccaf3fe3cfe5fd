"""How fast a gang sums a tensor over its ranks: `python -m burst.harness.allreduce`.

The figure is nccl-tests' "bus bandwidth": what every link has to carry, whatever the number of
ranks, so that it can be compared with the network's own rate. For n ranks that sum S bytes each in
t seconds it is 2(n−1)/n · S/t.

Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

import burst.harness
from burst.core.errors import UsageError

GROUP = "allreduce"
"""Of the metrics of each size; the largest one's is the validation."""
METRIC = "bus_gb_per_s"
_MIB = 2**20
CUDA_MIB = (1, 8, 64, 256, 1024)
CPU_MIB = (1, 4, 16, 64, 128)
_WARM_UP, _LEAST, _MOST = 3, 5, 50
_SECONDS = 2.0
"""For each size, about."""


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Bytes a second on every link, for an all-reduce of `size` bytes in `seconds`."""
    return 2 * (ranks - 1) / ranks * size / seconds


def main() -> None:
    """Measure every size in turn, and report each: bytes, seconds and GB/s (10⁹).

    Raises:
        UsageError: there is one rank alone.
    """
    with burst.harness.init() as context:
        gang, device = context.distributed, torch.device(context.device)
        if gang.size < 2:
            raise UsageError("an all-reduce needs two ranks", mend="give it two slots or more")
        sizes = CUDA_MIB if device.type == "cuda" else CPU_MIB
        for step, mib in enumerate(sizes, start=1):
            size = mib * _MIB
            seconds = max(gang.allgather(timed_sum(size, device, gang.allgather)))
            found = {
                "bytes": size,
                "seconds": seconds,
                METRIC: bus_bandwidth(size, seconds, gang.size) / 1e9,
                "algorithm_gb_per_s": size / seconds / 1e9,
            }
            context.train.report_metrics(GROUP, step, found)
            if gang.rank == 0:
                print(f"{mib:>6} MiB {seconds * 1e3:>10.2f} ms {found[METRIC]:>9.2f} GB/s")
        context.train.report_validation_metrics(len(sizes), {METRIC: found[METRIC]})


def timed_sum(size: int, device: Any, agree: Callable[[Any], Sequence[Any]]) -> float:
    """Seconds that one all-reduce of so many bytes takes, of as many as fit in some seconds.

    Args:
        agree: gives every rank's value to all; they have to sum equally often.
    """
    tensor = torch.ones(size // 4, dtype=torch.float32, device=device)
    once = _elapsed(tensor, _WARM_UP) / _WARM_UP
    times = int(min(max(_SECONDS / max(agree(once)), _LEAST), _MOST))
    return _elapsed(tensor, times) / times


def _elapsed(tensor: torch.Tensor, times: int) -> float:
    _settle(tensor)
    dist.barrier()
    began = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(tensor)
    _settle(tensor)
    elapsed = time.perf_counter() - began
    tensor.fill_(1.0)  # sums of sums would become infinite
    return elapsed


def _settle(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


if __name__ == "__main__":
    main()
