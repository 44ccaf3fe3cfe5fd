"""What is not the cluster's is not touched: whatever its name is, and whatever a listing shows."""

from __future__ import annotations

import os
from typing import Any

import pytest

from burst.cli.account.emptying import machines_of
from burst.core.aws.names import bucket_name, table_name, tag_list, tags_of
from burst.infra.account.of_data import empty_bucket, release_table
from burst.infra.account.of_runner import mappings_of, rules_of
from burst.infra.account.removing import find_things, sorts
from burst.infra.account.sorts import Look
from burst.infra.preflight.asking import Asking
from burst.runner.pools.aws.ec2 import Ec2
from burst.runner.pools.aws.leftovers import find_leftovers
from tests.infra.account.conftest import ACCOUNT, IMAGE, REGION, Person
from tests.infra.account.test_emptying import launch

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*has been deprecated in favor of:DeprecationWarning"
)
"""Pulumi's library for AWS warns of parts of its own."""

EVERYTHING = """
cluster: {cluster}
aws:
  region: us-east-1
  image: "{image}"
  nat: true
  email: [a@example.org]
  budget: {{usd: 100, email: [a@example.org]}}
pools:
  spot: {{kind: aws, instance_types: [c5.large], slots_per_node: 1, max_nodes: 2}}
"""
FOREIGN: dict[str, dict[str, str]] = {
    "no tags": {},
    "tags of its own": {"team": "x"},
    "another cluster's": tags_of("somebody-elses"),
}


def client(service: str) -> Any:
    from boto3.session import Session

    return Session().client(service, region_name=REGION)


class Deaf(Asking):
    """Of a server that lists everything, whatever it is asked for."""

    def client(self, service: str, region: str = "") -> Any:
        made = super().client(service, region)
        made.meta.events.register("before-parameter-build", _forget, unique_id="deaf")
        return made


def _forget(params: dict[str, Any], model: Any, **_: Any) -> None:
    if model.name.startswith(("Describe", "List")):
        for name in ("Filters", "Filter", "NamePrefix", "AlarmNamePrefix", "DashboardNamePrefix"):
            params.pop(name, None)
        params.pop("logGroupNamePrefix", None)
    if model.name == "ListEventSourceMappings":
        params.pop("FunctionName", None)


class Stranger(Look):
    """Who has the very names of a cluster that is another's by every tag."""

    def owns(self, tags: object) -> bool:
        return False


@pytest.mark.slow
def test_of_no_sort_anything_is_found_that_carries_anothers_tag(person: Person) -> None:
    person.file.write_text(EVERYTHING.format(cluster=person.cluster, image=IMAGE))
    person.types("up", "--yes")
    assert set(person.counts()) == {sort.kind for sort in sorts(data=True)}

    deaf = Look(person.cluster[:-1], ACCOUNT, REGION, Deaf(REGION, os.environ))
    assert find_things(deaf, data=True) == ([], [])
    assert (rules_of(deaf), mappings_of(deaf)) == ([], [])
    stranger = Stranger(person.cluster, ACCOUNT, REGION, Deaf(REGION, os.environ))
    found, unseen = find_things(stranger, data=True)
    assert ({each.kind for each in found}, unseen) == ({"dashboard"}, [])  # which has no tags
    assert (rules_of(stranger), mappings_of(stranger)) == ([], [])

    person.types("down", "--yes", "--delete-data")
    assert person.things() == []


