"""The cluster of a rehearsal: the user's own, with its state in the rehearsal's cloud."""

from __future__ import annotations

import yaml

from burst.core.config.cluster import Aws, AwsPool, ClusterConfig, LocalPool
from burst.core.config.load import parse_cluster

NAME = "rehearsal"
SPOT = "spot"
REGION = "us-east-1"
_KINDS = (AwsPool, LocalPool)
_LONGEST_IDLE_S = 5.0


def rehearsed(config: ClusterConfig, slots: int) -> ClusterConfig:
    """The cluster to rehearse with.

    Pools of this machine and of AWS are kept, the latter with few seconds of idleness, so that a
    rehearsal does not wait for its end; a cluster without one of AWS gets `spot`. The types of the
    machines count for prices, capacity and slots alone: they run here, on this machine's CPUs.

    Args:
        slots: of a node, where the cluster has no pool of AWS: as many as a trial wants.
    """
    pools = {name: pool for name, pool in config.pools.items() if isinstance(pool, _KINDS)}
    if made_up(config):
        pools[SPOT] = AwsPool(instance_types=("c5.large",), slots_per_node=slots, max_nodes=8)
    quick = {
        name: pool.model_copy(update={"idle": min(pool.idle, _LONGEST_IDLE_S)})
        for name, pool in pools.items()
    }
    region = region_of(config)
    return config.model_copy(
        update={
            "cluster": NAME,
            "aws": Aws(region=region, runner="here"),
            "store": f"dynamodb://burst-{NAME}?region={region}",
            "blobs": f"s3://burst-{NAME}?region={region}",
            "pools": quick,
        }
    )


def made_up(config: ClusterConfig) -> bool:
    """Whether the cluster has no pool of AWS, so that `spot` is put beside its others."""
    return not cloud_pools(config)


def region_of(config: ClusterConfig) -> str:
    return config.aws.region if config.aws is not None else REGION


def as_file(config: ClusterConfig) -> str:
    """The text of a `burst.yaml` that means the same."""
    plain = config.model_dump(mode="json", exclude_defaults=True)
    for name, pool in config.pools.items():
        plain.setdefault("pools", {})[name]["kind"] = pool.kind
    text: str = yaml.safe_dump(plain, sort_keys=False)
    assert parse_cluster(text, "burst.yaml") == config
    return text


def cloud_pools(config: ClusterConfig) -> list[str]:
    """Names of the pools of AWS, in the file's order."""
    return [name for name, pool in config.pools.items() if isinstance(pool, AwsPool)]
