"""What may outlive machines and carries the cluster's tag, for audits to show and remove."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from burst.core.aws.names import CLUSTER, LAUNCH, POOL, untag
from burst.runner.pools.aws.ec2 import Ec2, Ec2Error, date_of
from burst.runner.pools.port import Leftover

VOLUME, INTERFACE, GROUP = "volume", "network interface", "placement group"


@dataclass(frozen=True)
class _Sort:
    """How one kind of thing is listed and deleted."""

    kind: str
    listing: str
    things: str
    id: str
    unused: Mapping[str, str]
    deleting: str
    gone: str
    in_use: tuple[str, ...]


_SORTS = (
    _Sort(
        kind=VOLUME,
        listing="describe_volumes",
        things="Volumes",
        id="VolumeId",
        unused={"status": "available"},
        deleting="delete_volume",
        gone="InvalidVolume.NotFound",
        in_use=("VolumeInUse", "IncorrectState"),
    ),
    _Sort(
        kind=INTERFACE,
        listing="describe_network_interfaces",
        things="NetworkInterfaces",
        id="NetworkInterfaceId",
        unused={"status": "available"},
        deleting="delete_network_interface",
        gone="InvalidNetworkInterfaceID.NotFound",
        in_use=("InvalidNetworkInterface.InUse", "InvalidParameterValue"),
    ),
    _Sort(
        kind=GROUP,
        listing="describe_placement_groups",
        things="PlacementGroups",
        id="GroupName",
        unused={"state": "available"},
        deleting="delete_placement_group",
        gone="InvalidPlacementGroup.Unknown",
        in_use=("InvalidPlacementGroup.InUse",),
    ),
)


def find_leftovers(
    ec2: Ec2, cluster: str, pool: str | None, used_groups: Collection[str]
) -> list[Leftover]:
    """The pool's disks, network interfaces and placement groups that no machine uses. One request
    of each kind.

    Args:
        pool: empty for every pool; None for what carries no pool's tag.
        used_groups: placement groups with machines in them, which EC2's own list does not say.
    """
    found = [each for sort in _SORTS for each in _find(ec2, sort, cluster, pool)]
    return [each for each in found if each.kind != GROUP or each.id not in used_groups]


def remove_leftover(ec2: Ec2, leftover: Leftover) -> bool:
    """Delete it; False if it is in use after all. Idempotent."""
    sort = next(sort for sort in _SORTS if sort.kind == leftover.kind)
    try:
        ec2.call(sort.deleting, **{sort.id: leftover.id})
    except Ec2Error as error:
        if error.code in sort.in_use:
            return False
        if error.code != sort.gone:
            raise error.as_refused() from error
    return True


def _find(ec2: Ec2, sort: _Sort, cluster: str, pool: str | None) -> Iterator[Leftover]:
    wanted = {f"tag:{CLUSTER}": cluster, f"tag:{POOL}": pool or "", **sort.unused}
    filters = [{"Name": name, "Values": [value]} for name, value in wanted.items() if value]
    try:
        # Placement groups come all at once; the others by the page.
        pages = (
            [ec2.call(sort.listing, Filters=filters)]
            if sort.kind == GROUP
            else ec2.pages(sort.listing, Filters=filters)
        )
        for answer in pages:
            for each in answer[sort.things]:
                tags = untag(each.get("Tags") or each.get("TagSet"))
                if tags.get(CLUSTER) != cluster:  # whatever the filter let through
                    continue
                age, own = _age(each, date_of(answer)), tags.get(POOL, "")
                if pool is not None or not own:
                    yield Leftover(sort.kind, each[sort.id], age, tags.get(LAUNCH, ""), own)
    except Ec2Error as error:
        raise error.as_refused() from error


def _age(each: Mapping[str, Any], date: float | None) -> float | None:
    made = each.get("CreateTime")
    return None if made is None or date is None else max(0.0, date - made.timestamp())
