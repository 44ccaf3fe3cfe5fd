"""The page about the AWS account says what is so."""

from __future__ import annotations

import re

import pytest

from burst.core.aws.names import role_name
from burst.core.config.cluster import Aws
from burst.infra.components.alarms import alarms_of
from burst.infra.preflight import prices
from burst.infra.services import SERVICES
from tests.test_documentation import pages
from tests.test_documentation_cloud import rows_of

AWS = "docs/aws.md"


def test_every_field_of_aws_is_described_with_its_default() -> None:
    rows = rows_of(AWS)
    for name, field in Aws.model_fields.items():
        assert name in rows, name
        default = str(field.default).strip("()").lower()
        told = rows[name][0].strip('`"')
        if name not in ("region", "account", "image") and default not in ("", "none"):
            assert told == default, name


def test_every_alarm_is_in_the_page() -> None:
    assert {alarm.name for alarm in alarms_of("lab")} == {
        name
        for name in rows_of(AWS)
        if re.fullmatch(r"burst-lab-(leak|checkpoint|failing|silent)", name)
    }


def test_every_policy_and_role_is_in_the_page() -> None:
    rows = set(rows_of(AWS))
    for policy in ("viewer", "submitter", "auditor", "admin"):
        assert f"policy `{role_name('lab', policy)}" in rows
    for role in ("github", "node", "runner"):
        assert f"role `{role_name('lab', role)}" in rows


@pytest.mark.parametrize(
    ("told", "price"),
    [
        ("${:.2f} a month each", prices.ENDPOINT_H * prices.MONTH_H),
        ("${:.2f} a month, and by the GB", (prices.NAT_H + prices.ADDRESS_H) * prices.MONTH_H),
    ],
)
def test_what_is_idle_costs_what_the_page_says(told: str, price: float) -> None:
    assert told.format(price) in pages()[AWS]


def test_words_for_endpoints_stand_for_as_many_services_as_the_page_says() -> None:
    numbers = {2: "two", 3: "three"}
    for word, services in SERVICES.items():
        assert f"{numbers[len(services)]} for `{word}`" in pages()[AWS]
