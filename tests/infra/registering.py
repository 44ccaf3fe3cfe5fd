"""What a Pulumi program registers, without an engine: its resources and the inputs of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws
from pulumi.runtime import mocks

from burst.core.aws.instance_types import known_type
from burst.core.config.cluster import AwsPool
from burst.core.config.load import parse_cluster
from burst.infra.facts import Facts
from burst.infra.settings import Bundle, Settings

ACCOUNT = "123456789012"

_PACKAGES = ("budgets", "cloudwatch", "dynamodb", "ec2", "iam", "lambda_", "s3", "sns", "vpc")

with warnings.catch_warnings():
    # Some of the provider's packages warn of a class of their own as soon as they are loaded,
    # which is when something of them is first used.
    warnings.simplefilter("ignore", DeprecationWarning)
    for _package in _PACKAGES:
        assert not hasattr(getattr(pulumi_aws, _package), "whatever")


@dataclass(frozen=True)
class Registered:
    """One resource, as the program has asked for it."""

    type: str
    """`aws:s3/bucket:Bucket`."""
    name: str
    inputs: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.type}::{self.name}"


def registered(program: Callable[[], object]) -> list[Registered]:
    """Run a program; every resource of a provider, in the order that it was registered in.

    A resource's outputs are its inputs, its id, and an ARN and a name made of its name.
    """
    book = _Book()
    mocks.set_mocks(book, project="burst", stack="test")
    run: Any = mocks.test(_whole(program))  # type: ignore[no-untyped-call]
    run()
    return book.found


def _whole(program: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        program()
        return pulumi.Output.from_input(None)

    return run


class _Book(mocks.Mocks):
    def __init__(self) -> None:
        self.found: list[Registered] = []

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        if args.custom:
            self.found.append(Registered(args.typ, args.name, dict(args.inputs)))
        id = f"{args.name}-id"
        made = {"arn": arn_of(args.typ, args.name), "streamArn": f"{id}/stream", "name": args.name}
        return id, {**made, **args.inputs}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
        return {}, None


def arn_of(type: str, name: str) -> str:
    """What `registered` gives a resource for an ARN."""
    return f"arn:aws:{type.partition(':')[2].partition('/')[0]}:us-east-1:{ACCOUNT}:{name}"


def settings_of(
    text: str = "",
    *,
    cluster: str = "lab",
    region: str = "us-east-1",
    partition: str = "aws",
    executions: int = 1000,
) -> Settings:
    """Of a cluster with one pool of spot machines.

    Args:
        text: further lines of `aws`, such as `github: [owner/name]`.
        executions: `Facts.executions`.
    """
    file = f"""
cluster: {cluster}
aws:
  region: {region}
  {text}
pools:
  spot: {{kind: aws, instance_types: [g5.12xlarge], max_nodes: 4}}
"""
    return settings_for(file, region=region, partition=partition, executions=executions)


def settings_for(
    file: str, *, region: str = "us-east-1", partition: str = "aws", executions: int = 1000
) -> Settings:
    """Of a cluster file."""
    config = parse_cluster(file, "burst.yaml")
    bundle = Bundle(Path("/nowhere/runner.zip"), "0" * 64, "3.12", "arm64")
    named = {
        name
        for pool in config.pools.values()
        if isinstance(pool, AwsPool)
        for name in pool.instance_types
    }
    types = {name: kind for name in sorted(named) if (kind := known_type(name)) is not None}
    facts = Facts(
        account=ACCOUNT,
        region=region,
        partition=partition,
        zones={f"{region}a": tuple(types)},
        types=types,
        root_device="/dev/sda1",
        executions=executions,
    )
    return Settings(config, file, facts, bundle, bundle)
