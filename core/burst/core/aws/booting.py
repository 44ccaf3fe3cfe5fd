"""The user data of a launch template: everything that a machine of an AWS pool boots with."""

from __future__ import annotations

from collections.abc import Mapping

from burst.core.aws.deadman import deadman_lines
from burst.core.aws.templates import boot_script

MODULE = "burst.runner.node"
"""What a machine becomes."""


def node_script(
    environ: Mapping[str, str],
    *,
    max_life: float,
    bundle: str = "",
    python: str = "python",
    efa: int = 0,
) -> str:
    """The whole user data of a pool's machines.

    Args:
        environ: what a node has to know to find the rest (`templates.node_environ`).
        max_life: seconds that the machines may live (`AwsPool.max_life`).
        bundle: `s3://BUCKET/cluster/node-DIGEST.zip`, burst and what it needs; empty where the
            image's own Python has them.
        python: the image's Python (`Aws.python`).
        efa: Elastic Fabric Adapters that the template gives a machine.
    """
    told = {"BURST_BUNDLE": bundle, "BURST_PYTHON": python, "BURST_EFA": str(efa) if efa else ""}
    known = {**environ, **{name: value for name, value in told.items() if value}}
    return boot_script(known, before=deadman_lines(max_life), program=f"{python} -m {MODULE}")
