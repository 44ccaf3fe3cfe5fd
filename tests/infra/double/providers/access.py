"""IAM of the double's AWS provider: roles, policies, instance profiles."""

from __future__ import annotations

import json
from typing import Any

from tests.infra.double.kinds import Kind, kind
from tests.infra.double.providers.base import given, pairs, quietly
from tests.infra.double.values import Props


class IamKind(Kind):
    @property
    def iam(self) -> Any:
        return self.cloud.client("iam")

    def tagging(self, inputs: Props) -> Props:
        tags = self.cloud.tags(inputs)
        return {"Tags": pairs(tags)} if tags else {}

    def retag(self, what: str, named: Props, old: Props, new: Props) -> None:
        before, after = self.cloud.tags(old), self.cloud.tags(new)
        if gone := [key for key in before if key not in after]:
            getattr(self.iam, f"untag_{what}")(**named, TagKeys=gone)
        if after and after != before:
            getattr(self.iam, f"tag_{what}")(**named, Tags=pairs(after))


def text(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document)


@kind("aws:iam/role:Role")
class Role(IamKind):
    """Policies within it (`inlinePolicies`, `managedPolicyArns`) are refused."""

    what = "IAM Role"
    replaces = frozenset({"path"})
    name = "name"
    json = frozenset({"assumeRolePolicy"})
    longest = 64

    def create(self, inputs: Props) -> str:
        if inputs.get("inlinePolicies") or inputs.get("managedPolicyArns"):
            raise ValueError("the double takes policies of a role as resources of their own alone")
        self.iam.create_role(
            RoleName=inputs["name"],
            AssumeRolePolicyDocument=text(inputs["assumeRolePolicy"]),
            **given(
                inputs,
                Path="path",
                Description="description",
                MaxSessionDuration="maxSessionDuration",
                PermissionsBoundary="permissionsBoundary",
            ),
            **self.tagging(inputs),
        )
        return str(inputs["name"])

    def update(self, id: str, old: Props, new: Props) -> None:
        document = text(new["assumeRolePolicy"])
        self.iam.update_assume_role_policy(RoleName=id, PolicyDocument=document)
        changed = given(new, Description="description", MaxSessionDuration="maxSessionDuration")
        if changed:
            self.iam.update_role(RoleName=id, **changed)
        self.retag("role", {"RoleName": id}, old, new)

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.iam.get_role, RoleName=id)
        if found is None:
            return None
        role = found["Role"]
        return {
            "arn": role["Arn"],
            "name": id,
            "uniqueId": role["RoleId"],
            "createDate": role["CreateDate"].isoformat(),
            "tagsAll": self.cloud.tags(known),
        }

    def find(self, inputs: Props) -> str | None:
        return inputs["name"] if quietly(self.iam.get_role, RoleName=inputs["name"]) else None

    def delete(self, id: str, known: Props) -> None:
        quietly(self.iam.delete_role, RoleName=id)


@kind("aws:iam/policy:Policy")
class Policy(IamKind):
    what = "IAM Policy"
    replaces = frozenset({"path", "description"})
    name = "name"
    json = frozenset({"policy"})
    longest = 128

    def create(self, inputs: Props) -> str:
        made = self.iam.create_policy(
            PolicyName=inputs["name"],
            PolicyDocument=text(inputs["policy"]),
            **given(inputs, Path="path", Description="description"),
            **self.tagging(inputs),
        )
        return str(made["Policy"]["Arn"])

    def update(self, id: str, old: Props, new: Props) -> None:
        if text(old.get("policy")) != text(new["policy"]):
            self._make_room(id)
            document = text(new["policy"])
            self.iam.create_policy_version(
                PolicyArn=id, PolicyDocument=document, SetAsDefault=True
            )
        self.retag("policy", {"PolicyArn": id}, old, new)

    def _make_room(self, id: str) -> None:
        """IAM keeps five versions; the oldest goes, as the real provider lets it."""
        versions = self.iam.list_policy_versions(PolicyArn=id)["Versions"]
        spare = sorted(
            (each for each in versions if not each["IsDefaultVersion"]),
            key=lambda each: str(each["CreateDate"]),
        )
        if len(versions) >= 5:
            self.iam.delete_policy_version(PolicyArn=id, VersionId=spare[0]["VersionId"])

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.iam.get_policy, PolicyArn=id)
        if found is None:
            return None
        policy = found["Policy"]
        told = {"arn": id, "policyId": policy["PolicyId"], "name": policy["PolicyName"]}
        return {**told, "tagsAll": self.cloud.tags(known)}

    def find(self, inputs: Props) -> str | None:
        path, name = inputs.get("path", "/"), inputs["name"]
        arn = f"arn:{self.cloud.partition}:iam::{self.cloud.account}:policy{path}{name}"
        return arn if quietly(self.iam.get_policy, PolicyArn=arn) else None

    def delete(self, id: str, known: Props) -> None:
        told = quietly(self.iam.list_policy_versions, PolicyArn=id)
        for each in told["Versions"] if told else ():
            if not each["IsDefaultVersion"]:
                quietly(self.iam.delete_policy_version, PolicyArn=id, VersionId=each["VersionId"])
        quietly(self.iam.delete_policy, PolicyArn=id)


