"""Who may take on a role: a service of AWS, or what GitHub says that it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burst.infra.policies.documents import Statement, document
from burst.infra.policies.place import GITHUB_ISSUER, Place

GITHUB_AUDIENCE = "sts.amazonaws.com"
"""For whom GitHub signs what AWS is told."""


def trust_of(place: Place, service: str) -> dict[str, Any]:
    """Of a role for machines (`ec2`) or functions (`lambda`)."""
    principal = {"Service": place.service(service)}
    return document([Statement("Service", ("sts:AssumeRole",), principal=principal)])


def trust_of_github(place: Place, entries: Sequence[str]) -> dict[str, Any]:
    """Of the role that workflows take on.

    Args:
        entries: `aws.github`, of which the cluster file's rules let no wildcard through.
            `owner/name` lets every workflow of a repository in, whatever started it;
            `owner/name:REST` one subject to the letter, where REST is `ref:refs/heads/main`,
            `environment:production` or `pull_request`. Of a repository that was made, renamed or
            moved since July 2026 GitHub writes `owner@123456/name@456789`, and so must the entry:
            `owner@*` would be anybody who has taken on a name that became free.

    Source: GitHub Docs, "OpenID Connect reference", and its changelog of April 23, 2026.
    """
    whole = [f"repo:{entry}:*" for entry in entries if ":" not in entry]
    exact = [f"repo:{entry}" for entry in entries if ":" in entry]
    found = (("AnyOfRepository", "StringLike", whole), ("ThisSubject", "StringEquals", exact))
    return document([_lets_in(place, *each) for each in found if each[-1]])


def _lets_in(place: Place, sid: str, how: str, subjects: Sequence[str]) -> Statement:
    conditions: dict[str, dict[str, str | Sequence[str]]] = {
        "StringEquals": {f"{GITHUB_ISSUER}:aud": GITHUB_AUDIENCE}
    }
    conditions.setdefault(how, {})[f"{GITHUB_ISSUER}:sub"] = subjects
    return Statement(
        sid,
        ("sts:AssumeRoleWithWebIdentity",),
        conditions=conditions,
        principal={"Federated": place.github_provider},
    )
