"""What it takes to buy machines, and to end them: of this cluster, and in no other way than its
own launch templates say.

A request is checked against everything that it uses, which has to carry the cluster's tag, and
everything that it makes, which has to be given it. So do Karpenter and AWS's own policies for EKS.
None of them asks for `ec2:LaunchTemplate`, and nor does this: it is documented for RunInstances
called directly, and not for what a fleet calls.

Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon EC2";
AWS Managed Policy Reference, "AmazonEKSComputePolicy".
"""

from __future__ import annotations

from burst.core.aws.names import placement_group_name
from burst.infra.policies.documents import ANY, Statement
from burst.infra.policies.place import Place

_SSM = "resolve:ssm:"
_PUBLIC = "/aws/"
"""So begin the names of parameters that AWS publishes, which are no account's."""
_BUY = ("ec2:CreateFleet", "ec2:RunInstances")
_MADE = ("fleet", "instance", "volume", "network-interface")
"""What a request for machines makes, and tags."""


def look_at_types(place: Place) -> Statement:
    """What kinds of machines there are to be had, and where."""
    return _look(
        "LookAtTypes",
        place,
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeSubnets",
    )


def look_at_machines(place: Place) -> Statement:
    """The machines that there are, and what may outlive them."""
    return _look(
        "LookAtMachines",
        place,
        "ec2:DescribeInstances",
        "ec2:DescribeVolumes",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribePlacementGroups",
    )


def look_at_offers(place: Place) -> Statement:
    """What spot machines cost, and how likely they are to be had."""
    return _look(
        "LookAtOffers", place, "ec2:DescribeSpotPriceHistory", "ec2:GetSpotPlacementScores"
    )


def _look(sid: str, place: Place, *actions: str) -> Statement:
    """AWS checks no call that lists or describes against a resource; it can be kept to the region,
    though."""
    within = {"StringEquals": {"aws:RequestedRegion": place.region}}
    return Statement(sid, actions, ANY, within)


def buy_machines(place: Place, image: str) -> list[Statement]:
    """CreateFleet, which EC2 carries out with RunInstances in the caller's name.

    Args:
        image: of the nodes, as the cluster file has it: an AMI's id, or `resolve:ssm:NAME`.
    """
    return [
        Statement(
            "BuyFromOwn",
            actions=_BUY,
            resources=place.ec2("launch-template", "subnet", "security-group"),
            conditions={"StringEquals": place.owned},
        ),
        Statement(
            # The template alone names the image. The group was made a moment before, and its tag
            # may not be known everywhere yet. A request for spot cannot be tagged by a template
            # that on-demand machines are made from, too, and costs nothing by itself.
            "BuyWith",
            actions=_BUY,
            resources=(
                place.arn("ec2", "image/*", account=""),
                place.arn("ec2", "snapshot/*", account=""),
                place.arn("ec2", f"placement-group/{placement_group_name(place.cluster, '*')}"),
                *place.ec2("spot-instances-request"),
            ),
        ),
        Statement(
            "BuyTagged",
            actions=_BUY,
            resources=place.ec2(*_MADE),
            conditions={"StringEquals": place.tagging},
        ),
        Statement(
            "GroupTagged",
            actions=("ec2:CreatePlacementGroup",),
            resources=place.ec2("placement-group"),
            conditions={"StringEquals": place.tagging},
        ),
        Statement(
            "TagWhatIsMade",
            actions=("ec2:CreateTags",),
            resources=place.ec2(*_MADE, "placement-group"),
            conditions={
                "StringEquals": {
                    **place.tagging,
                    "ec2:CreateAction": ("CreateFleet", "RunInstances", "CreatePlacementGroup"),
                }
            },
        ),
        Statement(
            "GiveNodesTheirRole",
            actions=("iam:PassRole",),
            resources=(place.role("node"),),
            conditions={"StringEquals": {"iam:PassedToService": place.service("ec2")}},
        ),
        *_find_image(place, image),
    ]


def end_machines(place: Place) -> Statement:
    """End, delete and ask for the last words of what carries the cluster's tag."""
    return Statement(
        "EndOwn",
        actions=(
            "ec2:TerminateInstances",
            "ec2:GetConsoleOutput",
            "ec2:DeleteVolume",
            "ec2:DeleteNetworkInterface",
            "ec2:DeletePlacementGroup",
        ),
        resources=place.ec2("instance", "volume", "network-interface", "placement-group"),
        conditions={"StringEquals": place.owned},
    )


def _find_image(place: Place, image: str) -> list[Statement]:
    """EC2 reads the parameter that a template names in the name of whoever asks for machines."""
    if not image.startswith(_SSM):
        return []
    name = image.removeprefix(_SSM).partition(":")[0]
    account = "" if name.startswith(_PUBLIC) else place.account
    parameter = place.arn("ssm", f"parameter/{name.removeprefix('/')}", account=account)
    return [Statement("FindImage", actions=("ssm:GetParameters",), resources=(parameter,))]
