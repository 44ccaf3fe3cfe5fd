"""What goes into a bundle: names below its root, and the files that hold the bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath

from burst.infra.bundle.target import What

Contents = dict[str, Path]
"""By name in the bundle."""

_ROOMS: dict[What, tuple[str, ...]] = {
    "runner": ("core", "runner"),
    "node": ("core", "runner", "harness"),
}
_OF_TESTS = ("burst/core/testing/", "burst/runner/testing/", "burst/runner/rehearsal/")
_NO_CODE = (".pyc", ".pyi", ".pyx", ".pxd", ".c", ".h", ".pth")
_OF_A_PACKAGE = ("METADATA", "entry_points.txt")
"""What programs ask of an installed package: its version, and what it offers."""
_SERVICES = ("dynamodb", "ec2", "s3", "sts")
"""AWS's services that the runner calls; the descriptions of all of them are half of a bundle."""
_DESCRIPTION = re.compile(r"botocore/data/(?P<service>[^/]+)/(?P<version>[^/]+)/")


def of_burst(what: What) -> Contents:
    """burst's own modules, and what says its version."""
    found: Contents = {}
    for room in _ROOMS[what]:
        [folder, *_] = import_module(f"burst.{room}").__path__
        for path in sorted(Path(folder).rglob("*")):
            name = f"burst/{room}/{path.relative_to(folder).as_posix()}"
            if path.is_file() and _is_code(name) and not name.startswith(_OF_TESTS):
                found[name] = path
    own = distribution("burst")
    return found | of_installed([own], only_metadata=True)


def of_installed(packages: Iterable[Distribution], *, only_metadata: bool = False) -> Contents:
    """Files of installed packages that a program needs when it runs."""
    found: Contents = {}
    for package in packages:
        for path in package.files or ():
            name = path.as_posix()
            if not _is_code(name) or (only_metadata and not _of_metadata(name)):
                continue
            located = Path(str(package.locate_file(path)))
            if located.is_file():
                found[name] = located
    return found


def of_folder(folder: Path) -> Contents:
    """The same of packages that an installer has put below a folder."""
    found: Contents = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and _is_code(name) and not name.startswith("bin/"):
            found[name] = path
    return found


def lean(contents: Contents) -> Contents:
    """Without the descriptions of AWS's services that the runner does not call, and without the
    older ones of those that it does."""
    newest: dict[str, str] = {}
    for name in contents:
        if found := _DESCRIPTION.match(name):
            service, version = found["service"], found["version"]
            newest[service] = max(newest.get(service, ""), version)
    kept = {service: version for service, version in newest.items() if service in _SERVICES}
    return {name: path for name, path in contents.items() if _described(name, kept)}


def _described(name: str, kept: dict[str, str]) -> bool:
    found = _DESCRIPTION.match(name)
    return found is None or kept.get(found["service"]) == found["version"]


def _is_code(name: str) -> bool:
    """Whether it is part of the program, and not what was left beside it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.suffix in _NO_CODE:
        return False
    if any(part.startswith(".") or part in ("__pycache__", "tests") for part in path.parts):
        return False
    return _of_metadata(name) or not path.parts[0].endswith(".dist-info")


def _of_metadata(name: str) -> bool:
    folder, _, rest = name.partition("/")
    return folder.endswith(".dist-info") and rest in _OF_A_PACKAGE
