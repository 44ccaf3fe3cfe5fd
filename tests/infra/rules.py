"""What has to hold for everything that a program registers; each rule says what breaks it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pulumi_aws

from burst.core.aws.names import CLUSTER
from tests.infra.evaluating import many
from tests.infra.registering import Registered

Rule = Callable[[Sequence[Registered]], list[str]]

_ANYWHERE = ("0.0.0.0/0", "::/0")
_MODULES = {"lambda": "lambda_"}
_UNTAGGED: Mapping[str, str] = {}
"""Types that could have tags and do not, with the reason."""


def no_wildcard_principal(found: Sequence[Registered]) -> list[str]:
    """Nobody is let in who is not named: neither to a role, nor by what a resource says itself."""
    return [
        f"{each}: {statement['Sid']} is for anybody"
        for each, statement in _allowing(found)
        if "*" in json.dumps(statement.get("Principal", ""))
    ]


def no_wildcard_action(found: Sequence[Registered]) -> list[str]:
    """What is allowed is named."""
    return [
        f"{each}: {statement['Sid']} allows {action}"
        for each, statement in _allowing(found)
        for action in many(statement["Action"])
        if "*" in action
    ]


def no_open_ingress(found: Sequence[Registered]) -> list[str]:
    """Nobody reaches a machine from outside the network."""
    broken = []
    for each in found:
        rules = [*each.inputs.get("ingress", [])]
        if each.type.endswith(":SecurityGroupIngressRule"):
            rules.append(each.inputs)
        if each.type.endswith(":SecurityGroupRule") and each.inputs.get("type") == "ingress":
            rules.append(each.inputs)
        if any(place in json.dumps(rules) for place in _ANYWHERE):
            broken.append(f"{each}: anybody comes in")
        if any("cidr" in name.lower() for rule in rules for name in rule):
            broken.append(f"{each}: lets addresses in, and not members")
    return broken


def all_encrypted(found: Sequence[Registered]) -> list[str]:
    """Disks, objects and records are."""
    broken = []
    for each in _of(found, "ec2/launchTemplate:LaunchTemplate"):
        disks = each.inputs.get("blockDeviceMappings") or []
        if not disks or any(disk["ebs"].get("encrypted") != "true" for disk in disks):
            broken.append(f"{each}: its disks are not encrypted")
    for each in _of(found, "dynamodb/table:Table"):
        if not each.inputs.get("serverSideEncryption", {}).get("enabled"):
            broken.append(f"{each}: is not encrypted")
    return broken + _beside_buckets(
        found, "s3/bucketServerSideEncryptionConfiguration:", "is not encrypted"
    )


def buckets_are_private(found: Sequence[Registered]) -> list[str]:
    """Whatever an object's own list of access says, and over TLS alone."""
    broken = _beside_buckets(found, "s3/bucketPublicAccessBlock:", "may be public")
    broken += _beside_buckets(found, "s3/bucketOwnershipControls:", "has lists of access")
    broken += _beside_buckets(found, "s3/bucketPolicy:", "may be read without TLS")
    for each in _of(found, "s3/bucketPublicAccessBlock:BucketPublicAccessBlock"):
        switches = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls")
        for switch in (*switches, "restrictPublicBuckets"):
            if each.inputs.get(switch) is not True:
                broken.append(f"{each}: {switch} is off")
    return broken


def metadata_needs_a_token(found: Sequence[Registered]) -> list[str]:
    """A machine's credentials are not for whoever makes it fetch a URL; containers reach them."""
    broken = []
    for each in _of(found, "ec2/launchTemplate:LaunchTemplate"):
        options = each.inputs.get("metadataOptions") or {}
        if options.get("httpTokens") != "required":
            broken.append(f"{each}: its metadata needs no token")
        if options.get("httpPutResponseHopLimit") != 2:
            broken.append(f"{each}: its metadata is not two hops away")
    return broken


def machines_end_when_they_shut_down(found: Sequence[Registered]) -> list[str]:
    """So that a node needs no permission to end itself."""
    return [
        f"{each}: stays when it is shut down"
        for each in _of(found, "ec2/launchTemplate:LaunchTemplate")
        if each.inputs.get("instanceInitiatedShutdownBehavior") != "terminate"
    ]


