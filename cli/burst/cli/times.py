"""Spans of time as options: `90s`, `10m`, `2h`."""

from __future__ import annotations

import click


class Span(click.ParamType[float]):
    """Seconds."""

    name = "time"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        from burst.core.units import parse_duration

        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
