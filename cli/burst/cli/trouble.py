"""Errors on stderr: what, why and mend; and, for what nobody foresaw, where the traceback went."""

from __future__ import annotations

import os
import re
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

import click

from burst.cli.console import wants_colour
from burst.core.errors import BurstError, ExitCode
from burst.core.workspace import home_of


def report(error: BaseException, environ: Mapping[str, str]) -> int:
    """Tell a person about `error` on stderr; returns the exit status it stands for."""
    if isinstance(error, BurstError):
        say(error, environ)
        if environ.get("BURST_DEBUG"):
            traceback.print_exception(error)
        return int(error.exit_code)
    return _report_unforeseen(error, environ)


def say(error: BurstError, environ: Mapping[str, str]) -> None:
    """Print one error on stderr in the form that every error of burst has."""
    colour = wants_colour(environ, sys.stderr)
    click.echo(render(error, colour), err=True, color=colour)


def render(error: BurstError, colour: bool = False) -> str:
    """An error as text: `Error:`, and below it `Why:` and `Mend:` where they are known."""

    def label(text: str, **style: object) -> str:
        return click.style(text, **style) if colour else text  # type: ignore[arg-type]

    lines = [label("Error:", fg="red", bold=True) + " " + _indent(error.what, 7)]
    if error.why:
        lines.append("  " + label("Why:", bold=True) + "  " + _indent(error.why, 8))
    if error.mend:
        lines.append("  " + label("Mend:", bold=True) + " " + _indent(error.mend, 8))
    return "\n".join(lines)


def _indent(text: str, columns: int) -> str:
    return re.sub(r"\n(?=[^\n])", "\n" + " " * columns, text.strip())


def _report_unforeseen(error: BaseException, environ: Mapping[str, str]) -> int:
    text = "".join(traceback.format_exception(error))
    where = _keep(text, home_of(environ))
    name = type(error).__name__
    short = BurstError(
        f"something burst did not foresee: {name}: {error}".rstrip(": "),
        why=f"the full traceback is in {where}" if where else "",
        mend="set BURST_DEBUG=1 to see it here; please report it with the traceback",
    )
    if environ.get("BURST_DEBUG") or not where:
        click.echo(text, err=True, nl=False)
    say(short, environ)
    return int(ExitCode.FAILED)


def _keep(text: str, home: Path) -> Path | None:
    """Write a traceback under the home's `log/`; None where that cannot be written."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = home / "log" / f"error-{stamp}-{os.getpid()}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"burst {' '.join(sys.argv[1:])}\n{text}")
    except OSError:
        return None
    return path
