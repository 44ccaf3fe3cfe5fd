"""All that the program reads: pure data, so that what is made can be told without AWS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burst.core.aws.names import REGION, blobs_url, store_url, tags_of
from burst.core.config.cluster import Aws, AwsPool, ClusterConfig
from burst.infra.facts import Facts


@dataclass(frozen=True)
class Bundle:
    """burst and what it needs, packed for a machine that has neither."""

    path: Path
    """A zip file, the same bytes for the same contents."""
    digest: str
    """Of its contents: SHA-256, hexadecimal."""
    python: str
    """`3.12`: the Python that it is for."""
    machine: str
    """`x86_64` or `arm64`."""


@dataclass(frozen=True)
class Settings:
    config: ClusterConfig
    cluster_file: str
    """The text that nodes and the runner read as burst.yaml."""
    facts: Facts
    runner: Bundle
    """For the function that is the runner."""
    node: Bundle
    """For the nodes' image."""

    @property
    def cluster(self) -> str:
        return self.config.cluster

    @property
    def aws(self) -> Aws:
        assert self.config.aws is not None
        return self.config.aws

    @property
    def store(self) -> str:
        """URL of the table."""
        return store_url(self.cluster, self.facts.region)

    @property
    def blobs(self) -> str:
        """URL of the bucket."""
        return blobs_url(self.cluster, self.facts.account, self.facts.region)

    @property
    def pools(self) -> Mapping[str, AwsPool]:
        """Those of AWS, by name."""
        pools = self.config.pools.items()
        return {name: pool for name, pool in pools if isinstance(pool, AwsPool)}

    def tags(self, pool: str = "") -> dict[str, str]:
        """What everything that is made carries."""
        return tags_of(self.cluster, pool)

    def tags_of_access(self) -> dict[str, str]:
        """What roles and policies carry, which an account has once for all its regions."""
        return {**self.tags(), REGION: self.facts.region}
