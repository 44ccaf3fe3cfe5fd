"""From a path to a tree: what can be wrong with a file before anything in it is."""

from __future__ import annotations

from pathlib import Path

from burst.core.config.document import Node, Report, read_yaml
from burst.core.config.problems import Place, Problem, Source
from burst.core.errors import ConfigError


def read_text(path: Path) -> str:
    """A file's text.

    Raises:
        ConfigError: where it is not there, a folder, not readable, or not UTF-8.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {path}", mend="check the path; `burst init` writes an example"
        ) from None
    except IsADirectoryError:
        inside = [name for name in ("exp.yaml", "burst.yaml") if (path / name).is_file()]
        mend = f"write {path / inside[0]}" if inside else "name a file in it"
        raise ConfigError(f"{path} is a folder, not a file", mend=mend) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read", why=error.strerror or str(error)) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        why = "it looks like UTF-16" if utf16 else f"byte {error.start} (line {line}) is not UTF-8"
        raise ConfigError(
            f"{path} is not a text file in UTF-8", why=why, mend="save it as UTF-8"
        ) from None


def read_root(text: str, filename: str, report: Report) -> Node | None:
    """The tree of a file, which has to be a mapping; None with the reason in `report`."""
    source = Source(filename, tuple(text.splitlines()))
    root = read_yaml(text, source, report)
    if root is None:
        if not report.problems:
            hint = "`burst init` writes an example"
            report.problems.append(
                Problem(Place(source, 1, 1), "", "this file is empty", hint=hint)
            )
        return None
    if not isinstance(root.value, dict):
        report.wrong(root, "this file is not a mapping of names to values", hint="write `name: …`")
        return None
    return root
