"""What the kinds of the double's AWS provider have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from tests.infra.double.cloud import code_of, is_gone
from tests.infra.double.kinds import Kind
from tests.infra.double.values import Props


def pairs(tags: Mapping[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    """Tags as AWS takes them."""
    return [{key: name, value: told} for name, told in tags.items()]


def upper(value: Any) -> Any:
    """Names of fields with a capital first letter, at any depth: `volumeSize` to `VolumeSize`."""
    if isinstance(value, dict):
        return {key[:1].upper() + key[1:]: upper(each) for key, each in value.items()}
    return [upper(each) for each in value] if isinstance(value, list) else value


def given(inputs: Mapping[str, Any], **names: str) -> Props:
    """Of `names` (AWS's for Pulumi's) those that have a value."""
    return {theirs: inputs[ours] for theirs, ours in names.items() if inputs.get(ours) is not None}


class Ec2Kind(Kind):
    """A thing of EC2's with tags."""

    tagged: ClassVar[str]
    """What EC2 calls it in tag specifications."""
    describe: ClassVar[str]
    """The client's method that tells of it, …"""
    listed: ClassVar[str]
    """… where the answer has them, …"""
    key: ClassVar[str]
    """… and what its id is called there; the argument for several is that and an `s`."""

    @property
    def ec2(self) -> Any:
        return self.cloud.client("ec2")

    def arn(self, resource: str) -> str:
        return self.cloud.arn("ec2", resource)

    def specifications(self, inputs: Props) -> Props:
        tags = self.cloud.tags(inputs)
        if not tags:
            return {}
        return {"TagSpecifications": [{"ResourceType": self.tagged, "Tags": pairs(tags)}]}

    def one(self, id: str) -> Props | None:
        """As EC2 describes it."""
        try:
            found = getattr(self.ec2, self.describe)(**{f"{self.key}s": [id]})[self.listed]
        except self.ec2.exceptions.ClientError as error:
            if is_gone(error):
                return None
            raise
        return dict(found[0]) if found else None

    def find(self, inputs: Props) -> str | None:
        tags = self.cloud.tags(inputs)
        if not tags:
            return None
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        found = getattr(self.ec2, self.describe)(Filters=filters)[self.listed]
        living = [each for each in found if each.get("State") not in ("deleted", "deleting")]
        matching = [each for each in living if self.matches(each, inputs)]
        return str(matching[0][self.key]) if matching else None

    def matches(self, found: Mapping[str, Any], inputs: Props) -> bool:
        """Whether one that has the tags is the one."""
        return True

    def update(self, id: str, old: Props, new: Props) -> None:
        before, after = self.cloud.tags(old), self.cloud.tags(new)
        if gone := [{"Key": key} for key in before if key not in after]:
            self.ec2.delete_tags(Resources=[id], Tags=gone)
        if fresh := {key: value for key, value in after.items() if before.get(key) != value}:
            self.ec2.create_tags(Resources=[id], Tags=pairs(fresh))
        self.settle(id, new)

    def with_tags(self, found: Mapping[str, Any]) -> Props:
        tags = {each["Key"]: each["Value"] for each in found.get("Tags") or []}
        own = {key: value for key, value in tags.items() if key not in self.cloud.default_tags}
        return {"tagsAll": tags, **({"tags": own} if own else {})}

    def ended(self, call: Any, **arguments: Any) -> None:
        """Call it; harmless if the thing is gone."""
        try:
            call(**arguments)
        except self.ec2.exceptions.ClientError as error:
            if not is_gone(error):
                raise


def quietly(call: Any, codes: Iterable[str] = (), **arguments: Any) -> Any:
    """Call it; None if the thing is gone, or AWS refuses with one of `codes`."""
    try:
        return call(**arguments)
    except Exception as error:
        if is_gone(error) or code_of(error) in tuple(codes):
            return None
        raise
