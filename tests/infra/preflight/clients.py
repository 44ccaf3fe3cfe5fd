"""Clusters to look at, and clients to make what stands in their way."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from burst.core.config.cluster import ClusterConfig
from burst.core.config.load import parse_cluster
from burst.runner.rehearsal.ec2.images import PARAMETERS

IMAGE = f"resolve:ssm:{next(iter(PARAMETERS))}"
SPOT = "{kind: aws, instance_types: [g5.xlarge, g6.xlarge], max_nodes: 8}"
ACCOUNT = "123456789012"


def client(service: str, environ: Mapping[str, str]) -> Any:
    """Of boto3, at the rehearsal cloud."""
    from boto3.session import Session

    session = Session(
        aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
        region_name=environ["AWS_DEFAULT_REGION"],
    )
    url = environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or environ["AWS_ENDPOINT_URL"]
    return session.client(service, endpoint_url=url)


def cluster(
    name: str = "lab", *, region: str = "us-east-1", aws: str = "", **pools: str
) -> ClusterConfig:
    """A cluster file's cluster; by default of one pool, `spot`.

    Args:
        aws: more lines of `aws`, separated by `; `.
        pools: each as YAML.
    """
    more = "".join(f"  {line}\n" for line in aws.split("; ") if line)
    image = "" if "image:" in aws else f"  image: {IMAGE}\n"
    named = "".join(f"  {pool}: {text}\n" for pool, text in (pools or {"spot": SPOT}).items())
    text = f"cluster: {name}\naws:\n  region: {region}\n{image}{more}pools:\n{named}"
    return parse_cluster(text, "burst.yaml")


def new_name() -> str:
    """Of a cluster that no other test has."""
    return f"lab-{uuid.uuid4().hex[:8]}"
