"""What carries a tag, over all services: ministack leaves out EC2, logs, alarms and roles.

EC2's things are the model's, which is asked; without AWS_ENDPOINT_URL_EC2 there are none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from burst.core.aws.sessions import aws_session

Tagged = tuple[str, list[dict[str, str]]]
"""An ARN and its tags."""


def install_tagged() -> None:
    """Once a process, before it serves."""
    from ministack.services import tagging  # type: ignore[import-untyped]

    tagging._COLLECTORS.update({"logs": _logs, "cloudwatch": _alarms, "ec2": _ec2})


def _logs() -> Iterator[Tagged]:
    from ministack.services import cloudwatch_logs

    for group in cloudwatch_logs._log_groups.values():
        yield group["arn"].removesuffix(":*"), _listed(group.get("tags", {}))


def _alarms() -> Iterator[Tagged]:
    from ministack.services import cloudwatch

    for alarm in cloudwatch._alarms.values():
        arn = alarm["AlarmArn"]
        yield arn, _listed(cloudwatch._resource_tags.get(arn, {}))


def _ec2() -> Iterator[Tagged]:
    from ministack.core.responses import get_account_id, get_region  # type: ignore[import-untyped]

    if not os.environ.get("AWS_ENDPOINT_URL_EC2"):
        return
    region = get_region()
    found: dict[str, list[dict[str, str]]] = {}
    for page in _client(region).get_paginator("describe_tags").paginate():
        for each in page["Tags"]:
            kind, id = each["ResourceType"], each["ResourceId"]
            arn = f"arn:aws:ec2:{region}:{get_account_id()}:{kind}/{id}"
            found.setdefault(arn, []).append({"Key": each["Key"], "Value": each["Value"]})
    yield from found.items()


def _client(region: str) -> Any:
    # Not those of the environment, which may be anything.
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    return aws_session(**keys, region_name=region).client("ec2")


def _listed(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
