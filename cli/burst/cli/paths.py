"""Paths on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class GivenPath(click.Path):
    """A path that is not empty: empty is what a variable without a value comes to, and must not
    mean the folder that one happens to be in."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if not os.fspath(value).strip():
            self.fail("the path is empty; . is the folder that you are in.", param, ctx)
        return super().convert(value, param, ctx)
