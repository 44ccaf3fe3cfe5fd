"""How long the stages of building take: expectations, by which nothing is judged.

They are what AWS's own pages and others' experience say of such resources; none was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from burst.infra.settings import Settings


@dataclass(frozen=True)
class Stage:
    name: str
    kinds: tuple[str, ...]
    """What Pulumi's names of the types of its resources begin with."""
    least: float
    """Seconds."""
    most: float


NETWORK = Stage("network", ("aws:ec2/", "aws:vpc/"), 15, 45)
ENDPOINTS = Stage("endpoints", ("aws:ec2/vpcEndpoint:",), 60, 180)
NAT = Stage("NAT gateway", ("aws:ec2/natGateway:", "aws:ec2/eip:"), 90, 180)
TEMPLATES = Stage("launch templates", ("aws:ec2/launchTemplate:",), 2, 10)
ROLES = Stage("roles", ("aws:iam/",), 10, 30)
TABLE = Stage("table", ("aws:dynamodb/",), 15, 60)
BUCKET = Stage("bucket", ("aws:s3/",), 10, 60)
FUNCTION = Stage("runner", ("aws:lambda/", "aws:cloudwatch/event"), 20, 60)
WATCHING = Stage("alarms and dashboard", ("aws:cloudwatch/", "aws:sns/", "aws:budgets/"), 3, 15)
_ALL = (NETWORK, ENDPOINTS, NAT, TEMPLATES, ROLES, TABLE, BUCKET, FUNCTION, WATCHING)
_CHAIN = (ROLES, TABLE, FUNCTION)
"""Each needs the one before; all else is made meanwhile."""


def stages_of(settings: Settings) -> tuple[Stage, ...]:
    """Those that a first `burst up` of the cluster has."""
    return tuple(_needed(settings))


def expected(settings: Settings) -> tuple[float, float]:
    """Seconds from the first to the last thing, at least and at most: what is independent is made
    at the same time."""
    there = stages_of(settings)
    alone = [stage for stage in there if stage not in _CHAIN]
    chain = [stage for stage in there if stage in _CHAIN]
    after_network = [stage for stage in alone if stage is not NETWORK]

    def longest(pick: str) -> float:
        network = getattr(NETWORK, pick) + max(getattr(each, pick) for each in after_network)
        return float(max(network, sum(getattr(each, pick) for each in chain)))

    return longest("least"), longest("most")


def stage_of(kind: str) -> Stage | None:
    """The stage of a resource, by Pulumi's name of its type (`aws:ec2/vpc:Vpc`): the one that
    fits it closest; None for what takes no time."""
    fits = [
        (len(begin), stage) for stage in _ALL for begin in stage.kinds if kind.startswith(begin)
    ]
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


def _needed(settings: Settings) -> Iterator[Stage]:
    aws = settings.aws
    yield NETWORK
    if aws.endpoints:
        yield ENDPOINTS
    if aws.nat:
        yield NAT
    yield from (ROLES, TEMPLATES, TABLE, BUCKET)
    if settings.config.has_function:
        yield FUNCTION
    yield WATCHING
