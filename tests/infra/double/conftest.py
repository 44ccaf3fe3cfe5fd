"""One rehearsal cloud for the tests of a module, and stacks of the double's in it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pulumi_aws as aws
import pytest

from burst.runner.rehearsal.servers import Servers, serve
from tests.infra.double.here import Here
from tests.infra.double.launching import Double, engine

with warnings.catch_warnings():
    # Packages of the provider warn of classes of their own as soon as they are imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    loaded: list[object] = [aws.budgets.Budget, aws.cloudwatch.EventRule, aws.dynamodb.Table]
    loaded += [aws.ebs.Volume, aws.ec2.Vpc, aws.iam.Role, aws.lambda_.Function, aws.s3.Bucket]
    loaded += [aws.sns.Topic, aws.sqs.Queue, aws.vpc.SecurityGroupIngressRule]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serve(tmp_path_factory.mktemp("cloud"), boot=0.05) as found:
        yield found


@pytest.fixture
def cloud(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of this process reach it."""
    for name, value in servers.environ.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def here(cloud: None, tmp_path: Path) -> Iterator[Here]:
    """A stack; nothing of it is left for the next test."""
    made = Here(tmp_path / "here")
    yield made
    made.destroy(adopt=True, keep_going=True)


@pytest.fixture
def double(servers: Servers, tmp_path: Path) -> Iterator[Double]:
    with engine(tmp_path / "pulumi", servers.environ) as found:
        yield found
