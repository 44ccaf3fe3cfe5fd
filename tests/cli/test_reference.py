from __future__ import annotations

import re
from pathlib import Path

from burst.cli import reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_what_the_commands_say_now() -> None:
    assert PAGE.read_text() == reference.reference(), (
        "run: python -m burst.cli.reference > docs/cli.md"
    )


def test_every_shape_that_a_help_names_is_in_the_page() -> None:
    page = reference.reference()
    shapes = dict(reference.json_shapes())
    helps = page[: page.index("## JSON")]
    named = set(re.findall(r"`([A-Z]\w+)`", helps.partition("## Commands")[2]))
    assert named
    assert named <= set(shapes)


def test_no_type_of_python_is_left_in_the_page() -> None:
    shapes = reference.reference().partition("## JSON")[2]
    assert re.findall(r"\b(str|int|float|dict|list|None|bool|Json)\b", shapes) == []
