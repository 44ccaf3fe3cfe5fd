"""What a node may do. Whatever a trial's code is, it may do the same.

It calls no EC2: what it has to know of itself is in its metadata, and it ends itself by shutting
down. What all nodes and the function run lies where no node may write.
"""

from __future__ import annotations

from typing import Any, Literal

from burst.core.config.cluster import Aws
from burst.infra.policies.documents import ANY, Statement, document
from burst.infra.policies.place import Place
from burst.infra.policies.state import (
    CHECKPOINTS,
    DATA,
    LOGS,
    PROBES,
    read_blobs,
    read_records,
    write_blobs,
    write_records,
)
from burst.infra.settings import Settings


def node_policy(settings: Settings) -> dict[str, Any]:
    """Its writes are fenced by the trial's token, which is a check of a record, and its lease is
    the one record that is ever deleted."""
    place = Place.of(settings)
    return document(
        [
            read_records(place),
            write_records(place, "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem"),
            *read_blobs(place),
            write_blobs(place, CHECKPOINTS, DATA, LOGS, PROBES),
            *(_sessions() if _reaches(settings.aws, "sessions") else ()),
            *(_images(place) if _reaches(settings.aws, "images") else ()),
        ]
    )


def _reaches(aws: Aws, service: Literal["images", "sessions"]) -> bool:
    """Whether nodes have a way to a service, without which its permissions are of no use."""
    return aws.nat or service in aws.endpoints


def _sessions() -> list[Statement]:
    """A shell by Session Manager. AWS checks these against no resource."""
    return [
        Statement(
            "BeReached",
            actions=(
                "ssm:UpdateInstanceInformation",
                "ssmmessages:CreateControlChannel",
                "ssmmessages:CreateDataChannel",
                "ssmmessages:OpenControlChannel",
                "ssmmessages:OpenDataChannel",
            ),
            resources=ANY,
        )
    ]


def _images(place: Place) -> list[Statement]:
    """Container images of any account in the region: that of the image says who may pull it, as
    AWS's own does of its Deep Learning Containers. Of the token AWS checks no resource."""
    return [
        Statement("LogInToImages", actions=("ecr:GetAuthorizationToken",), resources=ANY),
        Statement(
            "PullImages",
            actions=(
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:GetDownloadUrlForLayer",
            ),
            resources=(place.arn("ecr", "repository/*", account="*"),),
        ),
    ]
