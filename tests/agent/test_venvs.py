"""Python environments of experiments, built by the real uv from a wheel beside the code."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest

from burst.core.config.experiment import PythonEnvironment
from burst.runner.agent.preparing.venvs import ensure_venv, find_uv, recipe_for
from burst.runner.agent.running.environment import CannotPrepare


class Shell:
    """Runs what it is given and remembers it."""

    def __init__(self) -> None:
        self.commands: list[Sequence[str]] = []

    def run(self, command: Sequence[str], folder: Path) -> None:
        self.commands.append(command)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotPrepare(f"{command[0]} failed", why=done.stderr)

    def pause(self) -> None:
        raise AssertionError("nobody else builds")


def _wheel(folder: Path) -> str:
    name = "tinything-1.0-py3-none-any.whl"
    info = "tinything-1.0.dist-info"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr("tinything.py", "VALUE = 42\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return f"./{name}"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    try:
        find_uv()
    except CannotPrepare:
        pytest.skip("uv is not on this machine")


def test_a_venv_has_its_requirements_sees_the_nodes_packages_and_is_built_once(
    tmp_path: Path,
) -> None:
    code, shell = tmp_path / "code", Shell()
    code.mkdir()
    (code / "needs.txt").write_text(_wheel(code) + "\n")
    recipe = recipe_for(PythonEnvironment(requirements=("needs.txt",)), code)
    python = ensure_venv(recipe, tmp_path / "venvs", code, shell)
    program = "import tinything, burst.core.model, psutil; print(tinything.VALUE)"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("42\n", "")
    built = len(shell.commands)
    assert ensure_venv(recipe, tmp_path / "venvs", code, shell) == python
    assert len(shell.commands) == built
    assert not (code / ".burst-requirements.txt").exists()


def test_a_build_that_failed_is_begun_again(tmp_path: Path) -> None:
    code, shell = tmp_path / "code", Shell()
    code.mkdir()
    recipe = recipe_for(
        PythonEnvironment(requirements=("./tinything-1.0-py3-none-any.whl",)), code
    )
    with pytest.raises(CannotPrepare):
        ensure_venv(recipe, tmp_path / "venvs", code, shell)
    _wheel(code)
    assert ensure_venv(recipe, tmp_path / "venvs", code, shell).exists()


def test_a_requirements_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotPrepare, match=r"needs\.txt cannot be read"):
        recipe_for(PythonEnvironment(requirements=("needs.txt",)), tmp_path)


def test_another_python_gets_burst_itself_rather_than_the_nodes_binaries(tmp_path: Path) -> None:
    recipe = recipe_for(PythonEnvironment(version="3.99", requirements=("a==1",)), tmp_path)
    assert recipe.behind == ()
    assert recipe.requirements[0] == "a==1"
    assert recipe.requirements[1].startswith("burst[train] @ file:")


def test_another_python_is_refused_where_burst_was_put_packed_and_never_looked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Packed:
        def read_text(self, name: str) -> None:
            return None

    monkeypatch.setattr(metadata, "distribution", lambda name: Packed())
    with pytest.raises(CannotPrepare, match=r"no burst for Python 3\.99"):
        recipe_for(PythonEnvironment(version="3.99"), tmp_path)
    assert recipe_for(PythonEnvironment(requirements=("a==1",)), tmp_path).requirements == (
        "a==1",
    )


def test_without_uv_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(CannotPrepare) as caught:
        find_uv()
    assert "pip install uv" in caught.value.mend
