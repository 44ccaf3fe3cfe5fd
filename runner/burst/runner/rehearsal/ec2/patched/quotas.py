"""Service Quotas: what EC2 lets the account have, which is what the model lets it have.

moto knows the quotas of VPC alone, and lists none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.responses import ServiceQuotasResponse

from burst.core.aws.quotas import quota_of
from burst.runner.rehearsal.ec2.cloud import Cloud
from burst.runner.rehearsal.ec2.rules import ANY, quota_class

UNLIMITED = 100_000.0
"""vCPUs that the account may have as long as nobody says otherwise."""
_A_TYPE_OF_EACH = (
    "c5.large",
    "dl1.24xlarge",
    "f1.2xlarge",
    "g5.xlarge",
    "hpc7a.96xlarge",
    "inf2.xlarge",
    "p4d.24xlarge",
    "p5.48xlarge",
    "trn1.2xlarge",
    "x2idn.16xlarge",
)
"""Types of which no two share a quota on both markets."""


def install_quotas(cloud: Cloud) -> None:
    model: Any = ServiceQuotasBackend
    answers: Any = ServiceQuotasResponse
    plain_one, plain_all = model.get_service_quota, model.list_aws_default_service_quotas

    def one(backend: Any, service_code: str, quota_code: str) -> Any:
        if service_code != "ec2":
            return plain_one(backend, service_code, quota_code)
        for quota in _of_ec2(cloud, backend):
            if quota["QuotaCode"] == quota_code:
                return quota
        raise NoSuchResource

    def every(backend: Any, service_code: str) -> Any:
        if service_code != "ec2":
            return plain_all(backend, service_code)
        return list(_of_ec2(cloud, backend))

    def listed(response: Any) -> str:
        service = str(json.loads(response.body).get("ServiceCode"))
        return json.dumps({"Quotas": response.backend.list_aws_default_service_quotas(service)})

    model.get_service_quota = one
    model.list_aws_default_service_quotas = every
    answers.list_service_quotas = listed


def _of_ec2(cloud: Cloud, backend: Any) -> Iterator[dict[str, Any]]:
    seen = set()
    for market in ("spot", "on-demand"):
        for name in _A_TYPE_OF_EACH:
            quota = quota_of(market, name)
            if not quota.code or quota.code in seen:
                continue
            seen.add(quota.code)
            place = f"{backend.region_name}:{backend.account_id}"
            yield {
                "ServiceCode": "ec2",
                "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
                "QuotaArn": f"arn:aws:servicequotas:{place}:ec2/{quota.code}",
                "QuotaCode": quota.code,
                "QuotaName": quota.name,
                "Value": _value(cloud, market, quota_class(name, market)),
                "Unit": "None",
                "Adjustable": True,
                "GlobalQuota": False,
            }


def _value(cloud: Cloud, market: str, kind: str) -> float:
    """In vCPUs, as the rules have it that refuse what is more (`Ec2Control.set_quota`)."""
    found = [
        float(quota.vcpus)
        for quota in cloud.quotas
        if quota.market == market and quota.kind in (ANY, kind)
    ]
    return min(found, default=UNLIMITED)
