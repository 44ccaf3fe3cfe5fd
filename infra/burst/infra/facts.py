"""What has to be known of the account before anything can be made in it. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burst.core.aws.instance_types import InstanceType


@dataclass(frozen=True)
class Facts:
    """The same for the same account, whenever it is asked: what is made follows from it, and a
    second run must change nothing."""

    account: str
    region: str
    partition: str
    """`aws`, `aws-cn`, `aws-us-gov`."""
    zones: Mapping[str, tuple[str, ...]]
    """By zone, which of the pools' instance types are offered there; zones without any are left
    out. In the order of their names."""
    types: Mapping[str, InstanceType]
    """By name, every instance type that a pool names."""
    root_device: str
    """What the nodes' image calls its root disk: /dev/sda1, /dev/xvda; empty without a pool in
    AWS."""
    executions: int
    """How many calls of one function may run at once of those that the account may ever have."""
