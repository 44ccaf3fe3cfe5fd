"""Who asks, in which account, and whether that has the region."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from burst.core.errors import BurstError, ConfigError, Refused
from burst.infra.preflight.asking import Asking, Unknown

_HOMES = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
"""By partition, the region that every account of it has."""
_PARTITIONS = tuple(_HOMES)


@dataclass(frozen=True)
class Identity:
    account: str
    partition: str
    arn: str
    """Of whoever asks."""


def look_identity(asking: Asking) -> Identity | Unknown:
    def question() -> Identity:
        found = asking.client("sts").get_caller_identity()
        arn = str(found["Arn"])
        return Identity(str(found["Account"]), arn.split(":")[1], arn)

    return asking.ask("cannot learn whose AWS account this is", "sts:GetCallerIdentity", question)


def look_regions(asking: Asking) -> dict[str, str] | Unknown:
    """Every region of the partition, with what EC2 says of it: `opt-in-not-required`, `opted-in`
    or `not-opted-in`. Asked in a region that every account has: the wanted one would refuse keys
    that are good elsewhere."""

    def question() -> dict[str, str]:
        found = asking.client("ec2", home_of(asking.region)).describe_regions(AllRegions=True)
        return {each["RegionName"]: str(each.get("OptInStatus", "")) for each in found["Regions"]}

    what = "cannot learn which regions the account has"
    return asking.ask(what, "ec2:DescribeRegions", question)


def home_of(region: str) -> str:
    """A region of the same partition that every account has."""
    for begin, partition in (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov")):
        if region.startswith(begin):
            return _HOMES[partition]
    return _HOMES["aws"]


def known_regions(partition: str = "aws") -> list[str]:
    """What the installed boto3 knows of."""
    from botocore.session import Session

    found: list[str] = Session().get_available_regions("ec2", partition_name=partition)
    return found


def region_error(region: str, regions: dict[str, str] | Unknown) -> BurstError | None:
    """Why nothing can be made in the region; None where that is not known to be so."""
    if isinstance(regions, Unknown):
        every = [each for partition in _PARTITIONS for each in known_regions(partition)]
        # A region may be younger than the installed boto3, but then EC2 would have to tell of it.
        return None if region in every else _no_region(region, every)
    if region not in regions:
        return _no_region(region, list(regions))
    if regions[region] == "not-opted-in":
        return Refused(
            f"the account has not enabled the region {region}",
            why="it is one of those that have to be enabled first",
            mend=f"enable it: `aws account enable-region --region-name {region}`, or name another "
            "one in aws.region of burst.yaml",
        )
    return None


def _no_region(region: str, known: list[str]) -> ConfigError:
    near = difflib.get_close_matches(region, known, n=1)
    return ConfigError(
        f"aws.region in burst.yaml: there is no region {region!r}",
        mend=f"did you mean {near[0]!r}?" if near else "name one such as us-east-1",
    )
