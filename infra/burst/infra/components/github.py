"""What lets workflows of GitHub Actions run experiments without a key."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_aws import iam

from burst.core.aws.names import role_name
from burst.infra.policies.documents import as_text
from burst.infra.policies.place import Place
from burst.infra.policies.trusts import trust_of_github
from burst.infra.settings import Settings

_LONGEST_S = 6 * 3600
"""A job on GitHub's own machines runs no longer, and may wait for its experiment all the while."""


@dataclass(frozen=True)
class GithubArgs:
    settings: Settings
    """Of a cluster whose `aws.github` names somebody."""
    policy_arn: pulumi.Input[str]
    """What workflows may do: a submitter's policy."""


class Github(pulumi.ComponentResource):
    """A role for the repositories that `aws.github` names.

    The account has to know GitHub as an identity provider already (`Place.github_provider`), which
    all its clusters share.
    """

    role_arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: GithubArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("burst:infra:Github", name, None, opts)
        settings, own = args.settings, pulumi.ResourceOptions(parent=self)
        role = iam.Role(
            "github",
            name=role_name(settings.cluster, "github"),
            description=f"burst: GitHub Actions that run experiments in {settings.cluster}",
            assume_role_policy=as_text(trust_of_github(Place.of(settings), settings.aws.github)),
            max_session_duration=_LONGEST_S,
            tags=settings.tags_of_access(),
            opts=own,
        )
        iam.RolePolicyAttachment("github", role=role.name, policy_arn=args.policy_arn, opts=own)
        self.role_arn = role.arn
        self.register_outputs({"role": self.role_arn})
