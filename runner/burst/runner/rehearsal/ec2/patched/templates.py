"""Launch templates."""

from __future__ import annotations

from typing import Any

from moto.ec2.responses.launch_templates import LaunchTemplates
from moto.ec2.utils import parse_user_data

from burst.runner.rehearsal.ec2.patched.base import Operations
from burst.runner.rehearsal.ec2.patched.errors import Problem

_PAGE = 200


class Templates(Operations, LaunchTemplates):
    def create_launch_template(self) -> Any:
        """moto writes the template's own tags into its data too."""
        answer = super().create_launch_template()
        name = self._get_param("LaunchTemplateName")
        data = self.ec2_backend.get_launch_template_by_name(name).versions[0].data
        given = data.pop("TagSpecifications", [])
        kept = [each for each in given if each["ResourceType"] != "launch-template"]
        if kept:
            data["TagSpecifications"] = kept
        return answer

    def create_launch_template_version(self) -> Any:
        """With what the source version has and this one does not say; moto forgets the source."""
        source = self._get_param("SourceVersion")
        data = dict(self._get_param("LaunchTemplateData", {}))
        if data.get("UserData"):
            data["UserData"] = parse_user_data(data["UserData"])
        if source:
            named = {
                name: self._get_param(name)
                for name in ("LaunchTemplateId", "LaunchTemplateName")
                if self._get_param(name)
            }
            before, _ = self.template_data({**named, "Version": source})
            before.pop("_tags")
            data = {**before, **data}
        self.params["LaunchTemplateData"] = data
        return super().create_launch_template_version()

    def describe_launch_templates(self) -> Any:
        """moto shows 15 and says nothing of more; EC2 shows 200, and refuses an id that is not
        there."""
        self.params.setdefault("MaxResults", _PAGE)
        for id in self._get_param("LaunchTemplateIds", []):
            self._require(id)
        return super().describe_launch_templates()

    def delete_launch_template(self) -> Any:
        """moto has the code of a name that is not there for an id, too."""
        id = self._get_param("LaunchTemplateId")
        if id:
            self._require(id)
        return super().delete_launch_template()

    def _require(self, id: str) -> None:
        if id not in self.ec2_backend.launch_templates:
            message = f"The specified launch template, with template ID {id}, does not exist."
            raise Problem("InvalidLaunchTemplateId.NotFound", message)

    def describe_launch_template_versions(self) -> Any:
        self.params.setdefault("MaxResults", _PAGE)
        return super().describe_launch_template_versions()
