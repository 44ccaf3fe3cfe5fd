"""Whether nodes are made as the cluster file says: the launch templates, compared."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burst.core.aws.booting import node_script
from burst.core.aws.instance_types import InstanceType
from burst.core.aws.names import blobs_url, role_name, store_url, tags_of
from burst.core.aws.templates import (
    NodeMachine,
    has_own_template,
    node_environ,
    template_data,
    template_for,
)
from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.core.units import counted
from burst.infra.facts import Facts
from burst.infra.preflight.asking import Asking, Unknown
from burst.infra.preflight.checking import Check, failed, not_known, ok, warning
from burst.infra.preflight.gathering import aws_of
from burst.infra.preflight.places import pools_of
from burst.infra.standing import BY_HAND, UP

_BUNDLE = re.compile(r"^BURST_BUNDLE=(?:s3://([^/\s]+)/(\S+))?$", re.MULTILINE)


@dataclass(frozen=True)
class Template:
    """One that machines of a pool are made from."""

    name: str
    pool: str
    type: InstanceType
    data: Mapping[str, Any] | None
    """As EC2 has its default version; None if it is not there."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Ids of the security groups that its machines are in."""
        data = self.data or {}
        cards = [id for card in data.get("NetworkInterfaces", ()) for id in card.get("Groups", ())]
        return tuple(dict.fromkeys([*data.get("SecurityGroupIds", ()), *cards]))

    @property
    def script(self) -> str:
        """What its machines boot with."""
        return base64.b64decode((self.data or {}).get("UserData", "")).decode()

    @property
    def bundle(self) -> tuple[str, str]:
        """Bucket and key of burst as its machines fetch it; empty where the image has it."""
        found = _BUNDLE.search(self.script)
        return (found[1] or "", found[2] or "") if found else ("", "")


def look_templates(
    asking: Asking, config: ClusterConfig, facts: Facts
) -> list[Template] | Unknown:
    """Those that the pools should have, with what is there of them."""

    def question() -> list[Template]:
        return [
            Template(name, pool, kind, _data(asking, name))
            for name, pool, kind in _wanted(config, facts)
        ]

    what = "cannot learn how nodes are made"
    action = "ec2:DescribeLaunchTemplates and ec2:DescribeLaunchTemplateVersions"
    return asking.ask(what, action, question)


def check_templates(
    config: ClusterConfig, facts: Facts, templates: list[Template] | Unknown
) -> Check:
    """Whether every pool has its templates, and they are of this cluster file and this burst."""
    label = "launch templates"
    if isinstance(templates, Unknown):
        return not_known(label, templates)
    missing = [each.name for each in templates if each.data is None]
    if missing:
        return failed(label, f"not there: {', '.join(missing)}", BY_HAND)
    stale = {
        each.name: differing
        for each in templates
        if (differing := differences(wanted_data(config, facts, each), each.data))
    }
    if stale:
        said = "; ".join(f"{name}: {', '.join(places)}" for name, places in stale.items())
        return warning(
            label, f"not as burst.yaml and this burst say: {said}", f"{UP}; or else {BY_HAND}"
        )
    return ok(label, f"{counted(len(templates), 'template')}, as burst.yaml says")


def look_bundles(asking: Asking, templates: Sequence[Template]) -> list[str] | Unknown:
    """Bundles that templates name and that are not in the bucket."""

    def question() -> list[str]:
        from botocore.exceptions import ClientError

        gone = []
        for bucket, key in dict.fromkeys(each.bundle for each in templates if each.bundle[1]):
            try:
                asking.client("s3").head_object(Bucket=bucket, Key=key)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                    raise
                gone.append(f"s3://{bucket}/{key}")
        return gone

    return asking.ask("cannot look for the bundle of nodes", "s3:GetObject", question)


def check_bundles(gone: list[str] | Unknown) -> Check:
    """Whether what nodes fetch when they boot is there."""
    label = "node bundle"
    if isinstance(gone, Unknown):
        return not_known(label, gone)
    if gone:
        return failed(label, f"not there: {', '.join(gone)}; no node can start", BY_HAND)
    return ok(label, "what nodes boot with is in the bucket")


def wanted_data(config: ClusterConfig, facts: Facts, found: Template) -> dict[str, Any]:
    """What a template should hold, with the groups and the bundle that it has: only their names
    are known before."""
    pool = pools_of(config)[found.pool]
    aws, region = aws_of(config), facts.region
    bucket, key = found.bundle
    environ = node_environ(
        store_url(config.cluster, region), blobs_url(config.cluster, facts.account, region), region
    )
    boot = node_script(
        environ,
        max_life=pool.max_life,
        bundle=f"s3://{bucket}/{key}" if key else "",
        python=aws.python,
        efa=found.type.efa if has_own_template(found.type, pool.efa) else 0,
    )
    machine = NodeMachine(
        aws.image,
        role_name(config.cluster, "node"),
        found.groups,
        disk_gib=aws.disk_gib,
        root_device=facts.root_device,
    )
    tags = tags_of(config.cluster, found.pool)
    return template_data(machine, tags, boot, kind=found.type, efa=pool.efa)


def differences(wanted: Any, found: Any, place: str = "") -> list[str]:
    """Where something wanted is not so; what else is there does not matter. Pure.

    Lists count as wanted in any order.
    """
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return [place]
        return [
            each
            for key, value in wanted.items()
            for each in differences(value, found.get(key), place or key)
        ]
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) < len(wanted):
            return [place]
        lost = [each for each in wanted if all(differences(each, one) for one in found)]
        return [place] if lost else []
    return [] if wanted == found else [place]


def _wanted(config: ClusterConfig, facts: Facts) -> Iterator[tuple[str, str, InstanceType]]:
    """Name, pool and first type of every template that there should be."""
    seen = set()
    for pool, settings in pools_of(config).items():
        for name, kind in _of_pool(config.cluster, pool, settings, facts):
            if name not in seen:
                seen.add(name)
                yield name, pool, kind


def _of_pool(
    cluster: str, pool: str, settings: AwsPool, facts: Facts
) -> Iterator[tuple[str, InstanceType]]:
    for each in settings.instance_types:
        kind = facts.types[each]
        yield template_for(cluster, pool, kind, settings.efa), kind


def _data(asking: Asking, name: str) -> Mapping[str, Any] | None:
    ec2 = asking.client("ec2")
    # By filter: asked by name, one that is not there would be an error.
    named = [{"Name": "launch-template-name", "Values": [name]}]
    found = ec2.describe_launch_templates(Filters=named)["LaunchTemplates"]
    if not found:
        return None
    versions = ec2.describe_launch_template_versions(
        LaunchTemplateId=found[0]["LaunchTemplateId"], Versions=["$Default"]
    )["LaunchTemplateVersions"]
    data: Mapping[str, Any] = versions[0]["LaunchTemplateData"]
    return data
