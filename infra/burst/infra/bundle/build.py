"""Making a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from email.parser import Parser
from importlib.metadata import Distribution
from pathlib import Path

from burst.core.errors import BurstError
from burst.infra.bundle.archive import digest_of, write_archive
from burst.infra.bundle.contents import Contents, lean, of_burst, of_folder, of_installed
from burst.infra.bundle.fetch import fetch
from burst.infra.bundle.requirements import needed
from burst.infra.bundle.target import Target, What, target_of
from burst.infra.settings import Bundle

LARGEST = 50 * 2**20
"""Bytes of a function's zip file that AWS takes with the call that makes it."""
LARGEST_UNPACKED = 250 * 2**20


def build_bundle(folder: Path, *, what: What, python: str, machine: str) -> Bundle:
    """burst, and what it needs, as a zip file in `folder`, which is made if it is not there.

    The same burst and the same versions give the same bytes and the same digest. What is in the
    folder already is taken as it is, so a second call costs a second.

    Args:
        what: `runner` for the function, which needs neither harness nor training; `node` for
            machines whose image has torch and numpy, to be unpacked and put on PYTHONPATH.
        python: the Python there, `3.12`.
        machine: `x86_64` or `arm64`.

    Raises:
        UsageError: no such Python or machine.
        BurstError: something that is needed is not installed here, or AWS would not take it.
        Unreachable: packages for another machine than this had to be fetched and could not be.
    """
    target = target_of(what, python, machine)
    packages = needed(what, target)
    contents = of_burst(what) | _packages(packages, target, folder)
    if what == "runner":
        contents = lean(contents)
    files = {name: path.read_bytes() for name, path in contents.items()}  # once: they may change
    digest = digest_of(files)
    path = folder / f"{what}-{digest}.zip"
    if not path.exists():
        write_archive(files, path)
    if what == "runner":
        _require_small(path.stat().st_size, sum(map(len, files.values())))
    return Bundle(path=path, digest=digest, python=python, machine=machine)


def _packages(packages: Mapping[str, Distribution], target: Target, folder: Path) -> Contents:
    """Those that are installed, where they are for such a machine; or they are fetched."""
    if target.is_here() and all(_runs(each, target) for each in packages.values()):
        return of_installed(packages.values())
    pins = [f"{name}=={package.version}" for name, package in packages.items()]
    return of_folder(fetch(pins, target, folder))


def _runs(package: Distribution, target: Target) -> bool:
    """Whether the wheel that an installed package came of works there."""
    text = package.read_text("WHEEL")
    tags = Parser().parsestr(text).get_all("Tag", []) if text else []
    return target.runs([platform for tag in tags for platform in tag.split("-")[2].split(".")])


def _require_small(packed: int, unpacked: int) -> None:
    if packed > LARGEST or unpacked > LARGEST_UNPACKED:
        raise BurstError(
            "burst is too large for a function",
            why=f"it has {packed / 2**20:.0f} MiB packed and {unpacked / 2**20:.0f} MiB unpacked; "
            f"AWS takes {LARGEST / 2**20:.0f} and {LARGEST_UNPACKED / 2**20:.0f}",
            mend="this is a defect of burst: please report it",
        )
