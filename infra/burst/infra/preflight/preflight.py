"""All that is looked at before anything is made, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from burst.core.aws.account import require_account
from burst.core.aws.templates import template_for
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import BurstError
from burst.infra.facts import Facts
from burst.infra.preflight.asking import Asking, Unknown, at_once
from burst.infra.preflight.checking import Check, Verdict, failed, not_known, ok, refused, warning
from burst.infra.preflight.claims import Claim, check_claims, look_claims
from burst.infra.preflight.gathering import Seen, aws_of, facts_of, questions_of
from burst.infra.preflight.identity import Identity, region_error
from burst.infra.preflight.image import Image
from burst.infra.preflight.network import check_network, look_vpcs
from burst.infra.preflight.places import Kind, pools_of
from burst.infra.preflight.pools import check_pool
from burst.infra.preflight.quotas import check_quota, look_quota, quotas_of
from burst.infra.preflight.shared import (
    check_github,
    check_spot_role,
    look_github,
    look_spot_role,
    needs_spot,
)

_ENOUGH_CALLS = 110
"""Of a function at once, where some may be kept for the runner: AWS leaves 100 to the others."""


@dataclass(frozen=True)
class Preflight:
    facts: Facts | None
    """None where AWS did not tell all of them, or nothing can be made."""
    checks: tuple[Check, ...]

    @property
    def failed(self) -> list[Check]:
        return [each for each in self.checks if each.verdict is Verdict.FAILED]


def preflight(config: ClusterConfig, environ: Mapping[str, str]) -> Preflight:
    """Look at the account: may it be, can it be, is there room. Nothing is changed.

    What AWS refuses or does not tell becomes a check, never an error: one that says which
    permission is missing, where that is the cause.

    Args:
        config: of a cluster with `aws`.
        environ: whose credentials ask, and where servers are that are not AWS's own, as AWS's
            tools read it.

    Raises:
        ConfigError: the cluster has no side in AWS.
    """
    asking = Asking(aws_of(config).region, environ)
    try:
        answers = at_once({**questions_of(config, asking), **_more_questions(config, asking)})
        seen = Seen(**{name: answers.pop(name) for name in Seen.__dataclass_fields__})
        entry = _check_entry(config, seen)
        if any(each.verdict is Verdict.FAILED for each in entry):
            return Preflight(None, tuple(entry))  # all else would fail for the same reason
        assert isinstance(seen.identity, Identity)
        claims = look_claims(asking, config.cluster, seen.identity, _templates(config, seen))
    finally:
        asking.close()
    checks = (*entry, *_check_rest(config, seen, answers, claims))
    return Preflight(_facts(config, seen), checks)


def _more_questions(config: ClusterConfig, asking: Asking) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {
        quota.code: partial(look_quota, asking, "ec2", quota.code) for quota in quotas_of(config)
    }
    found["vpcs"] = lambda: look_vpcs(asking, config.cluster)
    if needs_spot(config):
        found["spot role"] = lambda: look_spot_role(asking)
    if aws_of(config).github:
        found["github"] = lambda: look_github(asking)
    return found


def _check_entry(config: ClusterConfig, seen: Seen) -> list[Check]:
    """Who asks, in which account, and whether that has the region."""
    region = aws_of(config).region
    wrong = region_error(region, seen.regions)
    identity = seen.identity
    if isinstance(identity, Unknown):
        if wrong is not None:  # which is why the keys were not accepted there
            return [refused("region", wrong)]
        return [not_known("credentials", identity, needed=True)]
    checks = [ok("credentials", identity.arn)]
    try:
        require_account(config, identity.account)
    except BurstError as error:
        return [*checks, refused("account", error)]
    checks.append(ok("account", identity.account))
    return [*checks, ok("region", region) if wrong is None else refused("region", wrong)]


def _check_rest(
    config: ClusterConfig,
    seen: Seen,
    answers: Mapping[str, Any],
    claims: list[Claim | Unknown],
) -> Iterator[Check]:
    yield from _check_pools(config, seen, answers)
    if seen.image is not None:
        yield _check_image(config, seen.image)
    if "spot role" in answers:
        yield check_spot_role(answers["spot role"])
    if "github" in answers:
        yield check_github(answers["github"])
    facts = _facts(config, seen)
    if facts is not None and facts.zones:
        yield check_network(config, facts.zones, facts.types, answers["vpcs"])
    if config.has_function:
        yield _check_function(seen.executions)
    yield check_claims(config.cluster, claims)


def _check_pools(config: ClusterConfig, seen: Seen, answers: Mapping[str, Any]) -> Iterator[Check]:
    pools, region = pools_of(config), aws_of(config).region
    if not pools:
        yield ok("pools", "none in AWS: table, bucket and runner, and no network")
        return
    kinds, offered = seen.kinds, seen.offered
    for label, unknown in (("instance types", kinds), ("zones", offered)):
        if isinstance(unknown, Unknown):
            yield not_known(label, unknown, needed=True)
    if isinstance(kinds, Unknown) or isinstance(offered, Unknown):
        return
    image = None if isinstance(seen.image, Unknown) else seen.image
    for name, pool in pools.items():
        yield check_pool(name, pool, region, kinds, offered, image)
        if all(each in kinds for each in pool.instance_types):
            vcpus = {each: kinds[each].type.vcpus for each in pool.instance_types}
            yield check_quota(name, pool, region, vcpus, answers)


def _check_image(config: ClusterConfig, image: Image | Unknown) -> Check:
    label, disk = "image", aws_of(config).disk_gib
    if isinstance(image, Unknown):
        return not_known(label, image, needed=True)
    if image.root_gib > disk:
        return failed(
            label,
            f"{image.id} needs a root disk of {image.root_gib} GiB, and nodes get {disk}",
            f"set aws.disk_gib to {image.root_gib} or more in burst.yaml",
        )
    return ok(label, f"{image.id} ({image.name})" if image.name else image.id)


def _check_function(executions: int | Unknown) -> Check:
    label = "function"
    if isinstance(executions, Unknown):
        if executions.denied:
            return not_known(label, executions)
        return not_known(label, executions, needed=True)
    said = f"the account may have {executions:,} calls at once"
    if executions < _ENOUGH_CALLS:
        return warning(
            label,
            f"{said}: none can be kept for the runner, and other functions may take its turn",
            'ask for more of the quota "Concurrent executions" (L-B99A9384) of AWS Lambda',
        )
    return ok(label, said)


def _facts(config: ClusterConfig, seen: Seen) -> Facts | None:
    try:
        return facts_of(config, seen)
    except BurstError:
        return None  # a check says why


def _templates(config: ClusterConfig, seen: Seen) -> list[str]:
    """Names of the launch templates that the pools will have."""
    kinds: Mapping[str, Kind] = {} if isinstance(seen.kinds, Unknown) else seen.kinds
    found = [
        template_for(config.cluster, name, kinds[each].type, pool.efa)
        for name, pool in pools_of(config).items()
        for each in pool.instance_types
        if each in kinds
    ]
    return list(dict.fromkeys(found))
