"""The double's AWS provider: one small class for each type of resource, by service."""

from tests.infra.double.providers import (
    access,
    buckets,
    calling,
    functions,
    gateways,
    launching,
    network,
    objects,
    rules,
    tables,
    telling,
    watching,
)

__all__ = [
    "access",
    "buckets",
    "calling",
    "functions",
    "gateways",
    "launching",
    "network",
    "objects",
    "rules",
    "tables",
    "telling",
    "watching",
]
