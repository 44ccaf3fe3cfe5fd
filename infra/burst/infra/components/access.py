"""Who may do what: the roles of nodes and of the function, and policies for people.

What each may do is said in `burst.infra.policies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import iam

from burst.core.aws.names import role_name
from burst.infra.policies.documents import as_text
from burst.infra.policies.node import node_policy
from burst.infra.policies.people import (
    admin_policy,
    auditor_policy,
    submitter_policy,
    viewer_policy,
)
from burst.infra.policies.place import Place
from burst.infra.policies.runner import runner_policy
from burst.infra.policies.trusts import trust_of
from burst.infra.settings import Settings

_PEOPLE = {
    "viewer": (viewer_policy, "sees experiments, metrics, logs and checkpoints"),
    "auditor": (auditor_policy, "sees all that there is in the account, too"),
    "submitter": (submitter_policy, "runs, steers and deletes experiments"),
    "admin": (admin_policy, "does that, and runs a runner"),
}


@dataclass(frozen=True)
class AccessArgs:
    settings: Settings


class Access(pulumi.ComponentResource):
    """Roles and policies, named after the cluster (`burst.core.aws.names.role_name`)."""

    node_role_arn: pulumi.Output[str]
    node_profile: pulumi.Output[str]
    """Name of the nodes' instance profile."""
    runner_role_arn: pulumi.Output[str] | None
    """None where no function runs the runner."""
    policies: Mapping[str, pulumi.Output[str]]
    """ARNs for people, by `viewer`, `auditor`, `submitter`, `admin`."""

    def __init__(
        self, name: str, args: AccessArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("burst:infra:Access", name, None, opts)
        self._settings = args.settings
        self._own = pulumi.ResourceOptions(parent=self)
        self._node()
        self.runner_role_arn = None
        if args.settings.config.has_function:
            self.runner_role_arn = self._role("runner", "lambda", runner_policy(args.settings))[1]
        self.policies = {person: self._policy(person) for person in _PEOPLE}
        self.register_outputs({"policies": dict(self.policies)})

    def _node(self) -> None:
        role, self.node_role_arn = self._role("node", "ec2", node_policy(self._settings))
        profile = iam.InstanceProfile(
            "node",
            name=role_name(self._settings.cluster, "node"),
            role=role.name,
            tags=self._settings.tags_of_access(),
            opts=self._own,
        )
        # A machine that boots must find its role able to do what it is for.
        self.node_profile = pulumi.Output.all(profile.name, self.node_role_arn).apply(_first)

    def _role(
        self, part: str, service: str, policy: Mapping[str, Any]
    ) -> tuple[iam.Role, pulumi.Output[str]]:
        """A role, and its ARN once it may do what its policy says."""
        settings = self._settings
        role = iam.Role(
            part,
            name=role_name(settings.cluster, part),
            description=f"burst: the {part} of cluster {settings.cluster}",
            assume_role_policy=as_text(trust_of(Place.of(settings), service)),
            tags=settings.tags_of_access(),
            opts=self._own,
        )
        allowed = iam.RolePolicy(
            part, name="burst", role=role.id, policy=as_text(policy), opts=self._own
        )
        return role, pulumi.Output.all(role.arn, allowed.id).apply(_first)

    def _policy(self, person: str) -> pulumi.Output[str]:
        settings = self._settings
        document, words = _PEOPLE[person]
        policy = iam.Policy(
            person,
            name=role_name(settings.cluster, person),
            description=f"burst: {words} in cluster {settings.cluster}",
            policy=as_text(document(settings)),
            tags=settings.tags_of_access(),
            opts=self._own,
        )
        arn: pulumi.Output[str] = policy.arn
        return arn


def _first(values: list[Any]) -> Any:
    return values[0]
