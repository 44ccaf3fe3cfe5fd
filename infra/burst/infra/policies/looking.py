"""What it takes to see everything that `burst up` makes, as an audit does: by names and tags."""

from __future__ import annotations

from burst.infra.policies.documents import ANY, Statement
from burst.infra.policies.place import Place, log_group_name

_LISTS = (
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribeNatGateways",
    "ec2:DescribeVpcEndpoints",
    "ec2:DescribeAddresses",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroupRules",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "events:ListRules",
    "lambda:ListEventSourceMappings",
    "logs:DescribeLogGroups",
    "cloudwatch:DescribeAlarms",
    "cloudwatch:ListDashboards",
    "sns:ListTopics",
)
_LISTS_OF_ALL_REGIONS = (
    "iam:ListInstanceProfiles",
    "iam:ListPolicies",
    "iam:ListRoles",
    "budgets:ViewBudget",
    "budgets:ListTagsForResource",
)
_TAGS = (
    "cloudwatch:GetDashboard",
    "cloudwatch:ListTagsForResource",
    "dynamodb:DescribeTable",
    "dynamodb:Scan",
    "dynamodb:ListTagsOfResource",
    "events:DescribeRule",
    "events:ListTagsForResource",
    "iam:GetInstanceProfile",
    "iam:GetPolicy",
    "iam:GetRole",
    "lambda:GetFunction",
    "lambda:ListTags",
    "logs:ListTagsForResource",
    "s3:GetBucketTagging",
    "sns:ListTagsForResource",
)


def look_at_account(place: Place) -> list[Statement]:
    """To list is checked against no resource. Of what is named like the cluster's own, and may be
    that of one whose name is longer, the tags are read."""
    here = {"StringEquals": {"aws:RequestedRegion": place.region}}
    return [
        Statement("ListThings", _LISTS, ANY, here),
        Statement("ListOfAllRegions", _LISTS_OF_ALL_REGIONS, ANY),
        Statement("ReadTags", _TAGS, _named_alike(place)),
    ]


def _named_alike(place: Place) -> tuple[str, ...]:
    name = f"burst-{place.cluster}-*"
    of_iam = (f"{kind}/{name}" for kind in ("instance-profile", "policy", "role"))
    return (
        place.table,
        place.bucket,
        place.function,
        place.arn("cloudwatch", f"alarm:{name}"),
        place.arn("cloudwatch", f"dashboard/burst-{place.cluster}", region=""),
        place.arn("lambda", "event-source-mapping:*"),
        place.arn("logs", f"log-group:{log_group_name(place.cluster)}"),
        place.arn("events", f"rule/{name}"),
        place.arn("sns", name),
        *(place.arn("iam", each, region="") for each in of_iam),
    )
