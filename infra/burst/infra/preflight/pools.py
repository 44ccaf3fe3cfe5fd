"""Whether a pool's machines are to be had in the region, and are what the pool takes them for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from burst.core.aws.instance_types import known_names
from burst.core.config.cluster import AwsPool
from burst.infra.preflight.checking import Check, failed, ok, warning
from burst.infra.preflight.image import Image
from burst.infra.preflight.places import Kind

Offered = Mapping[str, tuple[str, ...]]
"""By zone, the instance types that it has."""


def check_pool(
    name: str,
    pool: AwsPool,
    region: str,
    kinds: Mapping[str, Kind],
    offered: Offered,
    image: Image | None,
) -> Check:
    """One verdict: the worst of what was found, all of it in words.

    Args:
        kinds: of the types that the region has.
        offered: by every zone of the region, whether the pool wants it or not.
        image: None where nothing is known of it.
    """
    label = f"pool {name}"
    why = unplaced(pool, region, kinds, offered)
    if why is not None:
        return failed(label, *why)
    usable = {
        each: [zone for zone in _zones(each, offered) if not pool.zones or zone in pool.zones]
        for each in pool.instance_types
    }
    wrong = list(_wrong(pool, [kinds[each] for each in pool.instance_types], image))
    if wrong:
        found, mends = zip(*wrong, strict=True)
        return failed(label, "; ".join(found), "; ".join(dict.fromkeys(mends)))
    said = "; ".join(f"{each} in {', '.join(zones)}" for each, zones in _grouped(usable))
    odd = list(_odd(pool, kinds, usable))
    if odd:
        return warning(label, "; ".join([said, *odd]), "take them out of instance_types")
    return ok(label, said)


def unplaced(
    pool: AwsPool, region: str, kinds: Iterable[str], offered: Offered
) -> tuple[str, str] | None:
    """Why there can be no machine of the pool, and what mends it; None where there can.

    Args:
        kinds: the types that the region has.
    """
    missing = [each for each in pool.instance_types if each not in kinds]
    if missing:
        return _no_type(missing, region)
    where = {each: _zones(each, offered) for each in pool.instance_types}
    if any(not pool.zones or zone in pool.zones for zones in where.values() for zone in zones):
        return None
    there = "; ".join(f"{each} in {', '.join(zones)}" for each, zones in where.items() if zones)
    named = ", ".join(pool.instance_types)
    if not there:
        mend = "choose another region in burst.yaml, or other instance_types"
        return f"no zone of {region} offers {named}", mend
    found = f"none of {', '.join(pool.zones)} offers {named}; {region} has {there}"
    return found, "name those zones in burst.yaml, or leave `zones` out"


def _no_type(missing: Sequence[str], region: str) -> tuple[str, str]:
    near = [
        f"{found[0]} for {each}"
        for each in missing
        if (found := difflib.get_close_matches(each, set(known_names()) - {each}, n=1, cutoff=0.8))
    ]
    mend = "correct instance_types in burst.yaml, or choose a region that has them"
    if near:
        mend += f"; did you mean {', '.join(near)}?"
    return f"{region} has no instance type {', '.join(missing)}", mend


def _wrong(pool: AwsPool, kinds: Sequence[Kind], image: Image | None) -> Iterator[tuple[str, str]]:
    """What makes the pool useless, each with its mend."""
    slots = {kind.type.name: kind.type.slots for kind in kinds}
    if pool.slots_per_node is None and len(set(slots.values())) > 1:
        each = ", ".join(f"{name} has {count}" for name, count in slots.items())
        yield f"its types differ in slots: {each}", "make a pool of each, or set slots_per_node"
    if pool.efa and not any(kind.type.efa for kind in kinds):
        named = ", ".join(slots)
        yield (
            f"efa is asked for, and {named} can have none here",
            "take a type with EFA (p4d.24xlarge, p5.48xlarge, g6e.48xlarge), or leave efa out",
        )
    if not any(_sold(pool, kind) for kind in kinds):
        yield (
            f"{', '.join(slots)} cannot be had as {pool.market}",
            f"set market to one of {', '.join(sorted({m for k in kinds for m in k.markets}))}",
        )
    strange = [kind for kind in kinds if not _runs(kind, image)]
    if strange and image is not None:
        named = ", ".join(kind.type.name for kind in strange)
        yield (
            f"{named} runs {', '.join(strange[0].machines)}, and the image is for {image.machine}",
            "name an image for it in aws.image, or other types",
        )


def _odd(
    pool: AwsPool, kinds: Mapping[str, Kind], usable: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """What makes some of the pool's types useless while others are not."""
    nowhere = [each for each, zones in usable.items() if not zones]
    if nowhere:
        yield f"no zone for {', '.join(nowhere)}"
    if pool.efa and (without := [each for each in usable if not kinds[each].type.efa]):
        yield f"no EFA for {', '.join(without)}: a gang on it has ordinary network"
    if unsold := [each for each in usable if not _sold(pool, kinds[each])]:
        yield f"not to be had as {pool.market}: {', '.join(unsold)}"


def _sold(pool: AwsPool, kind: Kind) -> bool:
    return not kind.markets or pool.market in kind.markets


def _runs(kind: Kind, image: Image | None) -> bool:
    return image is None or not kind.machines or image.machine in kind.machines


def _zones(type: str, offered: Offered) -> list[str]:
    return [zone for zone, types in offered.items() if type in types]


def _grouped(usable: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Types with the same zones, together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for each, zones in usable.items():
        if zones:
            groups.setdefault(tuple(zones), []).append(each)
    for zones, types in groups.items():
        yield ", ".join(types), zones
