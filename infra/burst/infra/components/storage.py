"""What has to last: the bucket with the bytes and the table with the records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
from pulumi_aws import dynamodb, s3

from burst.core.aws.templates import CLUSTER_FILE
from burst.core.store.dynamodb.items import EXPIRES, table_schema
from burst.infra.policies.bucket import bucket_policy

_STALE_UPLOAD_DAYS = 2
_OLD_VERSION_DAYS = 7


@dataclass(frozen=True)
class StorageArgs:
    bucket: str
    table: str
    partition: str
    cluster_file: str
    node_bundle: Path
    node_bundle_key: str
    tags: Mapping[str, str]


class Storage(pulumi.ComponentResource):
    """A private bucket and a table, both with a way back from mistakes."""

    bucket_arn: pulumi.Output[str]
    table_arn: pulumi.Output[str]
    stream_arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("burst:infra:Storage", name, None, opts)
        self._args = args
        self._own = pulumi.ResourceOptions(parent=self)
        table = self._table()
        self.table_arn, self.stream_arn = table.arn, table.stream_arn
        bucket = self._bucket()
        self.bucket_arn = bucket.arn
        self._published(bucket)
        self.register_outputs({"bucket": args.bucket, "table": args.table})

    def _table(self) -> dynamodb.Table:
        schema = table_schema(self._args.table)
        keys = _keys(schema["KeySchema"])
        return dynamodb.Table(
            "table",
            name=self._args.table,
            billing_mode=schema["BillingMode"],
            hash_key=keys["HASH"],
            range_key=keys["RANGE"],
            attributes=[
                dynamodb.TableAttributeArgs(name=each["AttributeName"], type=each["AttributeType"])
                for each in schema["AttributeDefinitions"]
            ],
            global_secondary_indexes=[_index(each) for each in schema["GlobalSecondaryIndexes"]],
            stream_enabled=True,
            stream_view_type="KEYS_ONLY",
            ttl=dynamodb.TableTtlArgs(attribute_name=EXPIRES, enabled=True),
            point_in_time_recovery=dynamodb.TablePointInTimeRecoveryArgs(enabled=True),
            server_side_encryption=dynamodb.TableServerSideEncryptionArgs(enabled=True),
            deletion_protection_enabled=True,
            tags=self._args.tags,
            opts=self._own,
        )

    def _bucket(self) -> s3.Bucket:
        bucket = s3.Bucket(
            "bucket", bucket=self._args.bucket, tags=self._args.tags, opts=self._own
        )
        s3.BucketPublicAccessBlock(
            "private",
            bucket=bucket.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self._own,
        )
        s3.BucketOwnershipControls(
            "owner",
            bucket=bucket.bucket,
            rule=s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=self._own,
        )
        s3.BucketServerSideEncryptionConfiguration(
            "encrypted",
            bucket=bucket.bucket,
            rules=[
                s3.BucketServerSideEncryptionConfigurationRuleArgs(
                    apply_server_side_encryption_by_default=s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
                        sse_algorithm="AES256"
                    )
                )
            ],
            opts=self._own,
        )
        versioning = s3.BucketVersioning(
            "versions",
            bucket=bucket.bucket,
            versioning_configuration=s3.BucketVersioningVersioningConfigurationArgs(
                status="Enabled"
            ),
            opts=self._own,
        )
        self._lifecycle(bucket, versioning)
        s3.BucketPolicy(
            "policy",
            bucket=bucket.bucket,
            policy=json.dumps(bucket_policy(self._args.partition, self._args.bucket)),
            opts=self._own,
        )
        return bucket

    def _lifecycle(self, bucket: s3.Bucket, versioning: s3.BucketVersioning) -> None:
        s3.BucketLifecycleConfiguration(
            "lifecycle",
            bucket=bucket.bucket,
            rules=[
                s3.BucketLifecycleConfigurationRuleArgs(
                    id="stale-uploads",
                    status="Enabled",
                    filter=s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                    abort_incomplete_multipart_upload=s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                        days_after_initiation=_STALE_UPLOAD_DAYS
                    ),
                ),
                s3.BucketLifecycleConfigurationRuleArgs(
                    id="old-versions",
                    status="Enabled",
                    filter=s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                    noncurrent_version_expiration=s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
                        noncurrent_days=_OLD_VERSION_DAYS
                    ),
                    expiration=s3.BucketLifecycleConfigurationRuleExpirationArgs(
                        expired_object_delete_marker=True
                    ),
                ),
            ],
            # S3 takes a rule about old versions before there are any, but not the other way round.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[versioning]),
        )

    def _published(self, bucket: s3.Bucket) -> None:
        """What nodes and the runner read: the cluster file, and burst itself."""
        s3.BucketObjectv2(
            "cluster-file",
            bucket=bucket.bucket,
            key=CLUSTER_FILE.removeprefix("blobs:"),
            content=self._args.cluster_file,
            content_type="application/yaml",
            tags=self._args.tags,
            opts=self._own,
        )
        s3.BucketObjectv2(
            "node-bundle",
            bucket=bucket.bucket,
            key=self._args.node_bundle_key,
            source=pulumi.FileAsset(str(self._args.node_bundle)),
            content_type="application/zip",
            tags=self._args.tags,
            # Nodes that boot meanwhile have the earlier launch template, which names the earlier
            # bundle: it goes only after the new one is there.
            opts=self._own,
        )


def _index(schema: Mapping[str, Any]) -> dynamodb.TableGlobalSecondaryIndexArgs:
    projection = schema["Projection"]
    return dynamodb.TableGlobalSecondaryIndexArgs(
        name=schema["IndexName"],
        key_schemas=[
            dynamodb.TableGlobalSecondaryIndexKeySchemaArgs(
                attribute_name=each["AttributeName"], key_type=each["KeyType"]
            )
            for each in schema["KeySchema"]
        ],
        projection_type=projection["ProjectionType"],
        non_key_attributes=projection.get("NonKeyAttributes"),
    )


def _keys(schema: list[dict[str, str]]) -> dict[str, str]:
    return {each["KeyType"]: each["AttributeName"] for each in schema}
