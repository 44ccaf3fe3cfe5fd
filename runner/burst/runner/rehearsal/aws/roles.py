"""Service-linked roles whose names ministack guesses otherwise than AWS gives them."""

from __future__ import annotations

from typing import Any

_NAMES = {"spot.amazonaws.com": ("AWSServiceRoleForSpot", "AWSServiceRoleForEC2Spot")}
"""By service, what ministack calls it, and its name."""


def install_roles() -> None:
    """Once a process, before it serves."""
    from ministack.services import iam  # type: ignore[import-untyped]

    plain = iam._IAM_HANDLERS["CreateServiceLinkedRole"]

    def create(parameters: Any) -> Any:
        service = iam._p(parameters, "AWSServiceName")
        if service not in _NAMES:
            return plain(parameters)
        guessed, name = _NAMES[service]
        if name in iam._roles:
            message = (
                f"Service role name {name} has been taken in this account, "
                "please try a different suffix."
            )
            return iam._error(400, "InvalidInput", message, ns="iam")
        plain(parameters)
        role = iam._roles.pop(guessed)
        role.update(RoleName=name, Arn=role["Arn"].replace(guessed, name))
        iam._roles[name] = role
        found = f"<CreateServiceLinkedRoleResult><Role>{iam._role_xml(name)}</Role>"
        body = f"{found}</CreateServiceLinkedRoleResult>"
        return iam._xml(200, "CreateServiceLinkedRoleResponse", body, ns="iam")

    iam._IAM_HANDLERS["CreateServiceLinkedRole"] = create
