"""AWS's services that nodes reach by interfaces in their own network, which cost by the hour."""

from __future__ import annotations

from collections.abc import Mapping

SERVICES: Mapping[str, tuple[str, ...]] = {
    "images": ("ecr.api", "ecr.dkr"),
    "sessions": ("ssm", "ssmmessages", "ec2messages"),
}
"""What each word of `aws.endpoints` stands for: names of AWS's services."""
