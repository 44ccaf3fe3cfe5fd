"""Putting the patched operations in the place of moto's own."""

from __future__ import annotations

from typing import Any

import moto.ec2.urls
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.responses import EC2Response
from moto.ec2.utils import filter_dict_attribute_mapping

from burst.runner.rehearsal.ec2.cloud import Cloud
from burst.runner.rehearsal.ec2.patched.fleets import Fleets
from burst.runner.rehearsal.ec2.patched.groups import Groups
from burst.runner.rehearsal.ec2.patched.instances import Instances
from burst.runner.rehearsal.ec2.patched.network import Network
from burst.runner.rehearsal.ec2.patched.parameters import install_parameters
from burst.runner.rehearsal.ec2.patched.placement import PlacementGroups
from burst.runner.rehearsal.ec2.patched.quotas import install_quotas
from burst.runner.rehearsal.ec2.patched.spot import SpotMarket
from burst.runner.rehearsal.ec2.patched.templates import Templates

_MORE_FILTERS = {
    "instance-lifecycle": "lifecycle",
    "placement-group-name": "placement.group_name",
    "spot-instance-request-id": "spot_instance_request_id",
}


class RehearsalEC2(
    Groups, Network, Fleets, Instances, PlacementGroups, SpotMarket, Templates, EC2Response
):
    """moto's EC2 with all that is patched."""


def install(cloud: Cloud) -> None:
    """Once a process, before moto answers its first call: its state is the process's too."""
    RehearsalEC2.cloud = cloud
    moto.ec2.urls.url_paths["{0}/"] = RehearsalEC2.dispatch
    filter_dict_attribute_mapping.update(_MORE_FILTERS)
    _tell_network_cards()
    install_parameters()
    install_quotas(cloud)


def _tell_network_cards() -> None:
    """moto says of every interface that it is on card 0."""
    model: Any = NetworkInterface
    plain = model.attachment.fget

    def attachment(interface: Any) -> Any:
        found = plain(interface)
        if found is not None:
            found.network_card_index = getattr(interface, "network_card_index", 0)
        return found

    model.attachment = property(attachment)
