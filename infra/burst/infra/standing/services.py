"""What the file asks for that is paid by the hour: the NAT gateway, the interface endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burst.core.aws.names import CLUSTER
from burst.core.config.cluster import Aws
from burst.infra.preflight.asking import Asking, Unknown
from burst.infra.preflight.checking import Check, failed, not_known, ok
from burst.infra.services import SERVICES
from burst.infra.standing import BY_HAND
from burst.infra.standing.network import Subnet

_COMING = ("available", "pending", "pendingacceptance")


@dataclass(frozen=True)
class Services:
    """Those of the cluster's that are there."""

    gateways: tuple[str, ...]
    """Ids of NAT gateways."""
    endpoints: frozenset[str]
    """Of interface endpoints: `ssm`, `ecr.api`, …"""


def look_services(asking: Asking, cluster: str) -> Services | Unknown:
    def question() -> Services:
        ec2 = asking.client("ec2")
        tagged = [{"Name": f"tag:{CLUSTER}", "Values": [cluster]}]
        gateways = ec2.describe_nat_gateways(Filter=tagged)["NatGateways"]
        endpoints = ec2.describe_vpc_endpoints(Filters=tagged)["VpcEndpoints"]
        prefix = f"com.amazonaws.{asking.region}."
        return Services(
            tuple(each["NatGatewayId"] for each in gateways if _is_there(each)),
            frozenset(
                str(each["ServiceName"]).removeprefix(prefix)
                for each in endpoints
                if each.get("VpcEndpointType") == "Interface" and _is_there(each)
            ),
        )

    what = f"cannot learn what nodes of {cluster} reach beyond the table and the bucket"
    action = "ec2:DescribeNatGateways and ec2:DescribeVpcEndpoints"
    return asking.ask(what, action, question)


def check_services(
    aws: Aws, found: Services | Unknown, subnets: Sequence[Subnet] | Unknown
) -> Check | None:
    """Whether what the file asks for is there; None where it asks for nothing."""
    label = "ways out"
    wanted = [name for word in dict.fromkeys(aws.endpoints) for name in SERVICES[word]]
    if not aws.nat and not wanted:
        return None
    if isinstance(found, Unknown):
        return not_known(label, found)
    missing = [f"the endpoint of {each}" for each in wanted if each not in found.endpoints]
    if aws.nat and not found.gateways:
        missing.insert(0, "the NAT gateway")
    if missing:
        return failed(label, f"not there: {', '.join(missing)}", BY_HAND)
    known = [] if isinstance(subnets, Unknown) else subnets
    cut = [each.zone for each in known if "internet" not in each.ways] if aws.nat else []
    if cut:
        said = f"there is no route to the NAT gateway from {', '.join(cut)}"
        return failed(label, said, BY_HAND)
    there = [*(["NAT gateway"] if aws.nat else []), *(f"endpoint of {each}" for each in wanted)]
    return ok(label, ", ".join(there))


def _is_there(each: object) -> bool:
    state = each.get("State", "available") if isinstance(each, dict) else ""
    return str(state).lower() in _COMING
