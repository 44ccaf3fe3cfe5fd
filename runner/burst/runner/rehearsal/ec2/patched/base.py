"""What every patched operation has at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from moto.core.responses import ActionResult
from moto.ec2.responses._base_response import EC2BaseResponse

from burst.runner.rehearsal.ec2.cloud import Cloud
from burst.runner.rehearsal.ec2.faults import status_of
from burst.runner.rehearsal.ec2.machine import Machine
from burst.runner.rehearsal.ec2.patched.errors import Problem, token_mismatch, unsupported
from burst.runner.rehearsal.ec2.spec import Data
from burst.runner.rehearsal.ec2.tokens import Mismatch


class Operations(EC2BaseResponse):
    """One call; moto makes an object of it."""

    cloud: ClassVar[Cloud]

    def serialized(self, action_result: Any) -> Any:
        """moto's errors all have status 400; of EC2's some are the server's fault, and clients
        may try those again by themselves."""
        status, headers, body = super().serialized(action_result)
        if isinstance(action_result.result, Problem):
            status = status_of(action_result.result.code)
        return status, headers, body

    def call_action(self) -> Any:
        """moto answers a page of HTML where it lacks an operation."""
        try:
            return super().call_action()
        except NotImplementedError as error:
            return self.serialized(ActionResult(unsupported(str(error))))

    def idempotent(self, operation: str, answer: Callable[[], Any]) -> Any:
        """What was answered to the call's client token before, or what `answer` gives now.

        moto takes every call as a new one.
        """
        parameters = {key: value for key, value in self.normalized_request.form.items()}
        try:
            known = self.cloud.tokens.find(operation, parameters)
        except Mismatch as error:
            raise token_mismatch() from error
        if known is None:
            known = answer()
            self.cloud.tokens.keep(operation, parameters, known)
        return known

    def template_data(self, named: Data) -> tuple[dict[str, Any], Data]:
        """The data of the launch template that a request names, and its name decided."""
        if named.get("LaunchTemplateId"):
            template = self.ec2_backend.get_launch_template(named["LaunchTemplateId"])
        else:
            template = self.ec2_backend.get_launch_template_by_name(named["LaunchTemplateName"])
        version = template.get_version(named.get("Version") or template.default_version_number)
        decided = {
            "LaunchTemplateId": template.id,
            "LaunchTemplateName": template.name,
            "Version": str(version.number),
        }
        tags = {
            "aws:ec2launchtemplate:id": template.id,
            "aws:ec2launchtemplate:version": str(version.number),
        }
        return {**version.data, "_tags": tags}, decided

    def known(self, id: str) -> Machine:
        """The machine of that id, if it is known yet.

        moto knows a machine everywhere the moment that it is launched; EC2 needs seconds.
        """
        if not id.startswith("i-"):
            raise Problem("InvalidInstanceID.Malformed", f'Invalid id: "{id}"')
        machine = self.cloud.machines.get(id)
        after = self.cloud.settings.known_after
        if machine is None or self.cloud.clock.now() - machine.launched < after:
            message = f"The instance ID '{id}' does not exist"
            raise Problem("InvalidInstanceID.NotFound", message)
        return machine
