"""A pool that can have no machine, or not the machines that it is meant to have, is told so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from burst.core.aws.instance_types import InstanceType
from burst.core.config.cluster import AwsPool
from burst.infra.preflight.checking import Check, Verdict
from burst.infra.preflight.image import Image
from burst.infra.preflight.places import Kind
from burst.infra.preflight.pools import check_pool

REGION = "eu-west-9"
IMAGE = Image("ami-1", "an image", "x86_64", "/dev/sda1", 75)
BOTH = ("spot", "on-demand")


def kind(
    name: str,
    slots: int = 1,
    *,
    efa: int = 0,
    machine: str = "x86_64",
    markets: tuple[str, ...] = BOTH,
) -> Kind:
    return Kind(InstanceType(name, slots, 8, efa, max(efa, 1), True), (machine,), markets)


KINDS = {
    each.type.name: each
    for each in (
        kind("g5.xlarge"),
        kind("g6.xlarge"),
        kind("g5.12xlarge", 4),
        kind("p5.48xlarge", 8, efa=32),
        kind("p4de.24xlarge", 8),
        kind("p6-b300.48xlarge", 8, efa=16, markets=("capacity-block",)),
        kind("g5g.xlarge", machine="arm64"),
    )
}
OFFERED = {
    f"{REGION}a": ("g5.xlarge", "g6.xlarge", "g5.12xlarge", "p5.48xlarge", "g5g.xlarge"),
    f"{REGION}b": ("g5.xlarge", "p6-b300.48xlarge", "p4de.24xlarge"),
}


def check(
    *types: str, kinds: Mapping[str, Kind] = KINDS, image: Image | None = IMAGE, **fields: object
) -> Check:
    settings = {"instance_types": types, "max_nodes": 2, **fields}
    pool = AwsPool.model_validate(settings)
    return check_pool("spot", pool, REGION, kinds, OFFERED, image)


def test_zones_are_told_for_the_types_that_they_have() -> None:
    found = check("g5.xlarge")
    assert found == Check("pool spot", Verdict.OK, f"g5.xlarge in {REGION}a, {REGION}b")
    assert check("g5.xlarge", "g6.xlarge").found == (
        f"g5.xlarge in {REGION}a, {REGION}b; g6.xlarge in {REGION}a"
    )


def test_a_misspelt_type_is_refused_with_what_was_meant() -> None:
    found = check("g6.xlagre")
    assert found.verdict is Verdict.FAILED
    assert found.found == f"{REGION} has no instance type g6.xlagre"
    assert "did you mean g6.xlarge for g6.xlagre?" in found.mend


def test_a_region_without_the_type_is_refused() -> None:
    found = check("g5.xlarge", kinds={})
    assert found.verdict is Verdict.FAILED
    assert "choose a region" in found.mend
    assert "did you mean g5.xlarge" not in found.mend


def test_a_type_that_no_zone_offers_is_refused() -> None:
    found = check("g5.xlarge", "lost.large", kinds={**KINDS, "lost.large": kind("lost.large")})
    assert found.verdict is Verdict.WARNING
    assert "no zone for lost.large" in found.found
    alone = check("lost.large", kinds={"lost.large": kind("lost.large")})
    assert alone.verdict is Verdict.FAILED
    assert alone.found == f"no zone of {REGION} offers lost.large"


def test_zones_that_lack_the_type_are_refused_with_those_that_have_it() -> None:
    found = check("p5.48xlarge", zones=(f"{REGION}b", f"{REGION}c"))
    assert found.verdict is Verdict.FAILED
    assert found.found == (
        f"none of {REGION}b, {REGION}c offers p5.48xlarge; {REGION} has p5.48xlarge in {REGION}a"
    )


def test_efa_of_a_type_that_has_none_is_refused() -> None:
    assert check("g5.xlarge", efa=True).verdict is Verdict.FAILED
    assert "g5.xlarge can have none" in check("g5.xlarge", efa=True).found
    assert check("p5.48xlarge", efa=True).verdict is Verdict.OK
    assert check("g5.xlarge").verdict is Verdict.OK


def test_a_type_without_efa_among_others_that_have_it_is_named() -> None:
    found = check("p5.48xlarge", "p4de.24xlarge", efa=True)
    assert found.verdict is Verdict.WARNING
    assert "no EFA for p4de.24xlarge" in found.found


def test_a_market_that_a_type_is_not_sold_on_is_refused() -> None:
    found = check("p6-b300.48xlarge")
    assert found.verdict is Verdict.FAILED
    assert "cannot be had as spot" in found.found
    assert "capacity-block" in found.mend
    some = check("p5.48xlarge", "p6-b300.48xlarge")
    assert some.verdict is Verdict.WARNING
    assert "not to be had as spot: p6-b300.48xlarge" in some.found


def test_an_image_for_another_processor_is_refused() -> None:
    found = check("g5g.xlarge")
    assert found.verdict is Verdict.FAILED
    assert "g5g.xlarge runs arm64, and the image is for x86_64" in found.found
    assert check("g5g.xlarge", image=None).verdict is Verdict.OK  # nothing is known of it


def test_types_that_differ_in_slots_are_refused_unless_slots_are_said() -> None:
    found = check("g5.xlarge", "g5.12xlarge")
    assert found.verdict is Verdict.FAILED
    assert "g5.xlarge has 1, g5.12xlarge has 4" in found.found
    assert check("g5.xlarge", "g5.12xlarge", slots_per_node=1).verdict is Verdict.OK


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = check("g5.xlarge", "g5.12xlarge", efa=True)
    assert "differ in slots" in found.found
    assert "efa is asked for" in found.found


@pytest.mark.parametrize("efa", [False, True])
def test_whatever_is_found_has_a_mend_unless_it_is_good(efa: bool) -> None:
    for name in (*KINDS, "nonsense"):
        found = check(name, efa=efa)
        assert bool(found.mend) is (found.verdict is not Verdict.OK), found