@kind("aws:iam/rolePolicy:RolePolicy")
class RolePolicy(IamKind):
    """Its id is `role:name`."""

    what = "IAM Role Policy"
    replaces = frozenset({"role"})
    name = "name"
    json = frozenset({"policy"})
    longest = 128

    def create(self, inputs: Props) -> str:
        self.iam.put_role_policy(
            RoleName=inputs["role"],
            PolicyName=inputs["name"],
            PolicyDocument=text(inputs["policy"]),
        )
        return f"{inputs['role']}:{inputs['name']}"

    def update(self, id: str, old: Props, new: Props) -> None:
        self.create(new)

    def read(self, id: str, known: Props) -> Props | None:
        role, name = id.split(":", 1)
        found = quietly(self.iam.get_role_policy, RoleName=role, PolicyName=name)
        return None if found is None else {"name": name, "role": role}

    def find(self, inputs: Props) -> str | None:
        id = f"{inputs['role']}:{inputs['name']}"
        return None if self.read(id, inputs) is None else id

    def delete(self, id: str, known: Props) -> None:
        role, name = id.split(":", 1)
        quietly(self.iam.delete_role_policy, RoleName=role, PolicyName=name)


@kind("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
class RolePolicyAttachment(IamKind):
    what = "IAM Role Policy Attachment"
    replaces = frozenset({"role", "policyArn"})

    def create(self, inputs: Props) -> str:
        self.iam.attach_role_policy(RoleName=inputs["role"], PolicyArn=inputs["policyArn"])
        return f"{inputs['role']}/{inputs['policyArn']}"

    def read(self, id: str, known: Props) -> Props | None:
        told = quietly(self.iam.list_attached_role_policies, RoleName=known["role"])
        attached = {each["PolicyArn"] for each in told["AttachedPolicies"]} if told else set()
        return {} if known["policyArn"] in attached else None

    def find(self, inputs: Props) -> str | None:
        there = self.read("", inputs) is not None
        return f"{inputs['role']}/{inputs['policyArn']}" if there else None

    def delete(self, id: str, known: Props) -> None:
        quietly(self.iam.detach_role_policy, RoleName=known["role"], PolicyArn=known["policyArn"])


@kind("aws:iam/instanceProfile:InstanceProfile")
class InstanceProfile(IamKind):
    what = "IAM Instance Profile"
    replaces = frozenset({"path"})
    name = "name"
    longest = 128

    def create(self, inputs: Props) -> str:
        self.iam.create_instance_profile(
            InstanceProfileName=inputs["name"],
            **given(inputs, Path="path"),
            **self.tagging(inputs),
        )
        return str(inputs["name"])

    def settle(self, id: str, inputs: Props) -> None:
        have = self._roles(id)
        want = {inputs["role"]} if inputs.get("role") else set()
        for role in have - want:
            self.iam.remove_role_from_instance_profile(InstanceProfileName=id, RoleName=role)
        for role in want - have:
            self.iam.add_role_to_instance_profile(InstanceProfileName=id, RoleName=role)

    def update(self, id: str, old: Props, new: Props) -> None:
        self.settle(id, new)
        self.retag("instance_profile", {"InstanceProfileName": id}, old, new)

    def _roles(self, id: str) -> set[str]:
        found = quietly(self.iam.get_instance_profile, InstanceProfileName=id)
        return {each["RoleName"] for each in found["InstanceProfile"]["Roles"]} if found else set()

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.iam.get_instance_profile, InstanceProfileName=id)
        if found is None:
            return None
        profile = found["InstanceProfile"]
        told = {"arn": profile["Arn"], "name": id, "uniqueId": profile["InstanceProfileId"]}
        return {**told, "tagsAll": self.cloud.tags(known)}

    def find(self, inputs: Props) -> str | None:
        named = inputs["name"]
        return named if quietly(self.iam.get_instance_profile, InstanceProfileName=named) else None

    def delete(self, id: str, known: Props) -> None:
        for role in self._roles(id):
            quietly(
                self.iam.remove_role_from_instance_profile, InstanceProfileName=id, RoleName=role
            )
        quietly(self.iam.delete_instance_profile, InstanceProfileName=id)
