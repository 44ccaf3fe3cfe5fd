"""`burst up` over what was lost, and over what runs: nothing is made green by making it anew."""

from __future__ import annotations

from typing import Any

import pytest

from burst.cli.account.emptying import end_machines
from burst.core.aws.names import bucket_name, table_name
from burst.core.clock import SystemClock
from tests.infra.account.conftest import ACCOUNT, REGION, Person
from tests.infra.account.test_emptying import launch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*has been deprecated in favor of:DeprecationWarning"),
]
"""Pulumi's library for AWS warns of parts of its own."""


def client(service: str) -> Any:
    from boto3.session import Session

    return Session().client(service, region_name=REGION)


def test_what_runs_is_not_uprooted(person: Person) -> None:
    person.types("up", "--yes")
    before, text = person.counts(), person.file.read_text()
    id = launch(person.cluster, "spot")
    for changed in (
        text.replace("  spot: {", "  cheap: {"),
        text.replace("aws: {", "aws: {cidr: 10.77.0.0/16, "),
    ):
        person.file.write_text(changed)
        told = person.types("up", "--yes", status=5).stderr
        assert id in told
        assert "nothing was changed" in told
        assert "burst down --keep-data" in told
        assert person.counts() == before
    end_machines(person.cluster, REGION, SystemClock(), lambda words: None)
    person.file.write_text(text.replace("  spot: {", "  cheap: {"))
    *_, result = person.lines("up", "--yes")
    assert result["pools"] == ["cheap"]


def test_lost_data_is_not_made_anew_unasked(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.types("up", "--yes")
    before = person.counts()
    table, dynamodb = table_name(person.cluster), client("dynamodb")
    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=table)
    for flag in ("--yes", "--preview"):
        told = person.types("up", flag, status=5).stderr
        assert f"table {table} is gone" in told
        assert "restore-table-from-backup" in told
        assert "`burst up --refresh`" in told
    monkeypatch.setattr("burst.cli.account.asking.can_ask", lambda: True)
    assert "every record" in person.types("up", status=5, answers="n\n").stderr
    bucket, s3 = bucket_name(person.cluster, ACCOUNT, REGION), client("s3")
    for each in s3.list_object_versions(Bucket=bucket).get("Versions", []):
        s3.delete_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
    for each in s3.list_object_versions(Bucket=bucket).get("DeleteMarkers", []):
        s3.delete_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
    s3.delete_bucket(Bucket=bucket)
    told = person.types("up", "--yes", status=5).stderr
    assert f"bucket {bucket} and table {table} are gone" in told
    told = person.types("up", "--yes", "--refresh").stderr
    assert "made anew, and empty" in told
    assert person.counts() == before
