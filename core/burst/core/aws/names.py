"""Names and tags of what a cluster has in AWS, derived from the cluster's name.

A tag's key may be read from a machine's own metadata only if it holds none but letters, digits and
`+-=.,_:@`. A machine's tags say whose it is; everything that burst makes carries `CLUSTER`, so
that all of it is found, and ended, from tags alone.
"""

from __future__ import annotations

from collections.abc import Mapping

CLUSTER = "burst:cluster"
POOL = "burst:pool"
LAUNCH = "burst:launch"
"""The request that a machine came of (`burst.core.model.Node.launch`)."""
REGION = "burst:region"
"""Where the cluster is, on what an account has only once for all regions: roles and policies."""
NAME = "Name"
"""What AWS's own console shows."""


def tags_of(cluster: str, pool: str = "", launch: str = "") -> dict[str, str]:
    """The tags of a thing of the cluster, of one of its pools, or of one request of that."""
    found = {CLUSTER: cluster, POOL: pool, LAUNCH: launch, NAME: f"burst {cluster} {pool}".strip()}
    return {key: value for key, value in found.items() if value}


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As AWS takes them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def untag(tags: object) -> dict[str, str]:
    """As AWS gives them, to a mapping."""
    found = tags if isinstance(tags, list) else []
    return {str(tag["Key"]): str(tag["Value"]) for tag in found}


def template_name(cluster: str, pool: str, instance_type: str = "") -> str:
    """The launch template of a pool; of one type of it, where its network cards differ (EFA).

    No name of a cluster or a pool has a `/`, so no two of any clusters are alike.
    """
    return "/".join(filter(None, ("burst", cluster, pool, instance_type)))


def placement_group_name(cluster: str, launch: str) -> str:
    """The cluster placement group of one gang's request."""
    return f"burst-{cluster}-{launch}"


def cell_name(zone: str, instance_type: str, group: str = "") -> str:
    """What nodes of one gang have in common (`burst.core.model.Node.cell`)."""
    return "/".join(filter(None, (zone, instance_type, group)))


def table_name(cluster: str) -> str:
    """The table of a cluster's records."""
    return f"burst-{cluster}"


def bucket_name(cluster: str, account: str, region: str) -> str:
    """The bucket of a cluster's bytes. Names of buckets are the whole world's, so it tells the
    account and the region."""
    return f"burst-{cluster}-{account}-{region}"


def store_url(cluster: str, region: str) -> str:
    return f"dynamodb://{table_name(cluster)}?region={region}"


def blobs_url(cluster: str, account: str, region: str) -> str:
    return f"s3://{bucket_name(cluster, account, region)}?region={region}"


def role_name(cluster: str, role: str) -> str:
    """An IAM role (`node`, `runner`, `github`) or policy (`viewer`, `submitter`, `admin`) of a
    cluster; its instance profile has the name of the role."""
    return f"burst-{cluster}-{role}"


def function_name(cluster: str) -> str:
    """The function that is the runner."""
    return f"burst-{cluster}-runner"


def longest_cluster_name(region: str) -> int:
    """Letters that a cluster's name may have in AWS: a bucket's may have 63."""
    return 63 - len(bucket_name("", "0" * 12, region))
