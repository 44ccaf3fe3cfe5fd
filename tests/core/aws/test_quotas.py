"""Which service quota a machine counts against, and where a person asks for more of it."""

from __future__ import annotations

import pytest

from burst.core.aws.quotas import console_url, quota_of


@pytest.mark.parametrize(
    ("market", "type", "short", "code"),
    [
        ("spot", "p5.48xlarge", "P5", "L-C4BD4855"),
        ("spot", "p5en.48xlarge", "P5", "L-C4BD4855"),
        ("spot", "p4d.24xlarge", "P4-P3-P2", "L-7212CCBC"),
        ("spot", "p3dn.24xlarge", "P4-P3-P2", "L-7212CCBC"),
        ("spot", "g6e.xlarge", "G-VT", "L-3819A6DF"),
        ("spot", "c7i.large", "Standard", "L-34B43A08"),
        ("spot", "im4gn.large", "Standard", "L-34B43A08"),
        ("spot", "p6-b200.48xlarge", "P6", ""),
        ("on-demand", "p5.48xlarge", "P", "L-417A185B"),
        ("on-demand", "p6-b200.48xlarge", "P", "L-417A185B"),
        ("on-demand", "g5.xlarge", "G-VT", "L-DB2E81BA"),
        ("on-demand", "m5.large", "Standard", "L-1216C47A"),
        ("on-demand", "hpc7a.96xlarge", "HPC", "L-F7808C92"),
    ],
)
def test_a_type_counts_against_one_quota(market: str, type: str, short: str, code: str) -> None:
    quota = quota_of(market, type)
    assert (quota.short, quota.code) == (short, code)
    assert quota.short in str(quota) or quota.code in str(quota)


@pytest.mark.parametrize(
    ("region", "begin"),
    [
        ("eu-central-1", "https://eu-central-1.console.aws.amazon.com/servicequotas/"),
        ("cn-north-1", "https://console.amazonaws.cn/servicequotas/"),
        ("us-gov-west-1", "https://console.amazonaws-us-gov.com/servicequotas/"),
    ],
)
def test_the_console_is_that_of_the_partition_and_opens_on_the_quota(
    region: str, begin: str
) -> None:
    found = console_url(region, "L-3819A6DF")
    assert found.startswith(begin)
    assert "/services/ec2/quotas/L-3819A6DF" in found
    assert f"region={region}" in found
