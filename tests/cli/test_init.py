from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from burst.core.config.load import load_experiment
from tests.cli.conftest import Burst


def test_what_init_writes_is_a_right_experiment(burst: Burst, tmp_path: Path) -> None:
    burst("init", str(tmp_path / "new"))
    loaded = load_experiment(tmp_path / "new" / "exp.yaml")
    assert loaded.warnings == ()
    assert loaded.unacted == ()
    module, _, name = str(loaded.config.entrypoint).partition(":")
    tree = ast.parse((tmp_path / "new" / f"{module}.py").read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_every_choice_in_the_experiment_has_a_comment(burst: Burst, tmp_path: Path) -> None:
    burst("init", str(tmp_path / "new"))
    text = (tmp_path / "new" / "exp.yaml").read_text()
    assert set(yaml.safe_load(text)) >= {"entrypoint", "searcher", "resources", "checkpoints"}
    assert text.count("#") > 12


def test_init_never_overwrites_unless_forced(burst: Burst, tmp_path: Path) -> None:
    mine = tmp_path / "train.py"
    mine.write_text("mine")
    result = burst("init", str(tmp_path), status=5)
    assert "train.py is there already" in result.stderr
    assert mine.read_text() == "mine"
    assert not (tmp_path / "exp.yaml").exists()
    burst("init", str(tmp_path), "--force")
    assert mine.read_text() != "mine"


@pytest.mark.parametrize("name", ["exp.yaml", "train.py", "test_train.py"])
def test_init_says_what_it_wrote(burst: Burst, tmp_path: Path, name: str) -> None:
    result = burst("init", str(tmp_path))
    assert f"wrote {tmp_path / name}" in result.stderr
    assert "burst run exp.yaml" in result.stderr
