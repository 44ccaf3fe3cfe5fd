"""What nodes are made from: the launch templates of every pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import ec2

from burst.core.aws.booting import node_script
from burst.core.aws.instance_types import InstanceType
from burst.core.aws.templates import (
    NodeMachine,
    has_own_template,
    node_environ,
    template_data,
    template_for,
)
from burst.core.config.cluster import AwsPool
from burst.infra.settings import Settings


@dataclass(frozen=True)
class NodesArgs:
    settings: Settings
    profile: pulumi.Input[str]
    """Name of the nodes' instance profile."""
    security_group: pulumi.Input[str]
    bundle_url: str
    """Where burst itself lies for nodes; empty if their image has it."""


class Nodes(pulumi.ComponentResource):
    """A launch template for each pool; for each of its types, where their network cards differ."""

    templates: Mapping[str, pulumi.Output[str]]
    """ARNs by name."""

    def __init__(
        self, name: str, args: NodesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("burst:infra:Nodes", name, None, opts)
        self._args = args
        settings = args.settings
        self.templates = {
            template: self._template(template, pool, config, kind)
            for pool, config in settings.pools.items()
            for template, kind in templates_of(settings, pool, config)
        }
        # Not `templates`: a later run is given these back, and fits them to what that is here.
        self.register_outputs({"names": list(self.templates)})

    def _template(
        self, name: str, pool: str, config: AwsPool, kind: InstanceType
    ) -> pulumi.Output[str]:
        settings = self._args.settings
        environ = node_environ(settings.store, settings.blobs, settings.facts.region)
        efa = kind.efa if has_own_template(kind, config.efa) else 0
        boot = node_script(
            environ,
            max_life=config.max_life,
            bundle=self._args.bundle_url,
            python=settings.aws.python,
            efa=efa,
        )
        machine = NodeMachine(
            settings.aws.image,
            profile="",
            security_groups=(),
            disk_gib=settings.aws.disk_gib,
            root_device=settings.facts.root_device,
        )
        data = template_data(machine, settings.tags(pool), boot, kind=kind, efa=config.efa)
        template = ec2.LaunchTemplate(
            name,
            name=name,
            update_default_version=True,
            iam_instance_profile=ec2.LaunchTemplateIamInstanceProfileArgs(name=self._args.profile),
            tags=settings.tags(pool),
            opts=pulumi.ResourceOptions(parent=self),
            **template_args(data, self._args.security_group),
        )
        arn: pulumi.Output[str] = template.arn
        return arn


def templates_of(
    settings: Settings, pool: str, config: AwsPool
) -> Iterator[tuple[str, InstanceType]]:
    """The names of a pool's launch templates, each with the first type that is made from it."""
    seen = set()
    for type_name in config.instance_types:
        kind = settings.facts.types[type_name]
        name = template_for(settings.cluster, pool, kind, config.efa)
        if name not in seen:
            seen.add(name)
            yield name, kind


def template_args(data: Mapping[str, Any], security_group: pulumi.Input[str]) -> dict[str, Any]:
    """`LaunchTemplateData`, as EC2 takes it, in Pulumi's words.

    Args:
        data: what `template_data` gives, without profile and security groups.
        security_group: id of the group of every network interface.
    """
    metadata, disks = data["MetadataOptions"], data["BlockDeviceMappings"]
    args: dict[str, Any] = {
        "image_id": data["ImageId"],
        "user_data": data["UserData"],
        "instance_initiated_shutdown_behavior": data["InstanceInitiatedShutdownBehavior"],
        "metadata_options": ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint=metadata["HttpEndpoint"],
            http_tokens=metadata["HttpTokens"],
            http_put_response_hop_limit=metadata["HttpPutResponseHopLimit"],
            instance_metadata_tags=metadata["InstanceMetadataTags"],
        ),
        "block_device_mappings": [_disk(each) for each in disks],
        "tag_specifications": [
            ec2.LaunchTemplateTagSpecificationArgs(
                resource_type=each["ResourceType"],
                tags={tag["Key"]: tag["Value"] for tag in each["Tags"]},
            )
            for each in data["TagSpecifications"]
        ],
    }
    if "NetworkInterfaces" in data:
        cards = data["NetworkInterfaces"]
        args["network_interfaces"] = [_card(each, security_group) for each in cards]
    else:
        args["vpc_security_group_ids"] = [security_group]
    return args


def _disk(mapping: Mapping[str, Any]) -> ec2.LaunchTemplateBlockDeviceMappingArgs:
    ebs = mapping["Ebs"]
    return ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=mapping["DeviceName"],
        ebs=ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_type=ebs["VolumeType"],
            volume_size=ebs["VolumeSize"],
            encrypted=_said(ebs["Encrypted"]),
            delete_on_termination=_said(ebs["DeleteOnTermination"]),
        ),
    )


def _card(
    interface: Mapping[str, Any], security_group: pulumi.Input[str]
) -> ec2.LaunchTemplateNetworkInterfaceArgs:
    return ec2.LaunchTemplateNetworkInterfaceArgs(
        network_card_index=interface["NetworkCardIndex"],
        device_index=interface["DeviceIndex"],
        interface_type=interface["InterfaceType"],
        security_groups=[security_group],
        delete_on_termination=_said(interface["DeleteOnTermination"]),
    )


def _said(value: bool) -> str:
    """The provider takes these as words."""
    return str(value).lower()
