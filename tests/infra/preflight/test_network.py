"""The network has room for the nodes, and the account for the network."""

from __future__ import annotations

from burst.core.aws.instance_types import known_type
from burst.core.errors import Refused
from burst.infra.preflight.asking import Unknown
from burst.infra.preflight.checking import Check, Verdict
from burst.infra.preflight.network import Vpcs, check_network
from tests.infra.preflight.clients import SPOT, cluster

ZONES = {"us-east-1a": ("g5.xlarge", "p5.48xlarge"), "us-east-1b": ("g5.xlarge",)}
TYPES = {
    name: kind
    for name in ("g5.xlarge", "g6.xlarge", "p5.48xlarge")
    if (kind := known_type(name)) is not None
}
FREE = Vpcs(1, ours=False, quota=5.0)


def check(aws: str = "", vpcs: Vpcs | Unknown = FREE, spot: str = SPOT) -> Check:
    return check_network(cluster(aws=aws, spot=spot), ZONES, TYPES, vpcs)


def test_the_addresses_of_a_zone_are_a_sixteenth_less_what_aws_keeps() -> None:
    # 65,536 / 16 - 5, and 4,096 / 16 - 5
    assert check().found == "10.86.0.0/16, 4,091 addresses in each of 2 zones"
    assert check("cidr: 10.86.0.0/20").found.startswith("10.86.0.0/20, 251 addresses")
    assert check().verdict is Verdict.OK


def test_nodes_that_do_not_fit_are_told() -> None:
    spot = "{kind: aws, instance_types: [g5.xlarge], max_nodes: 503}"
    found = check("cidr: 10.86.0.0/20", spot=spot)  # 2 zones × 251 = 502
    assert found.verdict is Verdict.WARNING
    assert "spot could need 503" in found.found
    fits = "{kind: aws, instance_types: [g5.xlarge], max_nodes: 502}"
    assert check("cidr: 10.86.0.0/20", spot=fits).verdict is Verdict.OK


def test_a_machine_with_many_interfaces_needs_as_many_addresses() -> None:
    """A p5.48xlarge has an address on every fourth of its 32 cards: 8."""
    pool = "{{kind: aws, instance_types: [p5.48xlarge], max_nodes: {}, efa: true}}"
    assert check("cidr: 10.86.0.0/20", spot=pool.format(31)).verdict is Verdict.OK  # 248
    found = check("cidr: 10.86.0.0/20", spot=pool.format(32))
    assert "could need 256" in found.found


def test_the_addresses_of_containers_are_kept_away_from() -> None:
    found = check("cidr: 172.17.0.0/16")
    assert found.verdict is Verdict.WARNING
    assert "172.17.0.0/16" in found.found
    assert check("cidr: 172.18.0.0/16").verdict is Verdict.OK


def test_an_account_that_may_have_no_more_vpcs_is_refused_with_the_quota() -> None:
    full = check(vpcs=Vpcs(5, ours=False, quota=5.0))
    assert full.verdict is Verdict.FAILED
    assert '"VPCs per Region" (L-F678F1CE)' in full.found
    assert "servicequotas" in full.mend
    assert check(vpcs=Vpcs(5, ours=True, quota=5.0)).verdict is Verdict.OK
    unread = Unknown(Refused("no", why="no"), "servicequotas:GetServiceQuota")
    assert check(vpcs=Vpcs(5, ours=False, quota=unread)).verdict is Verdict.OK


def test_vpcs_that_may_not_be_counted_are_a_warning() -> None:
    found = check(vpcs=Unknown(Refused("no", why="no"), "ec2:DescribeVpcs"))
    assert found.verdict is Verdict.WARNING
    assert "ec2:DescribeVpcs" in found.mend
