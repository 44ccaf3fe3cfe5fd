"""What has to be known of the account before anything can be made in it, from AWS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from burst.core.aws.account import require_account
from burst.core.config.cluster import Aws, ClusterConfig
from burst.core.errors import ConfigError, Refused
from burst.infra.facts import Facts
from burst.infra.preflight.asking import Asking, Unknown, at_once, known
from burst.infra.preflight.identity import (
    Identity,
    look_identity,
    look_regions,
    region_error,
)
from burst.infra.preflight.image import Image, look_image
from burst.infra.preflight.places import (
    Kind,
    look_kinds,
    look_offered,
    pools_of,
    types_of,
    zones_for,
)
from burst.infra.preflight.pools import unplaced


@dataclass(frozen=True)
class Seen:
    """What AWS told, or did not tell, of what everything else follows from."""

    identity: Identity | Unknown
    regions: dict[str, str] | Unknown
    kinds: Mapping[str, Kind] | Unknown
    offered: Mapping[str, tuple[str, ...]] | Unknown
    image: Image | Unknown | None
    """None where no pool needs one."""
    executions: int | Unknown


def gather(config: ClusterConfig, environ: Mapping[str, str]) -> Facts:
    """Ask AWS for the facts. Nothing is changed.

    Args:
        config: of a cluster with `aws`.
        environ: whose credentials ask, and where servers are that are not AWS's own, as AWS's
            tools read it.

    Raises:
        ConfigError: the region is none, or the cluster has no side in AWS.
        Unauthorized: there are no credentials, or AWS does not accept them.
        Refused: they are of another account, the region is not enabled, a type or the image is
            not there, or whoever asks may not ask.
        Unreachable: AWS does not answer.
    """
    asking = Asking(aws_of(config).region, environ)
    try:
        return facts_of(config, look(config, asking))
    finally:
        asking.close()


def look(config: ClusterConfig, asking: Asking) -> Seen:
    """Ask all at once; whatever AWS does not tell is `Unknown`."""
    return Seen(**at_once(questions_of(config, asking)))


def questions_of(config: ClusterConfig, asking: Asking) -> dict[str, Callable[[], Any]]:
    """By the name of its answer in `Seen`."""
    types = types_of(config)
    return {
        # EC2's first, whose client takes longest to make.
        "kinds": lambda: look_kinds(asking, types),
        "offered": lambda: look_offered(asking, types),
        "identity": lambda: look_identity(asking),
        "image": lambda: look_image(asking, aws_of(config).image) if types else None,
        "executions": lambda: _look_executions(asking),
        "regions": lambda: look_regions(asking),
    }


def facts_of(config: ClusterConfig, seen: Seen) -> Facts:
    """
    Raises:
        BurstError: as `gather`.
    """
    region = aws_of(config).region
    wrong = region_error(region, seen.regions)
    if wrong is not None:
        raise wrong
    identity = known(seen.identity)
    require_account(config, identity.account)
    kinds, offered = known(seen.kinds), known(seen.offered)
    for name, pool in pools_of(config).items():
        why = unplaced(pool, region, kinds, offered)
        if why is not None:
            raise Refused(f"pool {name} can have no machine: {why[0]}", mend=why[1])
    return Facts(
        account=identity.account,
        region=region,
        partition=identity.partition,
        zones=zones_for(pools_of(config), offered),
        types={name: kinds[name].type for name in types_of(config)},
        root_device="" if seen.image is None else known(seen.image).root_device,
        executions=_executions(seen.executions),
    )


def aws_of(config: ClusterConfig) -> Aws:
    """
    Raises:
        ConfigError: the cluster has no side in AWS.
    """
    if config.aws is None:
        raise ConfigError(
            f"cluster {config.cluster} has nothing in AWS",
            why="its burst.yaml has no `aws`",
            mend="add `aws: {region: us-east-1}` and a pool of `kind: aws`",
        )
    return config.aws


def _look_executions(asking: Asking) -> int | Unknown:
    def question() -> int:
        found = asking.client("lambda").get_account_settings()
        return int(found["AccountLimit"]["ConcurrentExecutions"])

    what = "cannot learn how many calls of a function may run at once"
    return asking.ask(what, "lambda:GetAccountSettings", question)


def _executions(found: int | Unknown) -> int:
    """Whoever may not know it reserves none, which needs no more than that."""
    if isinstance(found, Unknown) and found.denied:
        return 0
    return known(found)
