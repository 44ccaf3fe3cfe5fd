"""The bucket and the table: made removable, emptied, removed. Only where a person has said so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from burst.core.aws.names import bucket_name, table_name
from burst.core.aws.telling import told
from burst.infra.account.sorts import Look, Sort, code_of, is_gone, pages

_AT_ONCE = 1000
"""Objects that S3 deletes with one request."""


def bucket_of(look: Look) -> str:
    """The name of the cluster's bucket, if it is there and the account's own; else empty."""
    name = bucket_name(look.cluster, look.account, look.region)
    with told(f"cannot look for bucket {name}"):
        try:
            look.client("s3").head_bucket(Bucket=name, ExpectedBucketOwner=look.account)
        except Exception as error:
            if is_gone(error):
                return ""
            raise
    return name


def table_of(look: Look) -> str:
    """The name of the cluster's table, if it is there; else empty."""
    name = table_name(look.cluster)
    return name if _table(look, name) is not None else ""


def empty_bucket(look: Look, tell: Callable[[int], None]) -> int:
    """Delete every version of every object, and what was uploaded in part; returns how many
    there were. Idempotent.

    Args:
        tell: how many have gone so far.
    """
    name = bucket_of(look)
    if not name:
        return 0
    s3, gone = look.client("s3"), 0
    with told(f"cannot empty bucket {name}"):
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            found = [*(page.get("Versions") or []), *(page.get("DeleteMarkers") or [])]
            gone += _delete(s3, name, found)
            tell(gone)
        for each in list(pages(s3, "list_multipart_uploads", "Uploads", Bucket=name)):
            s3.abort_multipart_upload(Bucket=name, Key=each["Key"], UploadId=each["UploadId"])
    return gone


def release_table(look: Look) -> None:
    """Take the table's protection against deletion away. Idempotent."""
    name = table_name(look.cluster)
    found = _table(look, name)
    if found is not None and found.get("DeletionProtectionEnabled"):
        dynamodb = look.client("dynamodb")
        with told(f"cannot take the protection of table {name} away"):
            dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
            dynamodb.get_waiter("table_exists").wait(
                TableName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 60}
            )


def is_empty(look: Look, type: str) -> bool:
    """Whether nothing would be lost with the bucket or the table that is there."""
    with told("cannot see whether there is data"):
        if "dynamodb" in type:
            answer = look.client("dynamodb").scan(TableName=table_name(look.cluster), Limit=1)
            return not answer.get("Items")
        found = look.client("s3").list_object_versions(Bucket=bucket_of(look), MaxKeys=1)
        return not found.get("Versions") and not found.get("DeleteMarkers")


def _table(look: Look, name: str) -> Any:
    with told(f"cannot look for table {name}"):
        try:
            return look.client("dynamodb").describe_table(TableName=name)["Table"]
        except Exception as error:
            if is_gone(error):
                return None
            raise


def _delete(s3: Any, bucket: str, found: list[Any]) -> int:
    named = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
    for first in range(0, len(named), _AT_ONCE):
        some = named[first : first + _AT_ONCE]
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True})
        for error in answer.get("Errors") or []:
            from botocore.exceptions import ClientError

            said = {"Code": error.get("Code", ""), "Message": error.get("Message", "")}
            raise ClientError({"Error": said}, "DeleteObjects")
    return len(named)


def _buckets(look: Look) -> Iterable[str]:
    """One without tags counts, too: a kill came between its making and its tags, and its name is
    nobody else's."""
    name = bucket_of(look)
    if not name:
        return []
    try:
        tags = look.client("s3").get_bucket_tagging(Bucket=name).get("TagSet")
    except Exception as error:
        if code_of(error) != "NoSuchTagSet":
            raise
        return [name]
    return [name] if look.owns(tags) else []


def _tables(look: Look) -> Iterable[str]:
    name = table_name(look.cluster)
    found = _table(look, name)
    if found is None or found.get("TableStatus") == "DELETING":
        return []
    tags = look.client("dynamodb").list_tags_of_resource(ResourceArn=found["TableArn"])
    return [name] if look.owns(tags.get("Tags")) else []


def _remove_bucket(look: Look, name: str) -> None:
    empty_bucket(look, lambda gone: None)
    look.client("s3").delete_bucket(Bucket=name)


def _remove_table(look: Look, name: str) -> None:
    release_table(look)
    look.client("dynamodb").delete_table(TableName=name)


DATA = (
    Sort(
        "bucket",
        "aws:s3/bucket:Bucket",
        _buckets,
        _remove_bucket,
        "aws s3api delete-bucket --bucket {id}",
    ),
    Sort(
        "table",
        "aws:dynamodb/table:Table",
        _tables,
        _remove_table,
        "aws dynamodb delete-table --table-name {id}",
    ),
)
