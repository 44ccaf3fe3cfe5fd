"""Which packages a bundle needs, in the versions that are installed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from burst.core.errors import BurstError
from burst.infra.bundle.target import Target, What

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_OF_A_PERSON = frozenset({"click", "rich"})
"""What only the command line needs."""
_OF_TRAINING = frozenset({"fsspec", "s3fs"})
"""What only training code needs, which the runner does not run."""
_LEFT_OUT: Mapping[What, frozenset[str]] = {
    "runner": _OF_A_PERSON | _OF_TRAINING,
    "node": _OF_A_PERSON,
}


def needed(what: What, target: Target) -> dict[str, Distribution]:
    """By name, all that burst needs there, and what that needs; burst itself is not among it.

    Raises:
        BurstError: something is not installed here, so that no version of it is known to work.
    """
    found: dict[str, Distribution] = {}
    left = [
        (each, "burst")
        for each in _requires(distribution("burst"), frozenset(), target)
        if _normal(each.name) not in _LEFT_OUT[what]
    ]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        requirement, by = left.pop()
        name, extras = _normal(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found[name] = _installed(name, by)
        left += [(each, name) for each in _requires(found[name], extras, target)]
    return dict(sorted(found.items()))


def _requires(
    package: Distribution, extras: frozenset[str], target: Target
) -> Iterator[Requirement]:
    from packaging.requirements import Requirement

    for line in package.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        environments = [{**target.markers(), "extra": extra} for extra in ("", *sorted(extras))]
        if marker is None or any(marker.evaluate(each) for each in environments):
            yield requirement


def _installed(name: str, by: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise BurstError(
            f"burst cannot be packed: {name} is not installed here",
            why=f"{by} needs it on the machine that the bundle is for",
            mend=f"`pip install {name}`, so that its version is known",
        ) from error


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return str(canonicalize_name(name))
