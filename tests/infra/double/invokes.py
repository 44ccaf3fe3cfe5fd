"""Data sources (`pulumi_aws.get_…`) that the double of Pulumi's AWS provider answers."""

from __future__ import annotations

from collections.abc import Callable

from tests.infra.double.cloud import Cloud, ProviderError
from tests.infra.double.values import Props

_DNS = {"aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-us-gov": "amazonaws.com"}


def _caller(cloud: Cloud, args: Props) -> Props:
    told = cloud.identity
    return {
        "id": told["Account"],
        "accountId": told["Account"],
        "arn": told["Arn"],
        "userId": told["UserId"],
    }


def _region(cloud: Cloud, args: Props) -> Props:
    region = args.get("region") or cloud.region
    return {
        "id": region,
        "region": region,
        "name": region,
        "endpoint": f"ec2.{region}.amazonaws.com",
    }


def _partition(cloud: Cloud, args: Props) -> Props:
    dns = _DNS[cloud.partition]
    reverse = ".".join(reversed(dns.split(".")))
    return {
        "id": cloud.partition,
        "partition": cloud.partition,
        "dnsSuffix": dns,
        "reverseDnsPrefix": reverse,
    }


def _zones(cloud: Cloud, args: Props) -> Props:
    asked = [
        {"Name": each["name"], "Values": each["values"]} for each in args.get("filters") or []
    ]
    if args.get("state"):
        asked.append({"Name": "state", "Values": [args["state"]]})
    found = cloud.client("ec2").describe_availability_zones(Filters=asked)["AvailabilityZones"]
    zones = sorted(found, key=lambda zone: str(zone["ZoneName"]))
    return {
        "id": cloud.region,
        "names": [zone["ZoneName"] for zone in zones],
        "zoneIds": [zone["ZoneId"] for zone in zones],
        "groupNames": sorted({zone.get("GroupName", cloud.region) for zone in zones}),
    }


_KNOWN: dict[str, Callable[[Cloud, Props], Props]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:index/getRegion:getRegion": _region,
    "aws:index/getPartition:getPartition": _partition,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _zones,
}


def invoke(token: str, cloud: Cloud, args: Props) -> Props:
    """
    Raises:
        ProviderError: the double has no such data source.
    """
    if token not in _KNOWN:
        raise ProviderError(f"the double of Pulumi knows no data source {token}")
    return _KNOWN[token](cloud, args)
