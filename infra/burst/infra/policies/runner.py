"""What the runner may do: decide by the records, and have just the machines that they ask for."""

from __future__ import annotations

from typing import Any

from burst.infra.policies.documents import Statement, document
from burst.infra.policies.fleet import (
    buy_machines,
    end_machines,
    look_at_machines,
    look_at_offers,
    look_at_types,
)
from burst.infra.policies.place import Place
from burst.infra.policies.state import (
    read_blobs,
    read_records,
    tidy_blobs,
    write_records,
)
from burst.infra.settings import Settings


def runner_policy(settings: Settings) -> dict[str, Any]:
    """Of the function."""
    place = Place.of(settings)
    return document([*run(settings), *_be_a_function(place)])


def run(settings: Settings) -> list[Statement]:
    """What running a runner takes, for the function and for a person who does."""
    place = Place.of(settings)
    return [
        read_records(place),
        write_records(place),
        *read_blobs(place),
        *tidy_blobs(place),
        look_at_types(place),
        look_at_machines(place),
        look_at_offers(place),
        *buy_machines(place, settings.aws.image),
        end_machines(place),
    ]


def _be_a_function(place: Place) -> list[Statement]:
    """What AWS does in the function's name: read what wakes it, and write what it prints."""
    return [
        Statement(
            "HearOfRecords",
            actions=(
                "dynamodb:DescribeStream",
                "dynamodb:GetRecords",
                "dynamodb:GetShardIterator",
                "dynamodb:ListStreams",
            ),
            resources=(f"{place.table}/stream/*",),
        ),
        Statement(
            "WriteLog",
            actions=("logs:CreateLogStream", "logs:PutLogEvents"),
            resources=(f"{place.log_group}:*",),
        ),
    ]
