"""DynamoDB tables of the double's AWS provider."""

from __future__ import annotations

from typing import Any

from tests.infra.double.cloud import code_of, until
from tests.infra.double.kinds import Kind, kind
from tests.infra.double.providers.base import given, pairs, quietly, upper
from tests.infra.double.values import Props


@kind("aws:dynamodb/table:Table")
class Table(Kind):
    """Pays by request; other billing is refused, and so is a change of its indexes."""

    what = "AWS DynamoDB Table"
    replaces = frozenset({"hashKey", "rangeKey", "localSecondaryIndexes"})
    name = "name"

    @property
    def db(self) -> Any:
        return self.cloud.client("dynamodb")

    def create(self, inputs: Props) -> str:
        if inputs.get("billingMode") != "PAY_PER_REQUEST":
            raise ValueError("the double makes tables that pay by request alone")
        asked: Props = {
            "TableName": inputs["name"],
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": _keys(inputs),
            "AttributeDefinitions": [
                {"AttributeName": each["name"], "AttributeType": each["type"]}
                for each in inputs.get("attributes") or []
            ],
            "DeletionProtectionEnabled": bool(inputs.get("deletionProtectionEnabled")),
        }
        if indexes := inputs.get("globalSecondaryIndexes"):
            asked["GlobalSecondaryIndexes"] = [_index(each) for each in indexes]
        if inputs.get("streamEnabled"):
            asked["StreamSpecification"] = _stream(inputs)
        if tags := self.cloud.tags(inputs):
            asked["Tags"] = pairs(tags)
        if (inputs.get("serverSideEncryption") or {}).get("enabled"):
            asked["SSESpecification"] = {"Enabled": True}
        self.db.create_table(**asked)
        id = str(inputs["name"])
        until(lambda: (self._one(id) or {}).get("TableStatus") == "ACTIVE", f"table {id}")
        return id

    def settle(self, id: str, inputs: Props) -> None:
        wanted = inputs.get("ttl") or {}
        told = self.db.describe_time_to_live(TableName=id)["TimeToLiveDescription"]
        enabled = told.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
        if bool(wanted.get("enabled")) != enabled:
            name = wanted.get("attributeName") or told.get("AttributeName")
            spec = {"Enabled": not enabled, "AttributeName": name}
            self.db.update_time_to_live(TableName=id, TimeToLiveSpecification=spec)
        recovery = bool((inputs.get("pointInTimeRecovery") or {}).get("enabled"))
        if recovery or "pointInTimeRecovery" in inputs:
            spec = {"PointInTimeRecoveryEnabled": recovery}
            self.db.update_continuous_backups(TableName=id, PointInTimeRecoverySpecification=spec)

    def update(self, id: str, old: Props, new: Props) -> None:
        for fixed in ("globalSecondaryIndexes", "attributes", "billingMode"):
            if old.get(fixed) != new.get(fixed):
                raise ValueError(f"the double does not change {fixed} of a table")
        protected = bool(new.get("deletionProtectionEnabled"))
        if protected != bool(old.get("deletionProtectionEnabled")):
            self.db.update_table(TableName=id, DeletionProtectionEnabled=protected)
        if bool(new.get("streamEnabled")) != bool(old.get("streamEnabled")):
            self.db.update_table(TableName=id, StreamSpecification=_stream(new))
        before, after = self.cloud.tags(old), self.cloud.tags(new)
        if before != after:
            arn = (self._one(id) or {})["TableArn"]
            if gone := [key for key in before if key not in after]:
                self.db.untag_resource(ResourceArn=arn, TagKeys=gone)
            self.db.tag_resource(ResourceArn=arn, Tags=pairs(after))
        self.settle(id, new)

    def _one(self, id: str) -> Props | None:
        found = quietly(self.db.describe_table, TableName=id)
        return dict(found["Table"]) if found else None

    def read(self, id: str, known: Props) -> Props | None:
        found = self._one(id)
        if found is None:
            return None
        return {
            "arn": found["TableArn"],
            "name": id,
            "streamArn": found.get("LatestStreamArn", ""),
            "streamLabel": found.get("LatestStreamLabel", ""),
            "deletionProtectionEnabled": bool(found.get("DeletionProtectionEnabled")),
            "tagsAll": self.cloud.tags(known),
        }

    def find(self, inputs: Props) -> str | None:
        return str(inputs["name"]) if self._one(inputs["name"]) else None

    def delete(self, id: str, known: Props) -> None:
        try:
            self.db.delete_table(TableName=id)
        except self.db.exceptions.ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise
        until(lambda: self._one(id) is None, f"table {id}")


def _keys(told: Props) -> list[Props]:
    if told.get("keySchemas"):
        return [upper(each) for each in told["keySchemas"]]
    keys = [{"AttributeName": told["hashKey"], "KeyType": "HASH"}]
    if told.get("rangeKey"):
        keys.append({"AttributeName": told["rangeKey"], "KeyType": "RANGE"})
    return keys


def _index(told: Props) -> Props:
    projection = given(told, ProjectionType="projectionType", NonKeyAttributes="nonKeyAttributes")
    return {"IndexName": told["name"], "KeySchema": _keys(told), "Projection": projection}


def _stream(inputs: Props) -> Props:
    if not inputs.get("streamEnabled"):
        return {"StreamEnabled": False}
    return {"StreamEnabled": True, "StreamViewType": inputs["streamViewType"]}
