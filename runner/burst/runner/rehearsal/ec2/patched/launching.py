"""From a decided spec to an instance of moto's and a machine that runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from burst.runner.rehearsal.ec2.cloud import Cloud
from burst.runner.rehearsal.ec2.disk import Disk
from burst.runner.rehearsal.ec2.machine import Machine, Metadata, Reason, State
from burst.runner.rehearsal.ec2.rules import Kind
from burst.runner.rehearsal.ec2.spec import Spec

_CODES = {
    State.PENDING: 0,
    State.RUNNING: 16,
    State.SHUTTING_DOWN: 32,
    State.TERMINATED: 48,
    State.STOPPING: 64,
    State.STOPPED: 80,
}


class MotoBody:
    """An instance of moto's that shows what its machine does.

    moto's own instances are running at once, and end in the very call that ends them; real ones
    take their time.
    """

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def tags(self) -> Mapping[str, str]:
        return dict(self._instance.ec2_backend.tags.get(self._instance.id, {}))

    def show(self, state: State, reason: Reason, at: float) -> None:
        from moto.ec2.models.instances import InstanceState, StateReason

        instance = self._instance
        if state is State.TERMINATED:
            instance.terminate()
        instance._state = InstanceState(str(state), _CODES[state])
        instance.state_reason = StateReason(reason.message, str(reason))
        instance._reason = ""
        if reason:
            date = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            instance._reason = f"User initiated ({date})" if reason is Reason.USER else str(reason)


def launch(cloud: Cloud, backend: Any, spec: Spec, kind: Kind, subnet: str, price: float) -> Any:
    """Start one machine; moto's instance of it.

    moto loses the market, the placement group, the metadata options and all but one network
    interface of each device index.
    """
    spot = kind.market == "spot"
    disks = {"block_device_mappings": [dict(each) for each in spec.disks]} if spec.disks else {}
    reservation = backend.run_instances(
        spec.image,
        1,
        None,
        [],
        instance_type=kind.type,
        is_instance_type_default=False,
        placement=kind.zone,
        region_name=backend.region_name,
        subnet_id=subnet,
        key_name=spec.key or None,
        security_group_ids=list(spec.groups),
        nics=[_primary(spec)],
        associate_public_ip=None,
        tags={resource: dict(tags) for resource, tags in spec.tags.items()},
        lifecycle="spot" if spot else None,
        instance_initiated_shutdown_behavior="stop" if spec.stops else "terminate",
        metadata_options=dict(spec.metadata),
        **disks,
    )
    instance = reservation.instances[0]
    instance.launch_time = datetime.fromtimestamp(cloud.clock.now(), UTC).replace(tzinfo=None)
    instance.placement.group_name = spec.group
    now = cloud.clock.now() + cloud.settings.skew
    instance.launch_time = datetime.fromtimestamp(now, UTC).replace(tzinfo=None)
    instance.spot_instance_request_id = f"sir-{uuid.uuid4().hex[:8]}" if spot else None
    _add_interfaces(backend, instance, spec, subnet)
    _tag_interfaces(instance, spec)
    cloud.add(_machine(cloud, instance, spec, kind, price))
    return instance


def _machine(cloud: Cloud, instance: Any, spec: Spec, kind: Kind, price: float) -> Machine:
    options = instance.metadata_options
    return Machine(
        id=instance.id,
        kind=kind,
        price=price,
        subnet=instance.subnet_id,
        group=spec.group,
        image=spec.image,
        role=str(spec.profile.get("Name") or spec.profile.get("Arn", "").rpartition("/")[2]),
        user_data=spec.user_data,
        stops=spec.stops,
        metadata=Metadata(
            enabled=options.http_endpoint == "enabled",
            token_required=options.http_tokens == "required",
            tags=options.instance_metadata_tags == "enabled",
        ),
        body=MotoBody(instance),
        disk=Disk(cloud.folder / instance.id, _efa(spec)),
        launched=cloud.clock.now(),
    )


def _efa(spec: Spec) -> int:
    """How many of its interfaces are Elastic Fabric Adapters."""
    return sum(each.get("InterfaceType") in ("efa", "efa-only") for each in spec.interfaces)


def _primary(spec: Spec) -> dict[str, Any]:
    """Real EC2 deletes an interface that it made with the instance; moto only if it is told."""
    named = [each for each in spec.interfaces if not int(each.get("DeviceIndex") or 0)]
    found = dict(named[0]) if named else {}
    kept = {name: found[name] for name in ("AssociatePublicIpAddress",) if name in found}
    return {
        **kept,
        "DeviceIndex": 0,
        "DeleteOnTermination": found.get("DeleteOnTermination", True),
    }


def _add_interfaces(backend: Any, instance: Any, spec: Spec, subnet: str) -> None:
    for each in spec.interfaces:
        card, device = int(each.get("NetworkCardIndex") or 0), int(each.get("DeviceIndex") or 0)
        kind = each.get("InterfaceType") or "interface"
        if not device:
            instance.nics[0].interface_type = kind
            continue
        interface = backend.create_network_interface(
            subnet,
            None,
            group_ids=list(each.get("Groups") or spec.groups),
            delete_on_termination=each.get("DeleteOnTermination", False),
        )
        instance.attach_eni(interface, device)
        # moto finds interfaces by their device index alone; those of further cards all have 1.
        instance.nics[(card << 8) + device] = instance.nics.pop(device)
        interface.interface_type, interface.network_card_index = kind, card
        if kind == "efa-only":
            interface.private_ip_address, interface.private_ip_addresses = None, []


def _tag_interfaces(instance: Any, spec: Spec) -> None:
    for interface in instance.nics.values():
        interface.add_tags(dict(spec.tags.get("network-interface", {})))