def records_can_be_had_back(found: Sequence[Registered]) -> list[str]:
    """A table and a bucket survive a mistake."""
    broken = []
    for each in _of(found, "dynamodb/table:Table"):
        if not each.inputs.get("deletionProtectionEnabled"):
            broken.append(f"{each}: can be deleted by mistake")
        if not each.inputs.get("pointInTimeRecovery", {}).get("enabled"):
            broken.append(f"{each}: cannot be restored")
    return broken + _beside_buckets(found, "s3/bucketVersioning:", "keeps no old versions")


def functions_are_called_by_own_rules(found: Sequence[Registered]) -> list[str]:
    """A permission is for one rule, and no function has an address."""
    broken = [f"{each}: has an address" for each in _of(found, "lambda/functionUrl:FunctionUrl")]
    for each in _of(found, "lambda/permission:Permission"):
        if not each.inputs.get("sourceArn"):
            broken.append(f"{each}: lets every rule of {each.inputs.get('principal')} call")
    return broken


def logs_are_forgotten(found: Sequence[Registered]) -> list[str]:
    return [
        f"{each}: is kept, and paid for, for ever"
        for each in _of(found, "cloudwatch/logGroup:LogGroup")
        if not each.inputs.get("retentionInDays")
    ]


def no_secret_in_sight(found: Sequence[Registered]) -> list[str]:
    """Nothing that a person could sign in with is made, and machines have nothing of the kind."""
    keys = ("iam/accessKey:", "iam/user:", "ec2/keyPair:", "iam/userLoginProfile:")
    broken = [f"{each}: is made" for each in found if any(key in each.type for key in keys)]
    return broken + [
        f"{each}: machines have a key pair"
        for each in _of(found, "ec2/launchTemplate:LaunchTemplate")
        if each.inputs.get("keyName")
    ]


def all_tagged(found: Sequence[Registered]) -> list[str]:
    """Whatever can have tags has the cluster's, by which it is found, counted and removed."""
    clusters = {each.inputs["tags"].get(CLUSTER) for each in found if each.inputs.get("tags")}
    broken = [] if len(clusters) == 1 else [f"of more than one cluster: {clusters}"]
    for each in found:
        tags = each.inputs.get("tags") or {}
        if takes_tags(each.type) and each.type not in _UNTAGGED and not tags.get(CLUSTER):
            broken.append(f"{each}: has no tag of the cluster")
    for each in _of(found, "ec2/launchTemplate:LaunchTemplate"):
        told = each.inputs.get("tagSpecifications") or []
        tagged = {one["resourceType"] for one in told if one["tags"].get(CLUSTER)}
        if tagged != {"instance", "volume", "network-interface"}:
            broken.append(f"{each}: what is made from it is tagged {sorted(tagged)} alone")
    return broken


ALL: tuple[Rule, ...] = (
    no_wildcard_principal,
    no_wildcard_action,
    no_open_ingress,
    all_encrypted,
    buckets_are_private,
    metadata_needs_a_token,
    machines_end_when_they_shut_down,
    records_can_be_had_back,
    functions_are_called_by_own_rules,
    logs_are_forgotten,
    no_secret_in_sight,
    all_tagged,
)


@cache
def takes_tags(type: str) -> bool:
    """Whether the provider's class of this type (`aws:s3/bucket:Bucket`) takes tags."""
    package, place, name = type.split(":")
    if package != "aws":
        return False
    module = place.partition("/")[0]
    made = getattr(getattr(pulumi_aws, _MODULES.get(module, module)), name)
    return "tags" in inspect.signature(made._internal_init).parameters


def policies_of(each: Registered) -> Iterator[Mapping[str, Any]]:
    """The policy documents among a resource's inputs."""
    for name in ("policy", "assumeRolePolicy"):
        text = each.inputs.get(name)
        if isinstance(text, str):
            yield json.loads(text)


def _allowing(
    found: Sequence[Registered],
) -> Iterator[tuple[Registered, Mapping[str, Any]]]:
    for each in found:
        for policy in policies_of(each):
            for statement in policy["Statement"]:
                if statement["Effect"] == "Allow":
                    yield each, statement


def _of(found: Sequence[Registered], type: str) -> list[Registered]:
    return [each for each in found if each.type == f"aws:{type}"]


def _beside_buckets(found: Sequence[Registered], type: str, without: str) -> list[str]:
    """Of every bucket that no resource of this type is about."""
    told = {each.inputs.get("bucket") for each in found if each.type.startswith(f"aws:{type}")}
    buckets = _of(found, "s3/bucket:Bucket")
    return [f"{each}: {without}" for each in buckets if each.inputs.get("bucket") not in told]
