"""From the cluster file to all that the program reads."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from burst.core.aws.images import NODE_MACHINE
from burst.core.config.cluster import ClusterConfig
from burst.core.config.load import load_cluster
from burst.core.errors import ConfigError
from burst.infra.bundle import build_bundle
from burst.infra.facts import Facts
from burst.infra.preflight import gather
from burst.infra.settings import Settings

_FUNCTIONS_HAVE = ("3.11", "3.12", "3.13")
"""Pythons of AWS Lambda that burst runs on."""


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
    assert config.aws is not None
    runner = build_bundle(bundles, what="runner", python=_function_python(), machine=_machine())
    node = build_bundle(
        bundles, what="node", python=config.aws.python_version, machine=NODE_MACHINE
    )
    return Settings(config, cluster_file, facts, runner, node)


def settings_of(path: Path, bundles: Path, environ: Mapping[str, str]) -> Settings:
    """All of it, with AWS asked for what has to be known of the account.

    Raises:
        BurstError: the file is wrong, AWS does not answer, or a bundle could not be made.
    """
    config, text = cluster_to_build(path)
    return settings_for(config, text, gather(config, environ), bundles)


def _function_python() -> str:
    """That of this process, where AWS has it: then what is installed here can be packed."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return own if own in _FUNCTIONS_HAVE else _FUNCTIONS_HAVE[-1]


def _machine() -> str:
    """The kind of processor of this machine, for the same reason."""
    return "arm64" if platform.machine().lower() in ("arm64", "aarch64") else "x86_64"