def test_no_machine_or_leftover_of_another_is_seen_whatever_ec2_lists(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"{person.cluster}-b"
    launch(other, "spot")
    ec2 = client("ec2")
    tags = [{"ResourceType": "volume", "Tags": tag_list(tags_of(other))}]
    ec2.create_volume(AvailabilityZone=f"{REGION}a", Size=1, TagSpecifications=tags)
    pages, call = Ec2.pages, Ec2.call
    monkeypatch.setattr(Ec2, "pages", lambda self, op, **asked: pages(self, op))
    monkeypatch.setattr(
        Ec2,
        "call",
        lambda self, op, **asked: call(self, op, **{k: asked[k] for k in asked if k != "Filters"}),
    )
    assert len(machines_of(other, REGION)) == 1
    assert len(find_leftovers(Ec2(REGION), other, "", ())) == 1
    assert machines_of(person.cluster, REGION) == []
    assert find_leftovers(Ec2(REGION), person.cluster, "", ()) == []


def make_foreign(person: Person, tags: dict[str, str], *, filled: bool) -> tuple[str, str]:
    bucket, table = bucket_name(person.cluster, ACCOUNT, REGION), table_name(person.cluster)
    s3, dynamodb = client("s3"), client("dynamodb")
    s3.create_bucket(Bucket=bucket)
    dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=filled,
        Tags=tag_list(tags),
    )
    if tags:
        s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tag_list(tags)})
    if filled:
        s3.put_object(Bucket=bucket, Key="thesis", Body=b"years")
        dynamodb.put_item(TableName=table, Item={"pk": {"S": "a"}})
    return bucket, table


def assert_untouched(bucket: str, table: str) -> None:
    s3, dynamodb = client("s3"), client("dynamodb")
    assert s3.get_object(Bucket=bucket, Key="thesis")["Body"].read() == b"years"
    assert dynamodb.describe_table(TableName=table)["Table"]["DeletionProtectionEnabled"]
    assert dynamodb.get_item(TableName=table, Key={"pk": {"S": "a"}})["Item"]


@pytest.mark.parametrize("kind", list(FOREIGN))
def test_data_that_does_not_carry_the_clusters_tag_is_left_and_named(
    kind: str, person: Person
) -> None:
    bucket, table = make_foreign(person, FOREIGN[kind], filled=True)
    look = person.look()
    assert empty_bucket(look, lambda gone: None) == 0
    release_table(look)
    assert_untouched(bucket, table)

    *_, result = person.lines("down", "--yes", "--delete-data", status=5)
    assert_untouched(bucket, table)
    assert result["kept"] == []
    assert [each["id"] for each in result["left"]] == [bucket, table]
    says = "somebody-elses" if "another" in kind else f"no tag burst:cluster={person.cluster}"
    assert all(says in each["why"] for each in result["left"])

    *_, result = person.lines("down", "--yes", "--keep-data")
    assert (result["kept"], result["left"]) == ([], [])
    assert_untouched(bucket, table)


def test_what_a_kill_left_without_tags_is_removed_as_nothing_is_in_it(person: Person) -> None:
    make_foreign(person, {}, filled=False)
    *_, result = person.lines("down", "--yes", "--delete-data")
    assert (result["deleted"], result["left"], result["exit_code"]) == (2, [], 0)
    assert person.things() == []


def test_an_empty_bucket_with_tags_of_its_own_is_not_removed(person: Person) -> None:
    bucket, table = make_foreign(person, {"team": "x"}, filled=False)
    *_, result = person.lines("down", "--yes", "--delete-data", status=5)
    assert [each["id"] for each in result["left"]] == [bucket, table]
    assert client("s3").head_bucket(Bucket=bucket)
    assert client("dynamodb").describe_table(TableName=table)


@pytest.mark.slow
def test_recorded_data_that_lost_its_tag_is_not_deleted(person: Person) -> None:
    person.types("up", "--yes")
    bucket = bucket_name(person.cluster, ACCOUNT, REGION)
    s3 = client("s3")
    before = person.counts()
    tags = s3.get_bucket_tagging(Bucket=bucket)["TagSet"]
    s3.delete_bucket_tagging(Bucket=bucket)
    told = person.types("down", "--yes", "--delete-data", status=5).stderr
    assert "although the record has it; nothing was removed" in told
    assert "--keep-data" in told
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert person.counts() == before
    person.types("down", "--yes", "--delete-data")
    assert person.things() == []
