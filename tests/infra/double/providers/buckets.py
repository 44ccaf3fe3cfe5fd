"""Buckets of the double's AWS provider, and their settings."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tests.infra.double.cloud import ProviderError
from tests.infra.double.kinds import Kind, kind
from tests.infra.double.providers.base import pairs, quietly, upper
from tests.infra.double.values import Props

_UNSET = (
    "NoSuchBucketPolicy",
    "NoSuchLifecycleConfiguration",
    "NoSuchPublicAccessBlockConfiguration",
    "OwnershipControlsNotFoundError",
    "ServerSideEncryptionConfigurationNotFoundError",
    "NoSuchTagSet",
    "NoSuchTagSetError",
)


class S3Kind(Kind):
    @property
    def s3(self) -> Any:
        return self.cloud.client("s3")


@kind("aws:s3/bucket:Bucket")
class Bucket(S3Kind):
    what = "S3 Bucket"
    name = "bucket"
    later = frozenset({"forceDestroy"})
    longest = 63

    def create(self, inputs: Props) -> str:
        place = self.cloud.region
        where = (
            {}
            if place == "us-east-1"
            else {"CreateBucketConfiguration": {"LocationConstraint": place}}
        )
        if self.find(inputs):  # S3 itself says yes to one's own bucket; the real provider does not
            raise ProviderError(f"creating S3 Bucket ({inputs['bucket']}): BucketAlreadyExists")
        self.s3.create_bucket(Bucket=inputs["bucket"], **where)
        return str(inputs["bucket"])

    def settle(self, id: str, inputs: Props) -> None:
        if tags := self.cloud.tags(inputs):
            self.s3.put_bucket_tagging(Bucket=id, Tagging={"TagSet": pairs(tags)})
        else:
            quietly(self.s3.delete_bucket_tagging, Bucket=id)

    def read(self, id: str, known: Props) -> Props | None:
        if quietly(self.s3.head_bucket, Bucket=id) is None:
            return None
        told = quietly(self.s3.get_bucket_tagging, _UNSET, Bucket=id) or {"TagSet": []}
        tags = {each["Key"]: each["Value"] for each in told["TagSet"]}
        own = {key: value for key, value in tags.items() if key not in self.cloud.default_tags}
        return {
            "arn": f"arn:{self.cloud.partition}:s3:::{id}",
            "bucket": id,
            "bucketDomainName": f"{id}.s3.amazonaws.com",
            "bucketRegionalDomainName": f"{id}.s3.{self.cloud.region}.amazonaws.com",
            "bucketRegion": self.cloud.region,
            "region": self.cloud.region,
            "tagsAll": tags,
            **({"tags": own} if own else {}),
        }

    def find(self, inputs: Props) -> str | None:
        there = quietly(self.s3.head_bucket, Bucket=inputs["bucket"]) is not None
        return str(inputs["bucket"]) if there else None

    def delete(self, id: str, known: Props) -> None:
        if known.get("forceDestroy"):
            self._empty(id)
        quietly(self.s3.delete_bucket, Bucket=id)

    def _empty(self, id: str) -> None:
        while True:
            found = quietly(self.s3.list_object_versions, Bucket=id) or {}
            named = [*(found.get("Versions") or []), *(found.get("DeleteMarkers") or [])]
            if not named:
                return
            gone = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in named]
            self.s3.delete_objects(Bucket=id, Delete={"Objects": gone})


class _Setting(S3Kind):
    """One part of a bucket's settings; its id is the bucket's name."""

    replaces = frozenset({"bucket"})
    part: ClassVar[str]
    """In the names of the client's methods: `put_<part>`, `get_<part>`, `delete_<part>`."""

    def argument(self, inputs: Props) -> Props:
        """What `put` takes beside the bucket."""
        raise NotImplementedError

    def create(self, inputs: Props) -> str:
        self._put(inputs)
        return str(inputs["bucket"])

    def update(self, id: str, old: Props, new: Props) -> None:
        self._put(new)

    def _put(self, inputs: Props) -> None:
        getattr(self.s3, f"put_{self.part}")(Bucket=inputs["bucket"], **self.argument(inputs))

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(getattr(self.s3, f"get_{self.part}"), _UNSET, Bucket=known["bucket"])
        return None if found is None else {}

    def find(self, inputs: Props) -> str | None:
        return None if self.read("", inputs) is None else str(inputs["bucket"])

    def delete(self, id: str, known: Props) -> None:
        quietly(getattr(self.s3, f"delete_{self.part}"), _UNSET, Bucket=known["bucket"])


