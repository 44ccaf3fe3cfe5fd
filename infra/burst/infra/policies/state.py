"""The records and the bytes: what it takes to read them, and to write them."""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.aws.templates import CLUSTER_FILE
from burst.infra.policies.documents import Statement
from burst.infra.policies.place import Place

CHECKPOINTS, CODE, LOGS = "checkpoints", "code", "logs"
"""Below these everything is that trials read and write."""
DATA = "data"
"""Below this tables lie that trials have made of their data, and rows that they have put aside."""
PROBES, DOCTOR = "probes", "doctor"
"""Below these nodes and people try whether they can write, and leave nothing."""
CLUSTER = CLUSTER_FILE.removeprefix("blobs:").partition("/")[0]
"""Below this lies what nodes and the function run: only `burst up` writes there."""


def read_records(place: Place) -> Statement:
    """A list is a query of an index and a batch of what it names."""
    return Statement(
        "ReadRecords",
        actions=("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"),
        resources=(place.table, f"{place.table}/index/*"),
    )


def write_records(place: Place, *more: str) -> Statement:
    """Every write is a transaction, which IAM knows by its parts alone.

    Args:
        more: further parts, beside those that add records and change them.
    """
    return Statement(
        "WriteRecords",
        actions=("dynamodb:PutItem", "dynamodb:UpdateItem", *more),
        resources=(place.table,),
    )


def read_blobs(place: Place) -> list[Statement]:
    """All of the bucket: what runs, what was trained, and what was said.

    Listing has no condition on the prefix, since S3 says that an object is not there only to
    those who may list the bucket, and to others that they may not read it.
    """
    return [
        Statement("ReadBlobs", actions=("s3:GetObject",), resources=(f"{place.bucket}/*",)),
        Statement("ListBlobs", actions=("s3:ListBucket",), resources=(place.bucket,)),
    ]


def write_blobs(place: Place, *below: str) -> Statement:
    """Put and delete below these prefixes. A large object is sent in parts, and given up whole."""
    return Statement(
        "WriteBlobs",
        actions=("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
        resources=_objects(place, below),
    )


def tidy_blobs(place: Place) -> list[Statement]:
    """Delete checkpoints that nothing keeps any more, and uploads that no writer will finish."""
    return [
        Statement(
            "DeleteCheckpoints",
            actions=("s3:DeleteObject",),
            resources=_objects(place, (CHECKPOINTS,)),
        ),
        find_uploads(place),
        Statement(
            "DiscardUploads",
            actions=("s3:AbortMultipartUpload",),
            resources=(f"{place.bucket}/*",),
        ),
    ]


def find_uploads(place: Place) -> Statement:
    return Statement(
        "FindUploads", actions=("s3:ListBucketMultipartUploads",), resources=(place.bucket,)
    )


def _objects(place: Place, below: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{place.bucket}/{prefix}/*" for prefix in below)
