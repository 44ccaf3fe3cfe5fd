"""A trial class that is not there is told before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.code.entrypoint import check_entrypoint
from burst.core.errors import ConfigError


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(
        "import other\n"
        "from elsewhere import Borrowed as Lent\n"
        "class DigitsTrial: pass\n"
        "Alias = DigitsTrial\n"
        "try:\n    from fast import Quick\nexcept ImportError:\n    class Quick: pass\n"
        "if True:\n    class Chosen: pass\n"
    )
    (tmp_path / "models" / "vision").mkdir(parents=True)
    (tmp_path / "models" / "vision" / "__init__.py").write_text("class Net: pass\n")
    (tmp_path / "magic.py").write_text("from train import *\n")
    (tmp_path / "made.py").write_text("globals().update(Trial=object)\n")
    return tmp_path


@pytest.mark.parametrize(
    "entrypoint",
    [
        "train:DigitsTrial",
        "train:Lent",
        "train:Alias",
        "train:Quick",
        "train:Chosen",
        "models.vision:Net",
        "magic:Anything",
        "made:Trial",
        "json:JSONDecoder",
        ("python", "nowhere.py"),
        "python nowhere.py --name a:b",
    ],
)
def test_what_may_be_there_passes(code: Path, entrypoint: str | tuple[str, ...]) -> None:
    check_entrypoint(entrypoint, code)


@pytest.mark.parametrize(
    ("entrypoint", "what", "mend"),
    [
        ("trian:DigitsTrial", "no module 'trian'", "'train'"),
        ("train:DigitTrial", "no class 'DigitTrial'", "'DigitsTrial'"),
        ("models.language:Net", "no module 'models.language'", "name a class"),
        ("models.vision:Nets", "no class 'Nets'", "'Net'"),
    ],
)
def test_what_is_not_there_is_told_with_the_nearest(
    code: Path, entrypoint: str, what: str, mend: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        check_entrypoint(entrypoint, code)
    assert what in raised.value.what
    assert mend in raised.value.mend


def test_a_module_that_is_not_python_is_told_with_its_line(code: Path) -> None:
    (code / "train.py").write_text("class Trial:\n    def f(self:\n")
    with pytest.raises(ConfigError, match=r"train\.py:2:"):
        check_entrypoint("train:Trial", code)
