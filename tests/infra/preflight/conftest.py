"""The rehearsal cloud, served once for all tests of this folder in a process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.servers import Servers, serve
from tests.infra.preflight.clients import client


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serve(tmp_path_factory.mktemp("cloud")) as found:
        yield found


@pytest.fixture
def environ(servers: Servers) -> Iterator[Mapping[str, str]]:
    """What points at a cloud in which nothing fails."""
    yield servers.environ
    control = Ec2Control(servers.ec2)
    control.heal()
    control.reset_rules()


@pytest.fixture
def control(servers: Servers) -> Ec2Control:
    return Ec2Control(servers.ec2)


@pytest.fixture
def iam(environ: Mapping[str, str]) -> Iterator[object]:
    """IAM, in which nothing that clusters share is there before and after."""
    found = client("iam", environ)
    _empty(found)
    yield found
    _empty(found)
    found.close()


def _empty(iam: object) -> None:
    from typing import Any

    found: Any = iam
    for role in found.list_roles(PathPrefix="/aws-service-role/")["Roles"]:
        found.delete_service_linked_role(RoleName=role["RoleName"])
    for each in found.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
        found.delete_open_id_connect_provider(OpenIDConnectProviderArn=each["Arn"])
