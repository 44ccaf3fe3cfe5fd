"""Acting on a module once it has been imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from burst.harness.transformers.hook import WIRES, Finder, finder, install, on_import


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package whose modules nobody has imported; no finder is left behind."""
    name = f"hooked_{tmp_path.name.replace('-', '_')}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("here = 1\n")
    (tmp_path / name / "part.py").write_text("value = 2\n")
    (tmp_path / name / "broken.py").write_text("value = 2\nraise OSError('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield name
    sys.meta_path[:] = before
    for module in [each for each in sys.modules if each.startswith(name)]:
        del sys.modules[module]


def test_an_act_follows_the_code_of_its_module_and_no_other(package: str) -> None:
    seen: list[tuple[str, int]] = []
    on_import(f"{package}.part", lambda module: seen.append((module.__name__, module.value)))
    importlib.import_module(package)
    assert seen == []
    part = importlib.import_module(f"{package}.part")
    assert seen == [(f"{package}.part", 2)]
    assert type(part.__loader__).__name__ == "SourceFileLoader"
    assert "exec_module" not in vars(part.__loader__)


def test_a_module_that_is_there_is_acted_on_at_once(package: str) -> None:
    importlib.import_module(f"{package}.part")
    seen: list[str] = []
    on_import(f"{package}.part", lambda module: seen.append(module.__name__))
    assert seen == [f"{package}.part"]


def test_several_act_in_the_order_they_came(package: str) -> None:
    seen: list[int] = []
    for number in range(3):
        on_import(f"{package}.part", lambda _, number=number: seen.append(number))  # type: ignore[misc]
    importlib.import_module(f"{package}.part")
    assert seen == [0, 1, 2]


def test_an_act_that_fails_is_said_and_the_import_goes_on(
    package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(module: ModuleType) -> None:
        raise ValueError("not such a module")

    on_import(f"{package}.part", fail)
    assert importlib.import_module(f"{package}.part").value == 2
    said = f"burst: {package}.part is left as it is: ValueError('not such a module')\n"
    assert capsys.readouterr().err == said


def test_a_module_that_fails_is_acted_on_when_it_is_imported_whole(
    package: str, tmp_path: Path
) -> None:
    seen: list[str] = []
    on_import(f"{package}.broken", lambda module: seen.append(module.__name__))
    with pytest.raises(OSError, match="no"):
        importlib.import_module(f"{package}.broken")
    assert seen == []
    (tmp_path / package / "broken.py").write_text("value = 2\n")
    importlib.invalidate_caches()
    importlib.import_module(f"{package}.broken")
    assert seen == [f"{package}.broken"]


def test_a_module_that_is_nowhere_stays_missing(package: str) -> None:
    on_import(f"{package}.nowhere", lambda module: None)
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        importlib.import_module(f"{package}.nowhere")


def test_installing_again_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "meta_path", [each for each in sys.meta_path if not isinstance(each, Finder)]
    )
    for name in WIRES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    install()
    install()
    wires = {name: len(ours) for name, ours in WIRES.items()}
    assert {name: len(acts) for name, acts in finder().acts.items()} == wires
    assert sum(isinstance(each, Finder) for each in sys.meta_path) == 1
