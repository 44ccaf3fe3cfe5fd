"""The parts of the model that need no server: faults, prices, and what a machine is made of."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as Xml
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.runner.rehearsal.ec2.faults import Fault, Faults, error_document
from burst.runner.rehearsal.ec2.prices import STEP_S, on_demand_price, set_price, spot_price
from burst.runner.rehearsal.ec2.rules import Kind
from burst.runner.rehearsal.ec2.spec import interface_trouble, merge, spec_of
from burst.runner.rehearsal.ec2.tokens import Mismatch, Tokens

NOW = 1_800_000_000.0
names = st.text("abcdefgh0123456789.", min_size=1, max_size=12)


def test_a_fault_is_used_up() -> None:
    faults = Faults()
    faults.add(Fault("CreateFleet", "InternalError", after=False, times=2))
    found = [faults.take("CreateFleet", NOW) is not None for _ in range(3)]
    assert found == [True, True, False]


def test_a_fault_waits_for_its_own_operation() -> None:
    faults = Faults()
    faults.add(Fault("CreateFleet", "InternalError", after=False, times=1))
    assert faults.take("DescribeInstances", NOW) is None
    faults.add(Fault("*", "Unavailable", after=False, times=1))
    assert getattr(faults.take("DescribeInstances", NOW), "code", "") == "Unavailable"
    assert getattr(faults.take("CreateFleet", NOW), "code", "") == "InternalError"


def test_a_throttle_is_over_at_its_date() -> None:
    faults = Faults()
    faults.throttle("*", until=NOW + 10)
    assert all(faults.take("CreateFleet", NOW + 9) for _ in range(5))
    assert faults.take("CreateFleet", NOW + 10) is None


def test_an_error_is_written_as_ec2_writes_it() -> None:
    found = Xml.fromstring(error_document("A.Code", "less < more & so on", "request-1"))
    assert found.findtext("Errors/Error/Code") == "A.Code"
    assert found.findtext("Errors/Error/Message") == "less < more & so on"


@given(st.floats(0.01, 100), names, names, st.floats(0, 4e9))
def test_a_spot_price_is_always_positive_and_below_the_one_on_demand(
    full: float, type: str, zone: str, at: float
) -> None:
    price = spot_price(full, type, zone, at)
    assert 0 < price < full
    assert price == spot_price(full, type, zone, at)


def test_a_spot_price_drifts_by_a_fifth_at_most() -> None:
    found = {spot_price(10.0, "p5.48xlarge", "us-east-1a", step * STEP_S) for step in range(50)}
    assert len(found) > 10
    assert max(found) / min(found) < 1.1 / 0.9 + 0.001


def test_the_price_of_a_type_follows_its_accelerators() -> None:
    h100s = {
        "GpuInfo": {"Gpus": [{"Name": "H100", "Count": 8}]},
        "VCpuInfo": {"DefaultVCpus": 192},
    }
    assert 30 < on_demand_price(h100s) < 100
    assert 0 < on_demand_price({"VCpuInfo": {"DefaultVCpus": 2}}) < 1


def test_the_most_exact_price_that_was_set_holds() -> None:
    prices = {
        Kind("*", "*", "spot"): 1.0,
        Kind("p5.48xlarge", "us-east-1a", "spot"): 3.0,
        Kind("p5.48xlarge", "*", "*"): 2.0,
    }
    assert set_price(prices, Kind("p5.48xlarge", "us-east-1a", "spot")) == 3.0
    assert set_price(prices, Kind("c5.large", "us-east-1a", "spot")) == 1.0
    assert set_price(prices, Kind("c5.large", "us-east-1a", "on-demand")) is None


def test_a_token_is_of_its_operation_and_its_parameters() -> None:
    tokens = Tokens()
    asked = {"ClientToken": "t", "Count": "1"}
    tokens.keep("CreateFleet", asked, "answer")
    assert tokens.find("CreateFleet", {**asked, "DryRun": "true"}) == "answer"
    assert tokens.find("RunInstances", asked) is None
    assert tokens.find("CreateFleet", {"Count": "1"}) is None
    with pytest.raises(Mismatch):
        tokens.find("CreateFleet", {**asked, "Count": "2"})


def test_a_request_wins_over_its_template_part_by_part() -> None:
    template = {
        "InstanceType": "c5.large",
        "ImageId": "ami-1",
        "Placement": {"GroupName": "group", "AvailabilityZone": "us-east-1a"},
        "TagSpecifications": [
            _tag("instance", "a", "template"),
            _tag("instance", "b", "template"),
        ],
        "UserData": base64.b64encode(b"#!/bin/sh\n").decode(),
        "InstanceInitiatedShutdownBehavior": "terminate",
    }
    override = {
        "InstanceType": "c5.xlarge",
        "AvailabilityZone": "us-east-1b",
        "TagSpecifications": [_tag("instance", "b", "request"), _tag("volume", "c", "request")],
    }
    spec = spec_of(merge(template, override))
    assert (spec.type, spec.image, spec.zone, spec.group) == (
        "c5.xlarge",
        "ami-1",
        "us-east-1b",
        "group",
    )
    assert spec.tags == {
        "instance": {"a": "template", "b": "request"},
        "volume": {"c": "request"},
    }
    assert spec.user_data == b"#!/bin/sh\n"
    assert not spec.stops


def test_what_nothing_says_is_what_ec2_takes() -> None:
    spec = spec_of({"ImageId": "ami-1"})
    assert spec.stops
    assert (spec.spot, spec.subnet, spec.zone, spec.group) == (False, "", "", "")


CARDS = {"NetworkInfo": {"MaximumNetworkCards": 4, "EfaInfo": {"MaximumEfaInterfaces": 4}}}


def _tag(resource: str, key: str, value: str) -> dict[str, Any]:
    return {"ResourceType": resource, "Tags": [{"Key": key, "Value": value}]}


def _card(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "NetworkCardIndex": index,
        "DeviceIndex": min(index, 1),
        "InterfaceType": kind,
        **more,
    }


@pytest.mark.parametrize(
    ("cards", "code"),
    [
        ([_card(0, "efa"), _card(1, "efa-only"), _card(2, "efa-only")], ""),
        ([_card(0, "interface"), _card(1, "efa-only")], ""),
        ([_card(index, "efa") for index in range(5)], "AttachmentLimitExceeded"),
        ([_card(0, "efa"), _card(4, "interface")], "InvalidParameterValue"),
        ([_card(0, "efa-only")], "InvalidParameterValue"),
        (
            [_card(0, "efa"), _card(1, "efa-only", PrivateIpAddress="10.0.0.9")],
            "InvalidParameterValue",
        ),
        (
            [_card(0, "efa", AssociatePublicIpAddress=True), _card(1, "efa")],
            "InvalidParameterCombination",
        ),
        ([_card(1, "efa")], "InvalidParameterCombination"),
    ],
)
def test_network_interfaces_are_what_the_type_can_have(
    cards: list[dict[str, Any]], code: str
) -> None:
    spec = spec_of({"ImageId": "ami-1", "InstanceType": "p4d", "NetworkInterfaces": cards})
    found = interface_trouble(spec, CARDS)
    assert (found[0] if found else "") == code
