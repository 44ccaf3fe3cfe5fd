"""The bucket and the table: made removable, emptied, removed. Only where a person has said so, and
only what carries the cluster's tag.

What has the name and no tag at all is what a kill leaves between its making and its tags, or
somebody else's: it is removed if it is empty, and else left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from burst.core.aws.answers import code_in
from burst.core.aws.names import CLUSTER, bucket_name, table_name, untag
from burst.core.aws.telling import told
from burst.core.errors import Refused
from burst.infra.account.sorts import Look, Sort, Thing, is_gone, pages

_AT_ONCE = 1000
"""Objects that S3 deletes with one request."""


def bucket_of(look: Look) -> str:
    """The name of the cluster's bucket, if it is there and carries its tag; else empty."""
    name = _bucket_name(look)
    with told(f"cannot look for bucket {name}"):
        tags = _bucket_tags(look)
    return name if tags is not None and look.owns(tags) else ""


def table_of(look: Look) -> str:
    """The name of the cluster's table, if it is there and carries its tag; else empty."""
    name = table_name(look.cluster)
    with told(f"cannot look for table {name}"):
        tags = _table_tags(look)
    return name if tags is not None and look.owns(tags) else ""


def data_there(look: Look) -> set[str]:
    """Which of `bucket` and `table` has the cluster's name and is there, whosever it is.

    Raises:
        BurstError: AWS does not tell.
    """
    with told("cannot tell whether the data is there"):
        found = {"bucket": _bucket_tags(look), "table": _table_tags(look)}
    return {kind for kind, tags in found.items() if tags is not None}


def not_ours(look: Look) -> list[tuple[Thing, Refused]]:
    """Bucket and table that have the cluster's names and are not its own, and why they are left.

    Raises:
        BurstError: AWS does not tell.
    """
    found = []
    for sort, name, tags_of in (
        (_BUCKET, _bucket_name(look), _bucket_tags),
        (_TABLE, table_name(look.cluster), _table_tags),
    ):
        with told(f"cannot tell whose {sort.kind} {name} is"):
            tags = tags_of(look)
            if tags is None or look.owns(tags) or (not tags and is_empty(look, sort.type)):
                continue
        thing = Thing(sort.kind, sort.type, name, sort.by_hand.format(id=name))
        found.append((thing, _is_not_ours(look, sort.kind, name, tags)))
    return found


def empty_bucket(look: Look, tell: Callable[[int], None]) -> int:
    """Delete every version of every object, and what was uploaded in part; returns how many
    there were: none where the bucket is not the cluster's. Idempotent.

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
    """Take the protection against deletion away from the cluster's table; no other's is touched.
    Idempotent."""
    name = table_of(look)
    if not name:
        return
    dynamodb = look.client("dynamodb")
    with told(f"cannot take the protection of table {name} away"):
        found = _table(look)
        if found is None or not found.get("DeletionProtectionEnabled"):
            return
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
        dynamodb.get_waiter("table_exists").wait(
            TableName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 60}
        )


def is_empty(look: Look, type: str) -> bool:
    """Whether nothing would be lost with the bucket or the table of the name that is there."""
    with told("cannot see whether there is data"):
        if "dynamodb" in type:
            answer = look.client("dynamodb").scan(TableName=table_name(look.cluster), Limit=1)
            return not answer.get("Items")
        s3, name = look.client("s3"), _bucket_name(look)
        found = s3.list_object_versions(Bucket=name, MaxKeys=1)
        return not found.get("Versions") and not found.get("DeleteMarkers")


def _bucket_name(look: Look) -> str:
    return bucket_name(look.cluster, look.account, look.region)


def _bucket_tags(look: Look) -> Mapping[str, str] | None:
    """None where the account has no bucket of the name. Raises what boto3 raises."""
    s3, name = look.client("s3"), _bucket_name(look)
    try:
        s3.head_bucket(Bucket=name, ExpectedBucketOwner=look.account)
        return untag(s3.get_bucket_tagging(Bucket=name).get("TagSet"))
    except Exception as error:
        if code_in(error) == "NoSuchTagSet":
            return {}
        if is_gone(error):
            return None
        raise


def _table_tags(look: Look) -> Mapping[str, str] | None:
    """None where there is no table of the name. Raises what boto3 raises."""
    found = _table(look)
    if found is None or found.get("TableStatus") == "DELETING":
        return None
    client = look.client("dynamodb")
    asked = {"ResourceArn": found["TableArn"]}
    return untag(list(pages(client, "list_tags_of_resource", "Tags", **asked)))


def _is_not_ours(look: Look, kind: str, name: str, tags: Mapping[str, str]) -> Refused:
    owner = tags.get(CLUSTER)
    if owner:
        why = f"it belongs to cluster {owner}: nothing of it was touched"
    else:
        why = f"it carries no tag {CLUSTER}={look.cluster}, and is not empty: nothing of it was "
        why += "touched"
    return Refused(f"{kind} {name} is not the cluster's", why=why)


def _table(look: Look) -> Any:
    try:
        return look.client("dynamodb").describe_table(TableName=table_name(look.cluster))["Table"]
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


def _is_removable(look: Look, type: str, tags: Mapping[str, str] | None) -> bool:
    return tags is not None and (look.owns(tags) or (not tags and is_empty(look, type)))


def _buckets(look: Look) -> Iterable[str]:
    found = _is_removable(look, _BUCKET.type, _bucket_tags(look))
    return [_bucket_name(look)] if found else []


def _tables(look: Look) -> Iterable[str]:
    found = _is_removable(look, _TABLE.type, _table_tags(look))
    return [table_name(look.cluster)] if found else []


def _remove_bucket(look: Look, name: str) -> None:
    empty_bucket(look, lambda gone: None)
    look.client("s3").delete_bucket(Bucket=name)  # which S3 refuses while anything is in it


def _remove_table(look: Look, name: str) -> None:
    """Whose it is, is looked at once more: nothing else keeps a table with records in it."""
    release_table(look)
    if name in _tables(look):
        look.client("dynamodb").delete_table(TableName=name)


_BUCKET = Sort(
    "bucket",
    "aws:s3/bucket:Bucket",
    _buckets,
    _remove_bucket,
    "aws s3api delete-bucket --bucket {id}",
)
_TABLE = Sort(
    "table",
    "aws:dynamodb/table:Table",
    _tables,
    _remove_table,
    "aws dynamodb delete-table --table-name {id}",
)
DATA = (_BUCKET, _TABLE)
