"""What can be known of a rehearsal before its cloud is raised, which takes seconds."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from burst.core.aws.instance_types import known_type
from burst.core.config.cluster import AwsPool, ClusterConfig, LocalPool
from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import ConfigError, Refused, UsageError
from burst.runner.admission import admit
from burst.runner.pools import local
from burst.runner.pools.port import Limits
from burst.runner.rehearsal.scenario import EVERY_ZONE, Scenario


def check_region(region: str) -> None:
    """That AWS has it.

    Raises:
        ConfigError: it has not.
    """
    from botocore.session import Session

    known = Session().get_available_regions("ec2")
    if region in known:
        return
    near = difflib.get_close_matches(region, known, n=1)
    raise ConfigError(
        f"aws.region in burst.yaml: there is no region {region!r}",
        mend=f"did you mean {near[0]!r}?" if near else "name one such as us-east-1",
    )


def check_zones(scenario: Scenario, region: str) -> None:
    """That the region has, in the model of EC2, every zone whose capacity is said.

    Raises:
        UsageError: it has not.
    """
    named = [each.zone for each in scenario.capacity if each.zone != EVERY_ZONE]
    if not named:
        return
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    known = [zone.name for zone in RegionsAndZonesBackend.zones[region]]
    for zone in named:
        if zone not in known:
            raise UsageError(
                f"--capacity {zone}:… names a zone that {region} has not",
                why=f"its zones are {', '.join(known)}",
                mend=f"name one of them, such as --capacity {known[0]}:3",
            )


def check_pools(names: Sequence[str], theirs: ClusterConfig, made: ClusterConfig) -> None:
    """That the named pools of the user's cluster are of kinds that are rehearsed.

    Raises:
        Refused: one is not.
    """
    for name in names:
        if name in theirs.pools and name not in made.pools:
            raise Refused(
                f"pool {name!r} is not rehearsed",
                why=f"it is of kind {theirs.pools[name].kind}; only pools of kind aws and local "
                "can be rehearsed",
                mend=f"name one of {', '.join(made.pools)}",
            )


def check_fit(
    config: ExperimentConfig, names: Sequence[str], cluster: ClusterConfig, home: Path
) -> None:
    """That the experiment could run in the pools `names`, as far as EC2 need not be asked.

    Args:
        home: of the rehearsal, which need not be there.

    Raises:
        ConfigError, Refused: as `burst.runner.admission.admit`.
    """
    resources = config.resources.model_copy(update={"pools": tuple(names)})
    limits = {
        name: found
        for name, pool in cluster.pools.items()
        if (found := _limits(name, pool, home)) is not None
    }
    if all(name in limits or name not in cluster.pools for name in names):
        admit(config.model_copy(update={"resources": resources}), cluster, limits)


def _limits(name: str, pool: object, home: Path) -> Limits | None:
    """None where only EC2 knows them."""
    if isinstance(pool, LocalPool):
        return local.LocalPool(name, home, pool).limits
    if not isinstance(pool, AwsPool):
        return None
    kinds = [known_type(each) for each in pool.instance_types]
    slots = {pool.slots_per_node or (kind.slots if kind is not None else 0) for kind in kinds}
    if len(slots) != 1 or 0 in slots:
        return None
    return Limits(slots_per_node=slots.pop(), max_nodes=pool.max_nodes, costs=True)
