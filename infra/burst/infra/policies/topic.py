"""Who may speak through the topic of a cluster's alarms."""

from __future__ import annotations

from typing import Any

from burst.infra.policies.documents import Statement, document
from burst.infra.policies.place import Place


def topic_policy(place: Place, topic: str) -> dict[str, Any]:
    """The alarms of the account in the region, in the name of CloudWatch, and nobody else."""
    return document(
        [
            Statement(
                "Alarms",
                actions=("sns:Publish",),
                resources=(place.arn("sns", topic),),
                conditions={
                    "StringEquals": {"aws:SourceAccount": place.account},
                    "ArnLike": {
                        "aws:SourceArn": place.arn("cloudwatch", f"alarm:burst-{place.cluster}-*")
                    },
                },
                principal={"Service": "cloudwatch.amazonaws.com"},
            )
        ]
    )
