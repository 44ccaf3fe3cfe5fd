"""Which pools an experiment may use."""

from __future__ import annotations

from burst.core.config.cluster import ClusterConfig
from burst.core.config.experiment import ExperimentConfig


def pools_for(config: ExperimentConfig, cluster: ClusterConfig) -> tuple[str, ...]:
    """The pools that the experiment names, best first, or else the cluster's first one."""
    return config.resources.pools or tuple(list(cluster.pools)[:1])
