"""Instances: one at a time, by id, by filter, and to their end."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models.instances import Reservation
from moto.ec2.responses.instances import InstanceResponse
from moto.ec2.utils import random_reservation_id

from burst.runner.rehearsal.ec2.fleet import Wish, allocate
from burst.runner.rehearsal.ec2.machine import Machine, Reason
from burst.runner.rehearsal.ec2.patched.errors import Problem, unsupported
from burst.runner.rehearsal.ec2.patched.launching import launch
from burst.runner.rehearsal.ec2.patched.offering import Offering
from burst.runner.rehearsal.ec2.spec import merge, spec_of

_NOT_OF_AN_INSTANCE = ("LaunchTemplate", "MinCount", "MaxCount", "ClientToken", "DryRun")


class Instances(Offering, InstanceResponse):
    def run_instances(self) -> Any:
        self.error_on_dryrun()
        return self.idempotent("RunInstances", self._run_instances)

    def _run_instances(self) -> Any:
        """All between MinCount and MaxCount that there are; moto starts MinCount, always."""
        said = {key: value for key, value in self.params.items() if key not in _NOT_OF_AN_INSTANCE}
        template: dict[str, Any] = {}
        tags: dict[str, str] = {}
        if self._get_param("LaunchTemplate"):
            template, _ = self.template_data(self._get_param("LaunchTemplate"))
            tags = template.pop("_tags")
        spec = self.with_tags(spec_of(merge(template, said)), tags)
        market = "spot" if spec.spot else "on-demand"
        least, most = int(self._get_param("MinCount", 1)), int(self._get_param("MaxCount", 1))
        offers = self.offers_of(0, spec, market, "Unsupported")
        found = allocate(Wish(most, least, True, True), offers, self.room())
        if not found.started:
            raise Problem(found.refused[-1].code, found.refused[-1].message)
        together = Reservation(random_reservation_id(), self.ec2_backend.account_id)
        for offer, count in found.started:
            for _ in range(count):
                together.instances.append(
                    launch(
                        self.cloud, self.ec2_backend, spec, offer.kind, offer.subnet, offer.price
                    )
                )
        return ActionResult(together)

    def describe_instances(self) -> Any:
        """moto shows every instance at once; EC2's lists lag behind."""
        for id in self._get_param("InstanceIds", []):
            self.known(id)
        answer: Any = super().describe_instances()
        if self._get_param("InstanceIds"):
            return answer
        shown = []
        for reservation in answer.result["Reservations"]:
            reservation.instances = [each for each in reservation.instances if self._listed(each)]
            if reservation.instances:
                shown.append(reservation)
        return ActionResult({**answer.result, "Reservations": shown})

    def _listed(self, instance: Any) -> bool:
        machine = self.cloud.machines.get(instance.id)
        after = self.cloud.settings.listed_after
        return machine is None or self.cloud.clock.now() - machine.launched >= after

    def describe_instance_status(self) -> Any:
        for id in self._get_param("InstanceIds", []):
            self.known(id)
        return super().describe_instance_status()

    def terminate_instances(self) -> Any:
        """All or none: one id that is wrong fails the call. moto's end in the call itself."""
        ids: Sequence[str] = self._get_param("InstanceIds", [])
        machines = [self.known(id) for id in ids]
        self.error_on_dryrun()
        before = [self._state(machine) for machine in machines]
        for machine in machines:
            self.cloud.end(machine, Reason.USER)
        changes = [
            {"InstanceId": machine.id, "PreviousState": was, "CurrentState": self._state(machine)}
            for machine, was in zip(machines, before, strict=True)
        ]
        return ActionResult({"TerminatingInstances": changes})

    def _state(self, machine: Machine) -> dict[str, Any]:
        state = self.ec2_backend.get_instance(machine.id)._state
        return {"Code": state.code, "Name": state.name}

    def get_console_output(self) -> Any:
        """What the machine has really written; moto's text is always the same."""
        machine = self.known(self._get_param("InstanceId"))
        text = base64.b64encode(machine.disk.console_tail()).decode()
        found = {"InstanceId": machine.id, "Timestamp": utcnow(), "Output": text}
        return ActionResult(found)

    def stop_instances(self) -> Any:
        raise unsupported("StopInstances")

    def start_instances(self) -> Any:
        raise unsupported("StartInstances")

    def reboot_instances(self) -> Any:
        raise unsupported("RebootInstances")
