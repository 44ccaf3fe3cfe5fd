"""Of what an account has only once for all its regions: which belongs to a cluster of the same
name in another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burst.core.aws.names import REGION, untag
from burst.infra.account.sorts import Look, Thing, is_gone

_BUDGET = "aws:budgets/budget:Budget"


def elsewhere(look: Look, things: Sequence[Thing]) -> dict[str, str]:
    """By id, the region of those that belong to a cluster in another region than this one.

    A budget has none, and is that cluster's, too, if anything is.

    Raises:
        Exception: what boto3 raises.
    """
    found = {}
    for each in things:
        region = _region_of(look, each)
        if region and region != look.region:
            found[each.id] = region
    if found:
        region = next(iter(found.values()))
        found |= {each.id: region for each in things if each.type == _BUDGET}
    return found


def _region_of(look: Look, thing: Thing) -> str:
    if not thing.type.startswith("aws:iam/"):
        return ""
    try:
        return untag(_tags_of(look.client("iam"), thing)).get(REGION, "")
    except Exception as error:
        if is_gone(error):
            return ""
        raise


def _tags_of(iam: Any, thing: Thing) -> object:
    match thing.type:
        case "aws:iam/role:Role":
            return iam.get_role(RoleName=thing.id)["Role"].get("Tags")
        case "aws:iam/policy:Policy":
            return iam.get_policy(PolicyArn=thing.id)["Policy"].get("Tags")
        case "aws:iam/instanceProfile:InstanceProfile":
            found = iam.get_instance_profile(InstanceProfileName=thing.id)["InstanceProfile"]
            return found.get("Tags")
    return None
