"""Objects in buckets, of the double's AWS provider."""

from __future__ import annotations

from tests.infra.double.kinds import kind
from tests.infra.double.providers.base import given, quietly
from tests.infra.double.providers.buckets import S3Kind
from tests.infra.double.values import Props, bytes_of


@kind("aws:s3/bucketObject:BucketObject")
@kind("aws:s3/bucketObjectv2:BucketObjectv2")
class BucketObject(S3Kind):
    """Its id is `bucket/key`, as the real provider's of this version."""

    what = "S3 Object"
    replaces = frozenset({"bucket", "key"})
    later = frozenset({"forceDestroy"})

    def create(self, inputs: Props) -> str:
        body = bytes_of(inputs["source"]) if inputs.get("source") else inputs.get("content", "")
        if tags := self.cloud.tags(inputs):
            from urllib.parse import urlencode

            tagging = {"Tagging": urlencode(tags)}
        else:
            tagging = {}
        self.s3.put_object(
            Bucket=inputs["bucket"],
            Key=inputs["key"],
            Body=body if isinstance(body, bytes) else str(body).encode(),
            **given(
                inputs, ContentType="contentType", CacheControl="cacheControl", Metadata="metadata"
            ),
            **tagging,
        )
        return f"{inputs['bucket']}/{inputs['key']}"

    def update(self, id: str, old: Props, new: Props) -> None:
        self.create(new)

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.s3.head_object, Bucket=known["bucket"], Key=known["key"])
        if found is None:
            return None
        return {
            "arn": f"arn:{self.cloud.partition}:s3:::{known['bucket']}/{known['key']}",
            "key": known["key"],
            "etag": found["ETag"].strip('"'),
            "versionId": found.get("VersionId", ""),
            "tagsAll": self.cloud.tags(known),
        }

    def find(self, inputs: Props) -> str | None:
        return None if self.read("", inputs) is None else f"{inputs['bucket']}/{inputs['key']}"

    def delete(self, id: str, known: Props) -> None:
        """All its versions, as the real provider's `forceDestroy` and its ordinary way do."""
        bucket, key = known["bucket"], known["key"]
        found = quietly(self.s3.list_object_versions, Bucket=bucket, Prefix=key)
        if found is None:
            return
        for each in [*(found.get("Versions") or []), *(found.get("DeleteMarkers") or [])]:
            if each["Key"] == key:
                self.s3.delete_object(Bucket=bucket, Key=key, VersionId=each["VersionId"])
