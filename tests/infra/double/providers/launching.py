"""Launch templates of the double's AWS provider."""

from __future__ import annotations

from typing import Any

from tests.infra.double.kinds import kind
from tests.infra.double.providers.base import Ec2Kind, pairs, upper
from tests.infra.double.values import Props

_OWN = (
    "name",
    "namePrefix",
    "description",
    "tags",
    "tagsAll",
    "updateDefaultVersion",
    "defaultVersion",
)
_RENAMED = {"vpcSecurityGroupIds": "SecurityGroupIds", "securityGroupNames": "SecurityGroups"}
_WORDS = {"true": True, "false": False}


@kind("aws:ec2/launchTemplate:LaunchTemplate")
class LaunchTemplate(Ec2Kind):
    """A change makes a new version of it, as in the real provider."""

    what = "EC2 Launch Template"
    tagged, describe = "launch-template", "describe_launch_templates"
    listed, key = "LaunchTemplates", "LaunchTemplateId"
    name = "name"
    longest = 128

    def create(self, inputs: Props) -> str:
        made = self.ec2.create_launch_template(
            LaunchTemplateName=inputs["name"],
            LaunchTemplateData=launch_data(inputs),
            **({"VersionDescription": inputs["description"]} if inputs.get("description") else {}),
            **self.specifications(inputs),
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def update(self, id: str, old: Props, new: Props) -> None:
        before, after = launch_data(old), launch_data(new)
        if before != after:
            made = self.ec2.create_launch_template_version(
                LaunchTemplateId=id,
                LaunchTemplateData=after,
                **({"VersionDescription": new["description"]} if new.get("description") else {}),
            )
            version = str(made["LaunchTemplateVersion"]["VersionNumber"])
            if new.get("updateDefaultVersion"):
                self.ec2.modify_launch_template(LaunchTemplateId=id, DefaultVersion=version)
        super().update(id, old, new)

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None:
            return None
        return {
            "arn": self.arn(f"launch-template/{id}"),
            "name": found["LaunchTemplateName"],
            "latestVersion": found["LatestVersionNumber"],
            "defaultVersion": found["DefaultVersionNumber"],
            **self.with_tags({"Tags": self._tags(id)}),
        }

    def _tags(self, id: str) -> list[Any]:
        """The model's templates tell those that they were made with, whatever they have now."""
        asked = [{"Name": "resource-id", "Values": [id]}]
        return list(self.ec2.describe_tags(Filters=asked)["Tags"])

    def find(self, inputs: Props) -> str | None:
        asked = [{"Name": "launch-template-name", "Values": [inputs["name"]]}]
        found = self.ec2.describe_launch_templates(Filters=asked)["LaunchTemplates"]
        return str(found[0]["LaunchTemplateId"]) if found else None

    def delete(self, id: str, known: Props) -> None:
        self.ended(self.ec2.delete_launch_template, LaunchTemplateId=id)


def launch_data(inputs: Props) -> Props:
    """`LaunchTemplateData`, from the properties of the resource."""
    given = {
        key: value for key, value in inputs.items() if key not in _OWN and not key.startswith("__")
    }
    data = {
        _RENAMED.get(key, key[0].upper() + key[1:]): upper(value) for key, value in given.items()
    }
    if "TagSpecifications" in data:
        data["TagSpecifications"] = [
            {"ResourceType": each["resourceType"], "Tags": pairs(each["tags"])}
            for each in given["tagSpecifications"]
        ]
    data.pop("Region", None)
    disks = data.get("BlockDeviceMappings") or []
    cards = data.get("NetworkInterfaces") or []
    for each in [*cards, *(disk["Ebs"] for disk in disks if "Ebs" in disk)]:
        each.update({key: _said(value) for key, value in each.items()})
    for card in cards:
        if "SecurityGroups" in card:
            card["Groups"] = card.pop("SecurityGroups")
    return data


def _said(value: Any) -> Any:
    """The provider takes some truths as words."""
    return _WORDS.get(value, value) if isinstance(value, str) else value
