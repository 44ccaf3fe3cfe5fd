"""From the cluster file to all that the program reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from burst.core.aws.images import DEFAULT_PYTHON_VERSION, NODE_MACHINE
from burst.core.config.cluster import ClusterConfig
from burst.core.config.load import load_cluster
from burst.core.errors import ConfigError
from burst.infra.bundle import build_bundle
from burst.infra.bundle.target import function_machine, function_python
from burst.infra.facts import Facts
from burst.infra.preflight import gather
from burst.infra.settings import Settings


def cluster_to_build(path: Path) -> tuple[ClusterConfig, str]:
    """The cluster that a file describes, and the file's text.

    Raises:
        ConfigError: there is no such file, it is wrong, or it has no side in AWS.
    """
    config = load_cluster(path)
    if config.aws is None:
        raise ConfigError(
            f"{path} has nothing to build in AWS",
            why="it has no `aws`",
            mend="add `aws: {region: us-east-1}` and a pool of `kind: aws`",
        )
    return config, path.read_text()


def settings_for(
    config: ClusterConfig, cluster_file: str, facts: Facts, bundles: Path
) -> Settings:
    """Pack what the function and the nodes need of burst.

    Args:
        bundles: the folder for what is packed; what it has already is taken from there.

    Raises:
        BurstError: a bundle could not be made.
    """
    runner = build_bundle(
        bundles, what="runner", python=function_python(), machine=function_machine()
    )
    node = build_bundle(bundles, what="node", python=DEFAULT_PYTHON_VERSION, machine=NODE_MACHINE)
    return Settings(config, cluster_file, facts, runner, node)


def settings_of(path: Path, bundles: Path, environ: Mapping[str, str]) -> Settings:
    """All of it, with AWS asked for what has to be known of the account.

    Raises:
        BurstError: the file is wrong, AWS does not answer, or a bundle could not be made.
    """
    config, text = cluster_to_build(path)
    return settings_for(config, text, gather(config, environ), bundles)
