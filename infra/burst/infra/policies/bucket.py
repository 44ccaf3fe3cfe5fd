"""What holds for everybody at the bucket, whatever else they may do."""

from __future__ import annotations

from typing import Any

from burst.infra.policies.documents import Statement, document
from burst.infra.policies.place import bucket_arn


def bucket_policy(partition: str, bucket: str) -> dict[str, Any]:
    """Nobody reads or writes it without TLS. It lets nobody in: who may use the bucket is a matter
    of their own policies, in its own account alone.

    That objects are encrypted needs no statement: S3 encrypts every one, since the bucket says so,
    and a statement that asks for the header would refuse writers that leave it out.
    """
    arn = bucket_arn(partition, bucket)
    return document(
        [
            Statement(
                "OnlyWithTls",
                actions=("s3:*",),
                resources=(arn, f"{arn}/*"),
                conditions={"Bool": {"aws:SecureTransport": "false"}},
                principal="*",
                effect="Deny",
            ),
            Statement(
                "OnlyWithNewTls",
                actions=("s3:*",),
                resources=(arn, f"{arn}/*"),
                conditions={"NumericLessThan": {"s3:TlsVersion": "1.2"}},
                principal="*",
                effect="Deny",
            ),
        ]
    )