@kind("aws:s3/bucketVersioning:BucketVersioning")
class Versioning(_Setting):
    """Ends as the real provider ends it: versions are suspended."""

    what = "S3 Bucket Versioning"
    part = "bucket_versioning"

    def argument(self, inputs: Props) -> Props:
        return {"VersioningConfiguration": upper(inputs["versioningConfiguration"])}

    def delete(self, id: str, known: Props) -> None:
        status = (known.get("versioningConfiguration") or {}).get("status")
        if status == "Enabled":
            quietly(
                self.s3.put_bucket_versioning,
                Bucket=known["bucket"],
                VersioningConfiguration={"Status": "Suspended"},
            )


@kind("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")
class PublicAccessBlock(_Setting):
    what = "S3 Bucket Public Access Block"
    part = "public_access_block"

    def argument(self, inputs: Props) -> Props:
        names = (
            "blockPublicAcls",
            "blockPublicPolicy",
            "ignorePublicAcls",
            "restrictPublicBuckets",
        )
        blocked = {name[0].upper() + name[1:]: bool(inputs.get(name)) for name in names}
        return {"PublicAccessBlockConfiguration": blocked}


@kind("aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration")
class Encryption(_Setting):
    what = "S3 Bucket Server-side Encryption Configuration"
    part = "bucket_encryption"

    def argument(self, inputs: Props) -> Props:
        def rule(told: Props) -> Props:
            made = upper(told)
            by_default = made.get("ApplyServerSideEncryptionByDefault") or {}
            renamed = {"SseAlgorithm": "SSEAlgorithm", "KmsMasterKeyId": "KMSMasterKeyID"}
            made["ApplyServerSideEncryptionByDefault"] = {
                renamed[key]: value for key, value in by_default.items()
            }
            return dict(made)

        return {
            "ServerSideEncryptionConfiguration": {
                "Rules": [rule(each) for each in inputs["rules"]]
            }
        }


@kind("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration")
class Lifecycle(_Setting):
    what = "S3 Bucket Lifecycle Configuration"
    part = "bucket_lifecycle_configuration"

    def argument(self, inputs: Props) -> Props:
        def rule(told: Props) -> Props:
            made = upper(told)
            made["ID"] = made.pop("Id")
            made.setdefault("Filter", {"Prefix": ""})
            return dict(made)

        return {"LifecycleConfiguration": {"Rules": [rule(each) for each in inputs["rules"]]}}

    def delete(self, id: str, known: Props) -> None:
        quietly(self.s3.delete_bucket_lifecycle, _UNSET, Bucket=known["bucket"])


@kind("aws:s3/bucketOwnershipControls:BucketOwnershipControls")
class Ownership(_Setting):
    what = "S3 Bucket Ownership Controls"
    part = "bucket_ownership_controls"

    def argument(self, inputs: Props) -> Props:
        return {"OwnershipControls": {"Rules": [upper(inputs["rule"])]}}


@kind("aws:s3/bucketPolicy:BucketPolicy")
class Policy(_Setting):
    what = "S3 Bucket Policy"
    part = "bucket_policy"
    json = frozenset({"policy"})

    def argument(self, inputs: Props) -> Props:
        policy = inputs["policy"]
        return {"Policy": policy if isinstance(policy, str) else json.dumps(policy)}
