"""Packages for another machine than this: wheels from the index that is set up here."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from burst.core.errors import BurstError, Unreachable
from burst.infra.bundle.target import Target

_PATIENCE_S = 600.0
_GLIBCS = (28, 17)


def fetch(pins: Sequence[str], target: Target, folder: Path) -> Path:
    """A folder below `folder` with those packages unpacked; fetched once.

    Args:
        pins: `name==version`, all that is wanted: nothing else comes with them.

    Raises:
        BurstError: neither uv nor pip is here.
        Unreachable: the index has no wheel of one of them for that machine, or does not answer.
    """
    wanted = "\n".join((target.python, target.processor, str(target.glibc), *sorted(pins)))
    place = folder / f"packages-{hashlib.sha256(wanted.encode()).hexdigest()[:32]}"
    if place.is_dir():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix="packages-") as part:
        into = Path(part) / "packages"
        _install(_command(target, into), pins, target)
        try:
            into.rename(place)
        except OSError:
            if not place.is_dir():  # another process was first
                raise
    return place


def _command(target: Target, into: Path) -> list[str]:
    uv = _uv()
    common = ["--no-deps", "--only-binary", ":all:", "--python-version", target.python]
    if uv:
        named = f"{target.processor}-manylinux_2_{target.glibc}"
        program = [uv, "pip", "install", "--quiet", "--python", sys.executable]
        return [*program, "--python-platform", named, *common, "--target", str(into)]
    if not _has_pip():
        raise BurstError(
            "burst cannot be packed for another machine: neither uv nor pip is here",
            why=f"the bundle is for Python {target.python} on {target.processor} Linux, for which "
            "packages have to be fetched",
            mend="`python -m ensurepip`, or install uv",
        )
    program = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [*program, *_platforms(target), *common, "--target", str(into)]


def _platforms(target: Target) -> Iterable[str]:
    """pip takes a platform as it is, and none that is older for it."""
    for glibc in _GLIBCS:
        if glibc <= target.glibc:
            yield from ("--platform", f"manylinux_2_{glibc}_{target.processor}")
    yield from ("--platform", f"manylinux2014_{target.processor}")


def _install(command: Sequence[str], pins: Sequence[str], target: Target) -> None:
    try:
        done = subprocess.run(
            [*command, *pins],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _not_had(target, f"nothing came for {_PATIENCE_S:.0f} s") from error
    if done.returncode != 0:
        raise _not_had(target, (done.stderr or done.stdout).strip()[-2000:])


def _not_had(target: Target, why: str) -> Unreachable:
    return Unreachable(
        f"cannot fetch what burst needs for Python {target.python} on {target.processor} Linux",
        why=why,
        mend="see that the package index can be reached (UV_INDEX_URL, PIP_INDEX_URL), or run "
        f"this on {target.processor} Linux with that Python, where what is installed is packed",
    )


def _uv() -> str | None:
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def _has_pip() -> bool:
    from importlib.util import find_spec

    return find_spec("pip") is not None
