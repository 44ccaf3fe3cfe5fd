"""EC2's error codes: each is exactly of one class, and the rest is a defect."""

from __future__ import annotations

import pytest

from burst.core.model import RefusalKind
from burst.runner.pools.aws.codes import Place, back_off, kind_of, refusal

NOW = 1_800_000_000.0
P5 = Place("spot", "us-east-1a", "subnet-1", "p5.48xlarge")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InsufficientInstanceCapacity", "capacity"),
        ("UnfulfillableCapacity", "capacity"),
        ("InsufficientCapacity", "capacity"),
        ("SpotMaxPriceTooLow", "capacity"),
        ("Unsupported", "capacity"),
        ("ReservationCapacityExceeded", "capacity"),
        ("MaxSpotInstanceCountExceeded", "quota"),
        ("VcpuLimitExceeded", "quota"),
        ("MaxFleetCountExceeded", "quota"),
        ("InsufficientFreeAddressesInSubnet", "network"),
        ("UnauthorizedOperation", "permission"),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "permission"),
        ("RequestLimitExceeded", "throttle"),
        ("InvalidIamInstanceProfile.NotFound", "bug"),
        ("InvalidLaunchTemplateName.NotFoundException", "bug"),
        ("InvalidParameterValue", "bug"),
        ("insufficientinstancecapacity", "bug"),
        ("", "bug"),
    ],
)
def test_a_code_is_of_one_class(code: str, kind: str) -> None:
    assert kind_of(code) == kind


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("InsufficientInstanceCapacity", "spot/us-east-1a/p5.48xlarge"),
        ("MaxSpotInstanceCountExceeded", "spot/*/P5"),
        ("VcpuLimitExceeded", "spot/*/P5"),
        ("InsufficientFreeAddressesInSubnet", "*/subnet-1/*"),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "spot/*/*"),
        ("UnauthorizedOperation", "*"),
        ("InvalidIamInstanceProfile.NotFound", "*"),
    ],
)
def test_what_rests_is_what_the_error_is_about(code: str, key: str) -> None:
    assert refusal(P5, code, "no.", NOW)[0] == key


def test_what_ec2_does_not_say_is_every_offer() -> None:
    assert refusal(Place("spot"), "InsufficientCapacity", "", NOW)[0] == "spot/*/*"
    assert refusal(Place("spot"), "MaxFleetCountExceeded", "", NOW)[0] == "spot/*/*"
    assert refusal(Place("spot"), "InsufficientFreeAddressesInSubnet", "", NOW)[0] == "*/*/*"


def test_a_quota_is_named_so_that_it_can_be_raised() -> None:
    made = refusal(P5, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded", NOW)[1]
    assert made.code == "MaxSpotInstanceCountExceeded"
    assert made.text.startswith("Max spot instance count exceeded")
    assert "All P5 Spot Instance Requests" in made.text
    assert "L-C4BD4855" in made.text


def test_the_missing_role_is_explained() -> None:
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    made = refusal(P5, code, "The provided credentials do not have permission", NOW)[1]
    assert "AWSServiceRoleForEC2Spot" in made.text
    assert "create-service-linked-role" in made.text


def test_ec2s_own_words_are_always_shown() -> None:
    made = refusal(P5, "SomethingNew", "It broke.", NOW)[1]
    assert (made.kind, made.code, made.text) == (RefusalKind.BUG, "SomethingNew", "It broke")
    assert refusal(P5, "SomethingNew", "", NOW)[1].text == "SomethingNew"


def test_rests_double_from_three_minutes_to_half_an_hour() -> None:
    rests = [back_off(RefusalKind.CAPACITY, tries) for tries in range(1, 8)]
    assert rests == [180, 360, 720, 1440, 1800, 1800, 1800]
    made = refusal(P5, "InsufficientInstanceCapacity", "none", NOW)[1]
    assert (made.tries, made.at, made.until) == (1, NOW, NOW + 180)
