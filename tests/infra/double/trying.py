"""Programs and looks at the cloud that the tests of the double have in common."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import pulumi_aws as aws
from boto3.session import Session

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "lambda.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)


def client(service: str, environ: Mapping[str, str] = os.environ) -> Any:
    """Of the cloud that the environment tells."""
    url = environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or environ["AWS_ENDPOINT_URL"]
    return _client(service, url)


@cache
def _client(service: str, url: str) -> Any:
    return Session("testing", "testing", region_name="us-east-1").client(service, endpoint_url=url)


def tagged_vpcs(name: str) -> list[str]:
    """Ids of the VPCs that have a name."""
    asked = [{"Name": "tag:Name", "Values": [name]}]
    return [each["VpcId"] for each in client("ec2").describe_vpcs(Filters=asked)["Vpcs"]]


def network(cidr: str = "10.0.0.0/16", **tags: str) -> aws.ec2.Vpc:
    """A VPC and a subnet of it: three resources with the stack."""
    vpc = aws.ec2.Vpc("net", cidr_block=cidr, tags={"Name": "net", **tags})
    inner = cidr.replace("/16", "/20")
    aws.ec2.Subnet("sub", vpc_id=vpc.id, cidr_block=inner, tags={"Name": "sub"})
    return vpc
