"""Security groups, their rules, and what else carries tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moto.ec2.responses.security_groups import SecurityGroups
from moto.ec2.responses.tags import TagResponse

from burst.runner.rehearsal.ec2.patched.base import Operations
from burst.runner.rehearsal.ec2.patched.errors import Problem

_FORGETS = {
    "DeleteInternetGateway": "InternetGatewayId",
    "DeleteLaunchTemplate": "LaunchTemplateId",
    "DeleteNetworkInterface": "NetworkInterfaceId",
    "DeleteRouteTable": "RouteTableId",
    "DeleteSecurityGroup": "GroupId",
    "DeleteSubnet": "SubnetId",
    "DeleteVolume": "VolumeId",
    "DeleteVpc": "VpcId",
    "DeleteVpcEndpoints": "VpcEndpointIds",
    "ReleaseAddress": "AllocationId",
}
"""What an operation deletes, by the parameter that names it. Instances and NAT gateways are seen
with their tags for an hour in EC2 too."""


class Groups(Operations, SecurityGroups, TagResponse):
    def call_action(self) -> Any:
        """moto knows the tags of what was deleted for ever."""
        answer = super().call_action()
        named = _FORGETS.get(self._get_action())
        status = answer[0]
        if named and status == 200:
            found = self._get_param(named, [])
            self._forget([found] if isinstance(found, str) else found)
        return answer

    def describe_tags(self) -> Any:
        """moto has another word for one of the types."""
        answer: Any = super().describe_tags()
        for each in answer.result["Tags"]:
            if each["resource_type"] == "nat-gateway":
                each["resource_type"] = "natgateway"
        return answer

    def authorize_security_group_ingress(self) -> Any:
        self._refuse_twice("ingress_rules")
        return super().authorize_security_group_ingress()

    def authorize_security_group_egress(self) -> Any:
        self._refuse_twice("egress_rules")
        return super().authorize_security_group_egress()

    def revoke_security_group_ingress(self) -> Any:
        return self._revoke("ingress_rules", super().revoke_security_group_ingress)

    def revoke_security_group_egress(self) -> Any:
        return self._revoke("egress_rules", super().revoke_security_group_egress)

    def modify_security_group_rules(self) -> Any:
        """moto wants ports where a rule is for all of them, and keeps the old group in it."""
        for each in self._get_param("SecurityGroupRules", []):
            said = each["SecurityGroupRule"]
            if said.get("IpProtocol") == "-1":
                said.setdefault("FromPort", -1)
                said.setdefault("ToPort", -1)
        answer = super().modify_security_group_rules()
        group = self.ec2_backend.get_security_group_from_id(self._get_param("GroupId"))
        for each in self._get_param("SecurityGroupRules", []):
            said, rule = each["SecurityGroupRule"], group.get_rule(each["SecurityGroupRuleId"])
            if "ReferencedGroupId" in said:
                rule.source_group["GroupId"] = said["ReferencedGroupId"]
                rule.source_group["Description"] = said.get("Description", "")
        return answer

    def delete_security_group(self) -> Any:
        """moto takes one that interfaces or other groups' rules still use."""
        id = self._get_param("GroupId")
        interfaces = self.ec2_backend.enis.values()
        used = any(group.id == id for each in interfaces for group in each.group_set)
        if used or self._named_elsewhere(id):
            raise Problem("DependencyViolation", f"resource {id} has a dependent object")
        known = self.ec2_backend.get_security_group_from_id(id)
        answer = super().delete_security_group()
        self._forget(_ids(known, "ingress_rules") | _ids(known, "egress_rules"))
        return answer

    def _named_elsewhere(self, id: str) -> bool:
        groups = [each for known in self.ec2_backend.groups.values() for each in known.values()]
        return any(
            rule.source_group.get("GroupId") == id
            for group in groups
            if group.id != id
            for rule in (*group.ingress_rules, *group.egress_rules)
        )

    def _refuse_twice(self, rules: str) -> None:
        """moto takes the same rule again if only its description is another, or it names a
        group."""
        group = self.ec2_backend.get_security_group_from_id(self._get_param("GroupId"))
        there = {_key(rule) for rule in getattr(group, rules, ())}
        for said in self._get_param("IpPermissions", []):
            for pair in said.get("UserIdGroupPairs", ()):
                key = (said.get("IpProtocol"), _ports(said), pair.get("GroupId"))
                if key in there:
                    message = f"the specified rule for {key[2]} already exists"
                    raise Problem("InvalidPermission.Duplicate", message)

    def _revoke(self, rules: str, plain: Callable[[], Any]) -> Any:
        """moto has another code for a rule that is not there, and keeps the tags of one that
        was."""
        group = self.ec2_backend.get_security_group_from_id(self._get_param("GroupId"))
        there = _ids(group, rules)
        for id in self._get_param("SecurityGroupRuleIds", []):
            if group is not None and id not in there:
                message = f"The security group rule ID '{id}' does not exist"
                raise Problem("InvalidSecurityGroupRuleId.NotFound", message)
        answer = plain()
        self._forget(there - _ids(group, rules))
        return answer

    def _forget(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.ec2_backend.tags.pop(id, None)


def _ids(group: Any, rules: str) -> set[str]:
    return {rule.id for rule in getattr(group, rules, ())}


def _key(rule: Any) -> tuple[str, Any, str]:
    ports = None if str(rule.ip_protocol) == "-1" else (int(rule.from_port), int(rule.to_port))
    return str(rule.ip_protocol), ports, rule.source_group.get("GroupId", "")


def _ports(said: Any) -> Any:
    if str(said.get("IpProtocol")) == "-1":
        return None
    return int(said.get("FromPort", -1)), int(said.get("ToPort", -1))
