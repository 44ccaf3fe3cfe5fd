"""How burst comes into the Python programs of a command, and that it costs them nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import burst.harness.transformers.site

SITE = Path(burst.harness.transformers.site.__file__).parent
LOADED = "import sys; print(sorted({'burst.harness.transformers.hook'} & set(sys.modules)))"
HEAVY = {"typing", "pydantic", "torch", "transformers", "numpy", "json", "re", "burst.core"}


def python(
    folder: Path, *words: str, path: tuple[Path, ...] = (), env: dict[str, str] | None = None
) -> list[str]:
    """What a Python of a command prints, its errors among it, as lines."""
    own = {"BURST_LAUNCH": str(folder / "spec.json"), **(env or {})}
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SITE, *path))), **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_program_of_a_command_has_the_hook_and_none_of_what_it_did_not_import(
    tmp_path: Path,
) -> None:
    program = f"import sys; print(sorted({HEAVY!r} & set(sys.modules)), sys.path)"
    loaded, *more = python(tmp_path, "-c", f"{LOADED}; {program}")
    assert loaded == "['burst.harness.transformers.hook']"
    assert more[0].startswith("[] ")
    assert str(SITE) not in more[0]


@pytest.mark.parametrize(
    ("words", "env"),
    [
        ((), {"BURST_LAUNCH": ""}),
        ((), {"BURST_TRANSFORMERS": "off"}),
        (("-I",), {}),
        (("-S",), {}),
        (("-E",), {}),
    ],
)
def test_a_program_is_left_alone_elsewhere_and_where_it_asks(
    tmp_path: Path, words: tuple[str, ...], env: dict[str, str]
) -> None:
    assert python(tmp_path, *words, "-c", LOADED, env=env) == ["[]"]


def test_the_next_sitecustomize_runs_as_if_it_were_the_only_one(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine', __file__)\nvalue = 3\n")
    program = "import sitecustomize; print(sitecustomize.value)"
    said = python(tmp_path, "-c", program, path=(tmp_path,))
    assert said == [f"mine {tmp_path / 'sitecustomize.py'}", "3"]


def test_an_error_of_the_next_sitecustomize_is_told_as_python_tells_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import nothing_of_the_kind\n")
    said = python(tmp_path, "-c", "print('ran')", path=(tmp_path,))
    assert said[0].startswith("Error in sitecustomize")
    assert said[-1] == "ran"


def test_an_interpreter_without_burst_says_so_once_and_runs(tmp_path: Path) -> None:
    empty = tmp_path / "burst" / "harness"
    empty.mkdir(parents=True)
    for part in (tmp_path / "burst", empty):
        (part / "__init__.py").touch()
    first = python(tmp_path, "-c", "print('ran')", path=(tmp_path,))
    assert first[0].startswith(f"burst: {sys.executable} cannot import burst")
    assert first[1:] == ["ran"]
    assert python(tmp_path, "-c", "print('ran')", path=(tmp_path,)) == ["ran"]
