"""What was being made when a command was killed is made once in the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from burst.core.aws.names import bucket_name, table_name, tag_list, tags_of
from burst.core.clock import SystemClock
from burst.core.errors import Refused
from burst.infra.account.mending import mend_pending, tell_pending
from burst.infra.engine.stack import Engine
from tests.infra.account.conftest import ACCOUNT, REGION, Person

ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"


class Record:
    """What Pulumi has written down, as the engine gives it."""

    def __init__(self, pending: Mapping[str, Mapping[str, Any]], *known: str) -> None:
        """
        Args:
            pending: by type, the inputs of what was being made.
            known: ids that the record has.
        """
        operations = [
            {
                "type": "creating",
                "resource": {
                    "urn": f"urn:pulumi:lab::burst::burst:infra:Network${type}::it",
                    "type": type,
                    "inputs": dict(inputs),
                },
            }
            for type, inputs in pending.items()
        ]
        resources = [{"urn": f"urn:pulumi:lab::burst::x::{id}", "id": id} for id in known]
        self.record = {
            "version": 3,
            "deployment": {"resources": resources, "pending_operations": operations},
        }

    def export(self) -> Mapping[str, Any]:
        return self.record

    def restore(self, record: Mapping[str, Any]) -> None:
        self.record = dict(record)

    @property
    def pending(self) -> list[Any]:
        found: Any = self.record["deployment"]
        return list(found.get("pending_operations", []))


def mend(record: Record, person: Person) -> list[str]:
    told: list[str] = []
    mend_pending(cast(Engine, record), person.look(), SystemClock(), told.append)
    return told


def client(service: str) -> Any:
    from boto3.session import Session

    return Session().client(service, region_name=REGION)


def tagged(person: Person, what: str) -> dict[str, Any]:
    tags = tag_list(tags_of(person.cluster))
    return {"TagSpecifications": [{"ResourceType": what, "Tags": tags}]}


@pytest.fixture
def ec2(person: Person) -> Any:
    return client("ec2")


def vpc_of(ec2: Any, person: Person) -> str:
    made = ec2.create_vpc(CidrBlock="10.86.0.0/16", **tagged(person, "vpc"))
    return str(made["Vpc"]["VpcId"])


def test_what_the_record_knows_stays_and_what_was_never_used_goes(
    ec2: Any, person: Person
) -> None:
    known, orphan = vpc_of(ec2, person), vpc_of(ec2, person)
    record = Record({"aws:ec2/vpc:Vpc": {}}, known)
    tell_pending(cast(Engine, record), lambda words: None)
    assert len(record.pending) == 1
    told = mend(record, person)
    assert told == ["VPC it was being made when burst was killed", f"removed VPC {orphan}"]
    assert [each.id for each in person.things()] == [known]
    assert record.pending == []
    assert mend(record, person) == []


def test_kinds_that_were_not_being_made_are_not_looked_for(ec2: Any, person: Person) -> None:
    vpc = vpc_of(ec2, person)
    mend(Record({"aws:iam/role:Role": {}}), person)
    assert [each.id for each in person.things()] == [vpc]


def test_what_has_neither_tags_nor_a_name_goes_by_what_it_was_to_be(
    ec2: Any, person: Person
) -> None:
    vpc = vpc_of(ec2, person)
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.86.0.0/20")["Subnet"]["SubnetId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    record = Record({ASSOCIATION: {"routeTableId": table, "subnetId": subnet}})
    mend(record, person)
    found = ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]
    assert found["Associations"] == []
    assert record.pending == []


def test_a_rule_of_either_direction_is_found_by_its_tag(ec2: Any, person: Person) -> None:
    vpc = vpc_of(ec2, person)
    group = ec2.create_security_group(GroupName="x", Description="x", VpcId=vpc)["GroupId"]
    rule = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    tags = tagged(person, "security-group-rule")
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule], **tags)
    kind = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    told = mend(Record({kind: {}}, vpc), person)
    assert told[-1].startswith("removed security group rule sgr-")
    assert (
        ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"] == []
    )


@pytest.mark.parametrize("is_empty", [True, False])
def test_data_that_nobody_recorded_is_a_persons_to_judge(is_empty: bool, person: Person) -> None:
    s3, name = client("s3"), bucket_name(person.cluster, ACCOUNT, REGION)
    s3.create_bucket(Bucket=name)
    if not is_empty:
        s3.put_object(Bucket=name, Key="x", Body=b"x")
    record = Record({"aws:s3/bucket:Bucket": {}})
    if is_empty:
        assert mend(record, person)[-1] == f"removed bucket {name}"
        return
    with pytest.raises(Refused, match="holds data, and is not in the record") as raised:
        mend(record, person)
    assert name in raised.value.mend
    assert len(record.pending) == 1


def test_an_empty_table_is_made_anew(person: Person) -> None:
    dynamodb, name = client("dynamodb"), table_name(person.cluster)
    dynamodb.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=True,
        Tags=tag_list(tags_of(person.cluster)),
    )
    assert mend(Record({"aws:dynamodb/table:Table": {}}), person)[-1] == f"removed table {name}"
