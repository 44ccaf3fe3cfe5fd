"""`module:Class`, looked for in the code folder before anything is started. Runs no user code."""

from __future__ import annotations

import ast
import difflib
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

from burst.core.errors import ConfigError
from burst.core.launch import names_class

_ANYTHING = "*"


def check_entrypoint(entrypoint: str | tuple[str, ...], folder: Path) -> None:
    """Whether a trial class that an experiment names is there, as far as reading can tell.

    A command is not looked into, and neither is a module that is installed or that makes its names
    as it is imported.

    Raises:
        ConfigError: there is no such module or class, or the module is not Python.
    """
    if not isinstance(entrypoint, str) or not names_class(entrypoint) or not folder.is_dir():
        return
    module, _, name = entrypoint.partition(":")
    file = _file(module, folder)
    if file is None:
        first = module.partition(".")[0]
        if _file(first, folder) is None and importlib.util.find_spec(first) is not None:
            return
        known = [path.stem for path in folder.glob("*.py")]
        raise _wrong(f"there is no module {module!r} in {folder}", entrypoint, module, known)
    names = set(_names(_parsed(file).body))
    if _ANYTHING in names or name.partition(".")[0] in names:
        return
    raise _wrong(f"{file} has no class {name!r}", entrypoint, name, names)


def _file(module: str, folder: Path) -> Path | None:
    path = folder.joinpath(*module.split("."))
    candidates = (path.with_name(path.name + ".py"), path / "__init__.py")
    return next((found for found in candidates if found.is_file()), None)


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        raise ConfigError(
            f"{file}:{error.lineno}:{error.offset} is not Python",
            why=f"{error.msg}: {(error.text or '').strip()}",
            mend="correct that line",
        ) from error


def _names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """What the statements of a module bind, in all branches; `*` if reading cannot tell."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield _ANYTHING if name == "__getattr__" else name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((a.asname or a.name).partition(".")[0] for a in aliases)
            case ast.Assign() | ast.AnnAssign():
                yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            case ast.If() | ast.Try() | ast.With():
                yield from _names(n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt))
                for handler in getattr(node, "handlers", ()):
                    yield from _names(handler.body)
            case ast.For() | ast.While() | ast.Match() | ast.Expr(value=ast.Call()):
                yield _ANYTHING  # such as globals().update(…)


def _wrong(what: str, entrypoint: str, given: str, known: Iterable[str]) -> ConfigError:
    near = difflib.get_close_matches(given, sorted(filter(None, known)), n=1)
    return ConfigError(
        what,
        why=f"`entrypoint` is {entrypoint!r}",
        mend=f"did you mean {near[0]!r}?" if near else "name a class of the code folder",
    )
