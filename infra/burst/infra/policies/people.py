"""What people may do, and what does it for them: policies to attach to users, groups and roles."""

from __future__ import annotations

from typing import Any

from burst.infra.policies.documents import Statement, document
from burst.infra.policies.fleet import look_at_machines, look_at_types
from burst.infra.policies.looking import look_at_account
from burst.infra.policies.place import Place
from burst.infra.policies.runner import run
from burst.infra.policies.state import (
    CHECKPOINTS,
    CLUSTER,
    CODE,
    DOCTOR,
    LOGS,
    find_uploads,
    read_blobs,
    read_records,
    write_blobs,
    write_records,
)
from burst.infra.settings import Settings

_THEIRS = (CHECKPOINTS, CODE, LOGS, DOCTOR)


def viewer_policy(settings: Settings) -> dict[str, Any]:
    """Read everything: experiments, metrics, logs, checkpoints, code."""
    place = Place.of(settings)
    return document([read_records(place), *read_blobs(place)])


def auditor_policy(settings: Settings) -> dict[str, Any]:
    """See all that the cluster has in the account, and who answers for it; change nothing."""
    place = Place.of(settings)
    return document(
        [
            read_records(place),
            *read_blobs(place),
            find_uploads(place),
            look_at_machines(place),
            *look_at_account(place),
        ]
    )


def submitter_policy(settings: Settings) -> dict[str, Any]:
    """Run, steer and delete experiments. The function has the machines for them, so a submitter
    buys none, and ends none but by cancelling what runs there."""
    place = Place.of(settings)
    return document(
        [
            read_records(place),
            write_records(place),
            *read_blobs(place),
            write_blobs(place, *_THEIRS),
            look_at_types(place),
        ]
    )


def admin_policy(settings: Settings) -> dict[str, Any]:
    """All that a submitter and the runner may, so that a runner of one's own works; publish
    another cluster file; call the function by hand, and read its log. IAM takes no policy that is
    long enough to have the auditor's in it as well.

    To make the cluster, change or remove it is for whoever may manage roles in the account: who
    may give a role to a machine may do all that the role may.
    """
    place = Place.of(settings)
    return document(
        [
            *run(settings),
            write_blobs(place, *_THEIRS, CLUSTER),
            Statement(
                "CallFunction",
                actions=("lambda:InvokeFunction",),
                resources=(place.function,),
            ),
            Statement(
                "ReadLog",
                actions=("logs:FilterLogEvents", "logs:GetLogEvents"),
                resources=(f"{place.log_group}:*",),
            ),
        ]
    )
