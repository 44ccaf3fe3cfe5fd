"""Placement groups, which moto has none of."""

from __future__ import annotations

import uuid
from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from burst.runner.rehearsal.ec2.cloud import Group
from burst.runner.rehearsal.ec2.machine import USES_CAPACITY
from burst.runner.rehearsal.ec2.patched.base import Operations
from burst.runner.rehearsal.ec2.patched.errors import Problem


class PlacementGroups(Operations):
    def create_placement_group(self) -> Any:
        self.error_on_dryrun()
        name = self._get_param("GroupName")
        if name in self.cloud.groups:
            message = f"The Placement Group '{name}' already exists."
            raise Problem("InvalidPlacementGroup.Duplicate", message)
        tags = self._parse_tag_specification("placement-group").get("placement-group", {})
        strategy = self._get_param("Strategy") or "cluster"
        group = Group(f"pg-{uuid.uuid4().hex[:17]}", name, strategy, tags)
        self.cloud.groups[name] = group
        return ActionResult({"PlacementGroup": self._shown(group)})

    def describe_placement_groups(self) -> Any:
        names = self._get_param("GroupNames", [])
        for name in names:
            self._group(name)
        ids, filters = self._get_param("GroupIds", []), self._filters_from_querystring()
        found = [
            self._shown(group)
            for group in self.cloud.groups.values()
            if (not names or group.name in names)
            and (not ids or group.id in ids)
            and all(_passes(group, name, values) for name, values in filters.items())
        ]
        return ActionResult({"PlacementGroups": found})

    def delete_placement_group(self) -> Any:
        self.error_on_dryrun()
        group = self._group(self._get_param("GroupName"))
        machines = self.cloud.machines.values()
        if any(each.group == group.name and each.state in USES_CAPACITY for each in machines):
            message = f"The placement group '{group.name}' is in use and may not be deleted."
            raise Problem("InvalidPlacementGroup.InUse", message)
        del self.cloud.groups[group.name]
        return EmptyResult()

    def _group(self, name: str) -> Group:
        if name not in self.cloud.groups:
            message = f"The Placement Group '{name}' is unknown."
            raise Problem("InvalidPlacementGroup.Unknown", message)
        return self.cloud.groups[name]

    def _shown(self, group: Group) -> dict[str, Any]:
        where = f"arn:aws:ec2:{self.region}:{self.current_account}"
        return {
            "GroupName": group.name,
            "GroupId": group.id,
            "GroupArn": f"{where}:placement-group/{group.name}",
            "State": "available",
            "Strategy": group.strategy,
            "Tags": [{"Key": key, "Value": value} for key, value in group.tags.items()],
        }


def _passes(group: Group, name: str, values: object) -> bool:
    wanted = values if isinstance(values, list) else [values]
    if name.startswith("tag:"):
        return group.tags.get(name.removeprefix("tag:")) in wanted
    if name == "tag-key":
        return any(key in group.tags for key in wanted)
    known = {"group-name": group.name, "strategy": group.strategy, "state": "available"}
    if name not in known:
        raise Problem("InvalidParameterValue", f"The filter '{name}' is invalid")
    return known[name] in wanted
