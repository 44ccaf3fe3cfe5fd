"""What a launch template holds: the one place that says how a node of an AWS pool is made.

Whoever sets the account up writes it, the pool names it in its requests, and a rehearsal starts
machines from it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burst.core.aws.booting import LONGEST
from burst.core.aws.instance_types import InstanceType
from burst.core.aws.names import POOL, tag_list, template_name
from burst.core.errors import ConfigError

CLUSTER_FILE = "blobs:cluster/burst.yaml"
"""Where a node finds the cluster file."""
_EVERY_FOURTH = ("p5.48xlarge", "p5e.48xlarge")
"""Their cards share IP bandwidth by fours: more interfaces with an address give no more of it."""
_FIRST_CARD_HAS_NONE = ("p6-b300.48xlarge",)


@dataclass(frozen=True)
class NodeMachine:
    """What the machines of a pool have in common."""

    image: str
    """An AMI's id, or `resolve:ssm:NAME` of the parameter that holds it."""
    profile: str
    """Name of the instance profile that lets a node use the store and the blobs."""
    security_groups: tuple[str, ...]
    disk_gib: int = 200
    root_device: str = "/dev/sda1"
    """What the image calls its root disk."""


def has_own_template(kind: InstanceType, efa: bool) -> bool:
    """Whether a type's network cards differ from the pool's other types'."""
    return efa and kind.efa > 0


def template_for(cluster: str, pool: str, kind: InstanceType, efa: bool) -> str:
    """The name of the launch template that machines of a type are made from."""
    return template_name(cluster, pool, kind.name if has_own_template(kind, efa) else "")


def template_data(
    machine: NodeMachine,
    tags: Mapping[str, str],
    boot: str,
    *,
    kind: InstanceType | None = None,
    efa: bool = False,
) -> dict[str, Any]:
    """`LaunchTemplateData` for CreateLaunchTemplate.

    Type, subnet, market and placement group are not in it: each request says them.

    Args:
        tags: what every machine, disk and network interface carries (`names.tags_of`).
        boot: what a machine boots with (`booting.node_script`).
        kind: the one type that the template is for, where that has one of its own.
        efa: whether the pool's machines have Elastic Fabric Adapters, where their type can.

    Raises:
        ConfigError: the boot script is longer than EC2 takes.
    """
    tagged = ("instance", "volume", "network-interface")
    data: dict[str, Any] = {
        "ImageId": machine.image,
        "IamInstanceProfile": {"Name": machine.profile},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 2,  # a container is one hop further
            "InstanceMetadataTags": "enabled",
        },
        "BlockDeviceMappings": [
            {
                "DeviceName": machine.root_device,
                "Ebs": {
                    "VolumeType": "gp3",
                    "VolumeSize": machine.disk_gib,
                    "Encrypted": True,
                    "DeleteOnTermination": True,
                },
            }
        ],
        "UserData": _encoded(boot, tags.get(POOL, "")),
        "TagSpecifications": [{"ResourceType": what, "Tags": tag_list(tags)} for what in tagged],
    }
    if kind is not None and has_own_template(kind, efa):
        data["NetworkInterfaces"] = efa_interfaces(kind, machine.security_groups)
    else:
        data["SecurityGroupIds"] = list(machine.security_groups)
    return data


def efa_interfaces(kind: InstanceType, security_groups: Sequence[str]) -> list[dict[str, Any]]:
    """The network interfaces of a machine that uses all of its type's EFAs, one a card.

    The first has the machine's address and cannot be EFA only. `efa-only` ones have no address,
    so that all ordinary traffic takes the first.

    Source: Amazon EC2 User Guide, "Maximize network bandwidth on instances with multiple cards".
    """
    bare = 1 if kind.name in _FIRST_CARD_HAS_NONE else 0

    def what(card: int) -> str:
        if card == 0:
            return "interface" if bare else "efa"
        return "efa" if kind.name in _EVERY_FOURTH and card % 4 == 0 else "efa-only"

    return [
        {
            "NetworkCardIndex": card,
            "DeviceIndex": 0 if card == 0 else 1,
            "InterfaceType": what(card),
            "Groups": list(security_groups),
            "DeleteOnTermination": True,
        }
        for card in range(kind.efa + bare)
    ]


def node_environ(store: str, blobs: str, region: str) -> dict[str, str]:
    """What a node has to know before it can read the rest from the cluster file.

    Raises:
        ConfigError: a value holds a line break.
    """
    found = {
        "BURST_STORE": store,
        "BURST_BLOBS": blobs,
        "BURST_CLUSTER": CLUSTER_FILE,
        "AWS_DEFAULT_REGION": region,
    }
    for name, value in found.items():
        if "\n" in value:
            raise ConfigError(f"{name} of a node has to be one line", why=f"it is {value!r}")
    return found


def _encoded(boot: str, pool: str) -> str:
    raw = boot.encode()
    if len(raw) > LONGEST:
        raise ConfigError(
            f"the boot script of pool {pool} is too long",
            why=f"it has {len(raw):,} bytes, and EC2 takes {LONGEST:,}",
            mend="move what it does into the image",
        )
    return base64.b64encode(raw).decode()
