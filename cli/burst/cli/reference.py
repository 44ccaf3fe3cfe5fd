"""`docs/cli.md`, made from the help of every command and the shapes of `--json`.

python -m burst.cli.reference > docs/cli.md
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator

import click

from burst.cli import shapes
from burst.cli.root import cli
from burst.core.errors import ExitCode

WIDTH = 88

_HEAD = """# The command line

This page is made by `python -m burst.cli.reference > docs/cli.md`; a test holds it current.

Data goes to stdout, everything else to stderr. Every list and show has `--json`. An id may be any
unique beginning of one, `latest` is the newest experiment, `latest.t3` its trial 3, and `key:NAME`
the one that was submitted under a key.

| exit status | means |
|---|---|
"""

_STATUSES = {
    ExitCode.OK: "it worked; for `run` and `wait`: the work completed",
    ExitCode.FAILED: "the work failed, or was cancelled or paused",
    ExitCode.USAGE: "the command was called in a way that means nothing",
    ExitCode.CONFIG: "a file people write is wrong",
    ExitCode.NOT_FOUND: "an id or a name that is not there",
    ExitCode.REFUSED: "a cloud, a quota or a rule said no",
    ExitCode.UNREACHABLE: "the store, the blobs or a network did not answer",
    ExitCode.INTERRUPTED: "interrupted; the work goes on, or what `--on-interrupt` says",
}

_VARIABLES = """
| variable | what it does |
|---|---|
| `BURST_HOME` | where state lives on this machine; `~/.burst` by default |
| `BURST_STORE`, `BURST_BLOBS` | other places for records and bytes; they win over `burst.yaml` |
| `BURST_DEBUG` | show the whole traceback of what burst did not foresee |
| `NO_COLOR`, `FORCE_COLOR` | colour never, or always |
"""

_WORDS = {
    r"\bdict\[str, Json\]": "object",
    r"\bdict\[str, (\w+)\]": r"object of \1",
    r"\blist\[(\w+)\]": r"array of \1",
    r"\bNone\b": "null",
    r"\bbool\b": "true or false",
    r"\bstr\b": "string",
    r"\bfloat\b": "number",
    r"\bint\b": "integer",
    r"\bNumber\b": "number, string or null",
    r" \| ": " or ",
}
"""Python's types in JSON's words, in the order in which they are replaced."""


def reference() -> str:
    """The whole page."""
    rows = "".join(f"| {int(code)} | {means} |\n" for code, means in _STATUSES.items())
    parts = [_HEAD + rows + _VARIABLES, "## Commands\n"]
    parts += [_command(path, command) for path, command in walk(cli, ("burst",))]
    parts.append("## JSON\n\n" + (inspect.getdoc(shapes) or "") + "\n")
    parts += [_shape(name, shape) for name, shape in json_shapes()]
    return "\n".join(parts)


def walk(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below and with `command`, with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=" ".join(path))
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from walk(below, (*path, name))


def json_shapes() -> list[tuple[str, type]]:
    """The shapes by the names that the help calls them."""
    return [
        (name.removesuffix("Json"), shape)
        for name, shape in vars(shapes).items()
        if name.endswith("Json") and typing.is_typeddict(shape)
    ]


def _command(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(
        command,
        info_name=" ".join(path),
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=cli.context_settings["help_option_names"],
    )
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"### {' '.join(path)}\n\n```text\n{text}\n```\n"


def _shape(name: str, shape: type) -> str:
    said = inspect.getdoc(shape) or ""
    said = "" if said.startswith("dict(") else said + "\n\n"
    rows = [f"| `{key}` | {_type(hint)} |" for key, hint in shape.__annotations__.items()]
    return f"### {name}\n\n{said}| name | value |\n|---|---|\n" + "\n".join(rows) + "\n"


def _type(hint: object) -> str:
    """An annotation in JSON's words."""
    text = str(getattr(hint, "__forward_arg__", hint))
    text = re.sub(r"\b(\w+)Json\b", r"\1", text)
    for python, json in _WORDS.items():
        text = re.sub(python, json, text)
    return text


if __name__ == "__main__":
    click.echo(reference(), nl=False)
