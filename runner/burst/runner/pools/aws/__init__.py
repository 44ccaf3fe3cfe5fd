"""Instances in an AWS account: offers, one CreateFleet a request, and everything found by tag."""

from __future__ import annotations

from burst.runner.pools.aws.pool import AwsPool

__all__ = ["AwsPool"]
