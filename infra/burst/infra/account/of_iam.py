"""Who may do what: roles, their instance profiles, and policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from burst.core.aws.names import REGION, role_name, untag
from burst.core.aws.telling import told
from burst.core.errors import Refused
from burst.infra.account.sorts import Look, Sort, pages


def require_region(look: Look) -> None:
    """Keep a cluster from being taken for one of the same name in another region, with which it
    would share names of roles.

    Raises:
        Refused: the roles of the cluster's name are of another region.
        BurstError: AWS does not tell.
    """
    iam = look.client("iam")
    with told("cannot tell in which region the cluster is"):
        try:
            tags = untag(_tags_of_role(iam, role_name(look.cluster, "node")))
        except iam.exceptions.NoSuchEntityException:
            return
    elsewhere = tags.get(REGION, look.region)
    if look.owns(tags) and elsewhere != look.region:
        raise Refused(
            f"cluster {look.cluster} is in region {elsewhere}",
            why=f"burst.yaml says {look.region}",
            mend="correct `aws.region`, or choose another name for a second cluster",
        )


def _profiles(look: Look) -> Iterable[str]:
    iam = look.client("iam")
    for each in pages(iam, "list_instance_profiles", "InstanceProfiles"):
        name = each["InstanceProfileName"]
        if name.startswith(f"{look.prefix}-"):
            tags = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
            if look.owns(tags.get("Tags")):
                yield name


def _roles(look: Look) -> Iterable[str]:
    iam = look.client("iam")
    for each in pages(iam, "list_roles", "Roles"):
        name = each["RoleName"]
        if name.startswith(f"{look.prefix}-") and look.owns(_tags_of_role(iam, name)):
            yield name


def _policies(look: Look) -> Iterable[str]:
    iam = look.client("iam")
    for each in pages(iam, "list_policies", "Policies", Scope="Local"):
        if each["PolicyName"].startswith(f"{look.prefix}-"):
            found = iam.get_policy(PolicyArn=each["Arn"])["Policy"]
            if look.owns(found.get("Tags")):
                yield each["Arn"]


def _remove_profile(look: Look, name: str) -> None:
    iam = look.client("iam")
    found = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    for role in found.get("Roles") or []:
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role["RoleName"])
    iam.delete_instance_profile(InstanceProfileName=name)


def _remove_role(look: Look, name: str) -> None:
    iam = look.client("iam")
    for inline in pages(iam, "list_role_policies", "PolicyNames", RoleName=name):
        iam.delete_role_policy(RoleName=name, PolicyName=inline)
    for each in pages(iam, "list_attached_role_policies", "AttachedPolicies", RoleName=name):
        iam.detach_role_policy(RoleName=name, PolicyArn=each["PolicyArn"])
    iam.delete_role(RoleName=name)


def _remove_policy(look: Look, arn: str) -> None:
    """People whom it was given to lose it: with the cluster it means nothing any more."""
    iam = look.client("iam")
    users = pages(iam, "list_entities_for_policy", "PolicyUsers", PolicyArn=arn)
    for user in list(users):
        iam.detach_user_policy(UserName=user["UserName"], PolicyArn=arn)
    groups = pages(iam, "list_entities_for_policy", "PolicyGroups", PolicyArn=arn)
    for group in list(groups):
        iam.detach_group_policy(GroupName=group["GroupName"], PolicyArn=arn)
    roles = pages(iam, "list_entities_for_policy", "PolicyRoles", PolicyArn=arn)
    for role in list(roles):
        iam.detach_role_policy(RoleName=role["RoleName"], PolicyArn=arn)
    for version in list(pages(iam, "list_policy_versions", "Versions", PolicyArn=arn)):
        if not version.get("IsDefaultVersion"):
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
    iam.delete_policy(PolicyArn=arn)


def _tags_of_role(iam: Any, name: str) -> object:
    return iam.get_role(RoleName=name)["Role"].get("Tags")


ACCESS = (
    Sort(
        "instance profile",
        "aws:iam/instanceProfile:InstanceProfile",
        _profiles,
        _remove_profile,
        "aws iam delete-instance-profile --instance-profile-name {id}",
    ),
    Sort(
        "role", "aws:iam/role:Role", _roles, _remove_role, "aws iam delete-role --role-name {id}"
    ),
    Sort(
        "policy",
        "aws:iam/policy:Policy",
        _policies,
        _remove_policy,
        "aws iam delete-policy --policy-arn {id}",
    ),
)
