"""How fast a gang of whole machines should sum over its GPUs: a band, by instance type.

Between machines nothing can be faster than their network for long, so the band follows from its
rate, as EC2's DescribeInstanceTypes tells it (NetworkPerformance; June 2026). Well below it EFA is
not in use, or not by all cards. NCCL's trees, over two machines, come out somewhat above it.

Within one machine it is NVLink's, of which one figure is published: p4d.24xlarge, 231 GB/s
(github.com/NVIDIA/nccl/issues/527, July 2022; the same table has 57 GB/s over two of them, 32 and
30, told as too slow, over three and four, of a network of 50).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_GBIT_PER_S: Mapping[str, int] = {
    "g6e.48xlarge": 400,
    "p3dn.24xlarge": 100,
    "p4d.24xlarge": 400,
    "p4de.24xlarge": 400,
    "p5.48xlarge": 3200,
    "p5e.48xlarge": 3200,
    "p5en.48xlarge": 3200,
    "p6-b200.48xlarge": 3200,
    "p6-b300.48xlarge": 6400,
}
_ALONE_GB_PER_S: Mapping[str, int] = {"p4d.24xlarge": 231, "p4de.24xlarge": 231}
_LEAST_SHARE = 0.65
"""Of the network's rate: what was told as too slow is below."""
_LEAST_SHARE_ALONE = 0.8


@dataclass(frozen=True)
class Band:
    """What bus bandwidth to expect of an all-reduce, in GB/s (10⁹)."""

    least: float
    usual: float
    source: str


def expected_band(instance_type: str, nodes: int) -> Band | None:
    """For a gang of all GPUs of so many machines; None where nothing is known to go by."""
    if nodes > 1 and instance_type in _GBIT_PER_S:
        rate = _GBIT_PER_S[instance_type] / 8
        return Band(_LEAST_SHARE * rate, rate, "the rate of its network, as EC2 tells it")
    if nodes == 1 and instance_type in _ALONE_GB_PER_S:
        figure = float(_ALONE_GB_PER_S[instance_type])
        return Band(_LEAST_SHARE_ALONE * figure, figure, "NVIDIA/nccl issue 527, July 2022")
    return None
