"""What it takes to see everything that `burst up` makes, as an audit does: by names and tags."""

from __future__ import annotations

from burst.infra.policies.documents import ANY, Statement
from burst.infra.policies.place import Place


def look_at_account(place: Place) -> list[Statement]:
    """To list is checked against no resource. Of what is named like the cluster's own, and may be
    that of one whose name is longer, the tags are read."""
    named = f"burst-{place.cluster}-*"
    return [
        Statement(
            "ListThings",
            actions=(
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
            ),
            resources=ANY,
            conditions={"StringEquals": {"aws:RequestedRegion": place.region}},
        ),
        Statement(
            "ListOfAllRegions",
            actions=(
                "iam:ListInstanceProfiles",
                "iam:ListPolicies",
                "iam:ListRoles",
                "budgets:ViewBudget",
            ),
            resources=ANY,
        ),
        Statement(
            "ReadTags",
            actions=(
                "cloudwatch:ListTagsForResource",
                "dynamodb:DescribeTable",
                "dynamodb:ListTagsOfResource",
                "events:ListTagsForResource",
                "iam:GetInstanceProfile",
                "iam:GetPolicy",
                "iam:GetRole",
                "lambda:GetFunction",
                "s3:GetBucketTagging",
                "sns:ListTagsForResource",
            ),
            resources=(
                place.table,
                place.bucket,
                place.function,
                place.arn("cloudwatch", f"alarm:{named}"),
                place.arn("events", f"rule/{named}"),
                place.arn("sns", named),
                *(
                    place.arn("iam", f"{kind}/{named}", region="")
                    for kind in ("instance-profile", "policy", "role")
                ),
            ),
        ),
    ]
