"""What belongs to an account and no cluster: quotas, service-linked roles, tags over services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from burst.core.aws.quotas import quota_of
from burst.runner.rehearsal.servers import Servers, serve
from tests.rehearsal.lab import Lab, client, code_of


@pytest.mark.parametrize(
    ("market", "type", "kind", "name"),
    [
        ("spot", "g5.xlarge", "G and VT", "All G and VT Spot Instance Requests"),
        ("spot", "p4d.24xlarge", "P4, P3 and P2", "All P4, P3 and P2 Spot Instance Requests"),
        ("spot", "p5.48xlarge", "P5", "All P5 Spot Instance Requests"),
        ("on-demand", "p5.48xlarge", "P", "Running On-Demand P instances"),
        ("on-demand", "g5.xlarge", "G and VT", "Running On-Demand G and VT instances"),
    ],
)
def test_service_quotas_tells_what_the_model_allows(
    cloud: Lab, market: str, type: str, kind: str, name: str
) -> None:
    quotas, code = client("service-quotas", cloud.url), quota_of(market, type).code
    found = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
    assert (found["QuotaName"], found["QuotaCode"]) == (name, code)
    assert found["Value"] > 10_000
    cloud.control.set_quota(0, market=market, kind=kind)
    assert value(quotas, code) == 0
    other = "spot" if market == "on-demand" else "on-demand"
    assert value(quotas, quota_of(other, type).code) > 10_000
    quotas.close()


def value(quotas: Any, code: str) -> float:
    found = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
    assert quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"] == found
    told: float = found["Value"]
    return told


def test_what_is_told_is_what_is_refused(cloud: Lab) -> None:
    cloud.control.set_quota(8, kind="G and VT")
    quotas, code = client("service-quotas", cloud.url), quota_of("spot", "g5.xlarge").code
    assert value(quotas, code) == 8
    quotas.close()
    answer = cloud.fleet(cloud.template(), 3, [("g5.xlarge", "us-east-1a")])
    assert len(answer["Instances"][0]["InstanceIds"]) == 2  # of four vCPUs each
    assert [each["ErrorCode"] for each in answer["Errors"]] == ["MaxSpotInstanceCountExceeded"]


def test_every_quota_of_ec2_is_listed_once(cloud: Lab) -> None:
    quotas = client("service-quotas", cloud.url)
    found = quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]
    codes = [each["QuotaCode"] for each in found]
    assert len(codes) == len(set(codes)) > 15
    assert quota_of("spot", "trn1.2xlarge").code in codes
    assert code_of(
        lambda: quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")
    ) == ("NoSuchResourceException")
    assert quotas.list_service_quotas(ServiceCode="vpc")["Quotas"]
    quotas.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serve(tmp_path_factory.mktemp("servers"), boot=0.05, executions=10) as made:
        yield made


def test_the_role_of_spot_is_made_once_under_its_own_name(servers: Servers) -> None:
    iam = client("iam", servers.aws)
    name = "AWSServiceRoleForEC2Spot"
    assert code_of(lambda: iam.get_role(RoleName=name)) == "NoSuchEntity"

    def make() -> Any:
        return iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")

    assert make()["Role"]["RoleName"] == name
    found = iam.get_role(RoleName=name)["Role"]
    assert found["Arn"] == (
        f"arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/{name}"
    )
    assert code_of(make) == "InvalidInput"
    assert len(iam.list_roles(PathPrefix="/aws-service-role/spot.")["Roles"]) == 1
    iam.close()


def test_the_account_says_how_many_functions_may_run_at_once(servers: Servers) -> None:
    functions = client("lambda", servers.aws)
    limit = functions.get_account_settings()["AccountLimit"]
    assert limit["ConcurrentExecutions"] == 10
    functions.close()


def test_what_carries_a_tag_is_found_over_all_services_until_it_is_gone(
    servers: Servers,
) -> None:
    tags = [{"Key": "burst:cluster", "Value": "one"}]
    ec2, logs = client("ec2", servers.ec2), client("logs", servers.aws)
    dynamodb, topics = client("dynamodb", servers.aws), client("sns", servers.aws)
    tagging = client("resourcegroupstaggingapi", servers.aws)

    def found() -> set[str]:
        filters = [{"Key": "burst:cluster", "Values": ["one"]}]
        pages = tagging.get_paginator("get_resources").paginate(TagFilters=filters)
        return {each["ResourceARN"] for page in pages for each in page["ResourceTagMappingList"]}

    vpc = ec2.create_vpc(
        CidrBlock="10.9.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}]
    )["Vpc"]["VpcId"]
    logs.create_log_group(logGroupName="/one", tags={"burst:cluster": "one"})
    logs.create_log_group(logGroupName="/two", tags={"burst:cluster": "two"})
    topic = topics.create_topic(Name="one", Tags=tags)["TopicArn"]
    dynamodb.create_table(
        TableName="one",
        Tags=tags,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    place = "us-east-1:123456789012"
    assert found() == {
        f"arn:aws:ec2:{place}:vpc/{vpc}",
        f"arn:aws:logs:{place}:log-group:/one",
        f"arn:aws:dynamodb:{place}:table/one",
        topic,
    }
    ec2.delete_vpc(VpcId=vpc)
    logs.delete_log_group(logGroupName="/one")
    topics.delete_topic(TopicArn=topic)
    dynamodb.delete_table(TableName="one")
    assert found() == set()
    for each in (ec2, logs, dynamodb, topics, tagging):
        each.close()
