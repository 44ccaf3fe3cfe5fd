"""Security groups of the double's AWS provider, and their rules."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.infra.double.kinds import kind
from tests.infra.double.providers.base import Ec2Kind, given
from tests.infra.double.values import Props


@kind("aws:ec2/securityGroup:SecurityGroup")
class SecurityGroup(Ec2Kind):
    """Rules within it (`ingress`, `egress`) are refused: `vpc.SecurityGroup…Rule` is what one
    uses. As the real provider, it takes away the rule that lets all out."""

    what = "EC2 Security Group"
    tagged, describe = "security-group", "describe_security_groups"
    listed, key = "SecurityGroups", "GroupId"
    replaces = frozenset({"vpcId", "description"})
    name = "name"

    def create(self, inputs: Props) -> str:
        asked = {
            "GroupName": inputs["name"],
            "Description": inputs.get("description") or "Managed by Pulumi",
            **given(inputs, VpcId="vpcId"),
        }
        made = self.ec2.create_security_group(**asked, **self.specifications(inputs))
        return str(made["GroupId"])

    def settle(self, id: str, inputs: Props) -> None:
        found = self.one(id) or {}
        out = [each for each in found.get("IpPermissionsEgress") or [] if _lets_all_out(each)]
        if out and not self._rules(id):
            self.ec2.revoke_security_group_egress(GroupId=id, IpPermissions=[_ALL])
        if inputs.get("ingress") or inputs.get("egress"):
            raise ValueError("the double takes rules as resources of their own alone")

    def _rules(self, id: str) -> list[Any]:
        """Those that have tags or words: made on purpose."""
        here = [{"Name": "group-id", "Values": [id]}]
        rules = self.ec2.describe_security_group_rules(Filters=here)["SecurityGroupRules"]
        return [each for each in rules if each.get("Tags") or each.get("Description")]

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None:
            return None
        return {
            "arn": self.arn(f"security-group/{id}"),
            "name": found["GroupName"],
            "vpcId": found["VpcId"],
            "ownerId": self.cloud.account,
            **self.with_tags(found),
        }

    def find(self, inputs: Props) -> str | None:
        asked = [
            {"Name": "group-name", "Values": [inputs["name"]]},
            {"Name": "vpc-id", "Values": [inputs["vpcId"]]},
        ]
        found = self.ec2.describe_security_groups(Filters=asked)["SecurityGroups"]
        return str(found[0]["GroupId"]) if found else None

    def delete(self, id: str, known: Props) -> None:
        self.ended(self.ec2.delete_security_group, GroupId=id)


_ALL = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def _lets_all_out(rule: Props) -> bool:
    ranges = [each["CidrIp"] for each in rule.get("IpRanges") or []]
    return rule.get("IpProtocol") == "-1" and ranges == ["0.0.0.0/0"]


class _Rule(Ec2Kind):
    """A rule; its id is AWS's `sgr-…`."""

    tagged, describe = "security-group-rule", "describe_security_group_rules"
    listed, key = "SecurityGroupRules", "SecurityGroupRuleId"
    replaces = frozenset(
        {
            "securityGroupId",
            "ipProtocol",
            "fromPort",
            "toPort",
            "cidrIpv4",
            "cidrIpv6",
            "prefixListId",
            "referencedSecurityGroupId",
            "description",
        }
    )
    out: ClassVar[bool]

    def _call(self, what: str) -> Any:
        return getattr(self.ec2, f"{what}_security_group_{'egress' if self.out else 'ingress'}")

    def create(self, inputs: Props) -> str:
        self._call("authorize")(
            GroupId=inputs["securityGroupId"],
            IpPermissions=[_permission(inputs)],
            **self.specifications(inputs),
        )
        id = self.find(inputs)
        assert id is not None, "EC2 does not show the rule that it has just made"
        return id

    def find(self, inputs: Props) -> str | None:
        here = [{"Name": "group-id", "Values": [inputs["securityGroupId"]]}]
        for each in self.ec2.describe_security_group_rules(Filters=here)["SecurityGroupRules"]:
            if each["IsEgress"] == self.out and _shape(each) == _wanted(inputs):
                return str(each["SecurityGroupRuleId"])
        return None

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None:
            return None
        arn = self.arn(f"security-group-rule/{id}")
        return {"arn": arn, "securityGroupRuleId": id, **self.with_tags(found)}

    def delete(self, id: str, known: Props) -> None:
        self.ended(
            self._call("revoke"),
            GroupId=known["securityGroupId"],
            IpPermissions=[_permission({**known, "description": None})],
        )


@kind("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
class IngressRule(_Rule):
    what = "VPC Security Group Ingress Rule"
    out = False


@kind("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule")
class EgressRule(_Rule):
    what = "VPC Security Group Egress Rule"
    out = True


def _permission(inputs: Props) -> Props:
    words = given(inputs, Description="description")
    made = {
        "IpProtocol": str(inputs["ipProtocol"]),
        **given(inputs, FromPort="fromPort", ToPort="toPort"),
    }
    if inputs.get("cidrIpv4"):
        made["IpRanges"] = [{"CidrIp": inputs["cidrIpv4"], **words}]
    if inputs.get("cidrIpv6"):
        made["Ipv6Ranges"] = [{"CidrIpv6": inputs["cidrIpv6"], **words}]
    if inputs.get("prefixListId"):
        made["PrefixListIds"] = [{"PrefixListId": inputs["prefixListId"], **words}]
    if inputs.get("referencedSecurityGroupId"):
        made["UserIdGroupPairs"] = [{"GroupId": inputs["referencedSecurityGroupId"], **words}]
    return made


def _shape(rule: Props) -> tuple[Any, ...]:
    """What makes a rule the rule it is, as EC2 tells it."""
    whole = str(rule["IpProtocol"]) == "-1"
    return (
        str(rule["IpProtocol"]),
        None if whole else rule.get("FromPort"),
        None if whole else rule.get("ToPort"),
        rule.get("CidrIpv4"),
        rule.get("CidrIpv6"),
        rule.get("PrefixListId"),
        (rule.get("ReferencedGroupInfo") or {}).get("GroupId"),
    )


def _wanted(inputs: Props) -> tuple[Any, ...]:
    whole = str(inputs["ipProtocol"]) == "-1"
    return (
        str(inputs["ipProtocol"]),
        None if whole else inputs.get("fromPort"),
        None if whole else inputs.get("toPort"),
        inputs.get("cidrIpv4"),
        inputs.get("cidrIpv6"),
        inputs.get("prefixListId"),
        inputs.get("referencedSecurityGroupId"),
    )
