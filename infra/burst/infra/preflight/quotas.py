"""Whether the account may have as many machines as the pools may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burst.core.aws.quotas import Quota, console_url, quota_of
from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.core.units import counted
from burst.infra.preflight.asking import Asking, Unknown
from burst.infra.preflight.checking import Check, failed, not_known, ok, warning
from burst.infra.preflight.places import pools_of

_SLOW = "AWS takes hours to days to decide"


@dataclass(frozen=True)
class Allowed:
    """What a quota lets a pool have."""

    quota: Quota
    market: str
    vcpus: float | Unknown | None
    """None where burst does not know the quota's code."""
    type: str
    """The smallest of the pool's types that count against it."""
    per_node: int
    """vCPUs of that."""

    @property
    def nodes(self) -> int | None:
        """How many nodes; None where that is not known."""
        if isinstance(self.vcpus, Unknown) or self.vcpus is None:
            return None
        return int(self.vcpus // self.per_node)


def quotas_of(config: ClusterConfig) -> list[Quota]:
    """Those that the pools' machines count against, once each, as far as their codes are known."""
    found = {
        quota.code: quota
        for pool in pools_of(config).values()
        for market in markets_of(pool)
        for name in pool.instance_types
        if (quota := quota_of(market, name)).code
    }
    return list(found.values())


def markets_of(pool: AwsPool) -> list[str]:
    """Where a pool may buy."""
    if pool.market == "spot" and pool.on_demand_after is None:
        return ["spot"]
    return ["on-demand"] if pool.market == "on-demand" else ["spot", "on-demand"]


def look_quota(asking: Asking, service: str, code: str) -> float | Unknown:
    """What the account has of a quota: what was granted to it, or else what every account has."""

    def question() -> float:
        client = asking.client("service-quotas")
        asked = {"ServiceCode": service, "QuotaCode": code}
        try:
            found = client.get_service_quota(**asked)
        except client.exceptions.NoSuchResourceException:
            found = client.get_aws_default_service_quota(**asked)
        return float(found["Quota"]["Value"])

    what = f"cannot read the service quota {code}"
    return asking.ask(what, "servicequotas:GetServiceQuota", question)


def check_quota(
    name: str,
    pool: AwsPool,
    region: str,
    vcpus: Mapping[str, int],
    quotas: Mapping[str, float | Unknown],
) -> Check:
    """Whether the quotas of a pool's machines let it have `max_nodes`.

    Args:
        vcpus: of each of its types.
        quotas: by code.
    """
    label = f"quota of {name}"
    shares = [each for market in markets_of(pool) for each in _shares(pool, market, vcpus, quotas)]
    told = [each for each in shares if each.nodes is not None]
    unread = [each.vcpus for each in shares if isinstance(each.vcpus, Unknown)]
    if not told:
        return not_known(label, unread[0]) if unread else _no_code(label, shares)
    found = "; ".join(map(_in_words, told))
    most = sum(each.nodes or 0 for each in told)
    if len(told) < len(shares):
        return warning(label, f"{found}; not known: {_unknown(shares)}", "look at those yourself")
    if most == 0:
        return failed(label, f"{found}: nothing can be launched", _ask(told, pool, region))
    if most < pool.max_nodes:
        return warning(label, f"{found}, of max_nodes {pool.max_nodes}", _ask(told, pool, region))
    return ok(label, found)


def _shares(
    pool: AwsPool,
    market: str,
    vcpus: Mapping[str, int],
    quotas: Mapping[str, float | Unknown],
) -> list[Allowed]:
    groups: dict[Quota, list[str]] = {}
    for each in pool.instance_types:
        groups.setdefault(quota_of(market, each), []).append(each)
    found = []
    for quota, types in groups.items():
        least = min(types, key=lambda each: vcpus[each])
        found.append(Allowed(quota, market, quotas.get(quota.code), least, vcpus[least]))
    return found


def _in_words(share: Allowed) -> str:
    nodes = share.nodes or 0
    value = share.vcpus if isinstance(share.vcpus, float) else 0.0
    allowed = f"{counted(nodes, 'node')} of {share.type}" if nodes else f"no {share.type}"
    needs = "" if nodes or not value else f", which has {share.per_node}"
    return f"{share.quota.name} ({share.quota.code}): {value:,.0f} vCPUs, {allowed}{needs}"


def _ask(told: list[Allowed], pool: AwsPool, region: str) -> str:
    """How to have enough of the first of them, which the pool's settings prefer."""
    first = told[0]
    needed = pool.max_nodes * first.per_node
    url = console_url(region, first.quota.code)
    return f"ask for {needed:,} vCPUs ({_SLOW}): {url}"


def _no_code(label: str, shares: list[Allowed]) -> Check:
    return warning(
        label,
        f"burst does not know the code of {_unknown(shares)}",
        "look in the Service Quotas console whether it is 0",
    )


def _unknown(shares: list[Allowed]) -> str:
    return ", ".join(str(each.quota) for each in shares if each.nodes is None)
