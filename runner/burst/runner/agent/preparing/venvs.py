"""Python environments of experiments, built by uv and kept by what they were built from.

A venv sees the node's own packages behind its own (a `.pth` file appended to its path), so burst
and the node's torch need no second installation. Where the Python version differs that would mix
binaries, so burst itself is installed into the venv.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from burst.core.config.experiment import PythonEnvironment
from burst.runner.agent.locks import FileLock
from burst.runner.agent.running.environment import CannotPrepare

_COMPLETE = "complete"
KEEP = 10
"""Environments kept on a node, and with them all that were used within a day."""
_UNUSED_S = 86_400.0


class Helper(Protocol):
    """Who builds for whom: `burst.runner.agent.preparing.preparation.Preparation`."""

    def run(self, command: Sequence[str], folder: Path) -> None:
        """Run a command in a folder; raises CannotPrepare if it fails."""
        ...

    def pause(self) -> None:
        """Let a moment pass; raises where the attempt has to leave."""
        ...


@dataclass(frozen=True)
class Recipe:
    """What a venv is built from; the same recipe is the same venv."""

    version: str
    requirements: tuple[str, ...]
    behind: tuple[str, ...]
    """The folders of the node's packages that it sees behind its own."""

    @property
    def name(self) -> str:
        text = json.dumps([self.version, self.requirements, self.behind])
        return hashlib.sha256(text.encode()).hexdigest()[:24]


def recipe_for(wanted: PythonEnvironment, code: Path) -> Recipe:
    """The recipe of `environment.python`, its requirements file read from the code folder.

    Raises:
        CannotPrepare: the file is not there.
    """
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    version = wanted.version or own
    requirements = _lines(wanted.requirements, code)
    if version == own or version.startswith(f"{own}."):
        behind = tuple(entry for entry in sys.path if entry and Path(entry).is_dir())
        return Recipe(version, requirements, behind)
    return Recipe(version, (*requirements, _burst_requirement(version, own)), ())


def _lines(requirements: tuple[str, ...], code: Path) -> tuple[str, ...]:
    if len(requirements) != 1 or not requirements[0].endswith(".txt"):
        return requirements
    path = code / requirements[0]
    try:
        return tuple(path.read_text().splitlines())
    except OSError as error:
        raise CannotPrepare(
            f"{requirements[0]} cannot be read: {error.strerror}",
            why="environment.python.requirements names it, relative to the code folder",
            mend="correct the path, or see that .burstignore does not exclude it",
        ) from error


def _burst_requirement(version: str, own: str) -> str:
    """Where this very burst is had from. Never by its name alone: on PyPI that is another's.

    Raises:
        CannotPrepare: it was put here packed, compiled for the node's own Python.
    """
    told = metadata.distribution("burst").read_text("direct_url.json") or "{}"
    source = json.loads(told).get("url", "")
    if not source:
        raise CannotPrepare(
            f"this node has no burst for Python {version}",
            why=f"it was given one that is compiled for its own Python, {own}",
            mend=f"drop environment.python.version, or say {own}; or use environment.image",
        )
    return f"burst[train] @ {source}"


def ensure_venv(recipe: Recipe, cache: Path, code: Path, helper: Helper) -> Path:
    """The interpreter of the venv for `recipe`, built if it is not there yet.

    Safe for several agents on one home; a build that was cut off is begun again.

    Raises:
        CannotPrepare: uv is missing, or could not build it.
    """
    folder = cache / recipe.name
    lock = FileLock(cache / f"{recipe.name}.lock")
    while not lock.try_take():
        helper.pause()
    try:
        if not (folder / _COMPLETE).exists():
            _build(recipe, folder, code, helper)
        (folder / _COMPLETE).touch()
    finally:
        lock.release()
    _trim(cache)
    return folder / "bin" / "python"


def _build(recipe: Recipe, folder: Path, code: Path, helper: Helper) -> None:
    uv = find_uv()
    shutil.rmtree(folder, ignore_errors=True)
    version = sys.executable if recipe.behind else recipe.version
    helper.run([uv, "venv", "--quiet", "--no-project", "--python", version, str(folder)], code)
    if recipe.behind:
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "_burst_node.pth").write_text("\n".join(recipe.behind) + "\n")
    if recipe.requirements:
        python = str(folder / "bin" / "python")
        with _file_of(recipe.requirements, code) as path:
            install = [uv, "pip", "install", "--quiet", "--python", python, "-r", str(path)]
            helper.run(install, code)


def _trim(cache: Path) -> None:
    """Remove what has not been used for long, beyond the newest few."""
    used = sorted(cache.glob(f"*/{_COMPLETE}"), key=lambda path: path.stat().st_mtime)
    for marker in used[:-KEEP]:
        if time.time() - marker.stat().st_mtime > _UNUSED_S:
            marker.unlink(missing_ok=True)
            shutil.rmtree(marker.parent, ignore_errors=True)


@contextmanager
def _file_of(requirements: tuple[str, ...], code: Path) -> Iterator[Path]:
    """Beside the code, because requirement lines may hold paths relative to their file."""
    path = code / ".burst-requirements.txt"
    path.write_text("\n".join(requirements) + "\n")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def find_uv() -> str:
    """uv, from the path or from beside the agent's own interpreter.

    Raises:
        CannotPrepare: it is in neither.
    """
    beside = Path(sys.executable).with_name("uv")
    found = shutil.which("uv") or (str(beside) if beside.exists() else None)
    if found is None:
        raise CannotPrepare(
            "uv is not on this node",
            why="environment.python in the experiment file asks for a Python environment",
            mend="install uv (`pip install uv`) where the agent runs, or drop environment.python",
        )
    return found
