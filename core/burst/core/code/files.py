"""Which files of a folder are the code: what is ignored, and where links may point."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from burst.core.errors import ConfigError, Refused
from burst.core.state_mark import STATE_MARK

MOST_FILES = 50_000
IGNORE_FILES = (".gitignore", ".burstignore")
"""Both follow git's rules; in one folder the second has the last word."""
_NEVER = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".venv", ".tox", "node_modules", ".DS_Store"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints"}
)


@dataclass(frozen=True)
class Entry:
    """A file, folder or link, by its path under the code folder, with slashes."""

    path: str
    size: int = 0
    """Bytes; 0 for folders and links."""
    executable: bool = False
    is_folder: bool = False
    link: str = ""
    """Where a link points, relative to the folder it is in."""


@dataclass(frozen=True)
class _Rules:
    """The ignore files of one folder; a path is given relative to that folder."""

    base: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, *, is_folder: bool) -> bool | None:
        """True to ignore, False to keep in spite of other rules, None to have no say."""
        name = path.relative_to(self.base).as_posix()
        return self.spec.check_file(name + "/" * is_folder).include


def find_code(folder: Path) -> list[Entry]:
    """The entries under `folder`, sorted by path; folders come before what is in them.

    Raises:
        ConfigError: a folder cannot be read, or a link points out of `folder`.
        Refused: there are more than `MOST_FILES`.
    """
    folder = Path(os.path.realpath(folder))
    entries: list[Entry] = []
    for entry in _walk(folder, folder, _rules_above(folder)):
        entries.append(entry)
        if len(entries) > MOST_FILES:
            raise Refused(
                f"the code folder {folder} has more than {MOST_FILES} files",
                why=f"the last one found was {entry.path}",
                mend="keep the experiment in a folder of its own, or use .burstignore",
            )
    return sorted(entries, key=lambda entry: entry.path)


def _walk(root: Path, folder: Path, above: Sequence[_Rules]) -> Iterator[Entry]:
    rules = [*above, *_rules_in(folder)]
    try:
        with os.scandir(folder) as scan:
            found = sorted(scan, key=lambda item: item.name)
    except OSError as error:
        raise ConfigError(
            f"cannot read {folder}, which is part of the code",
            why=error.strerror or str(error),
            mend="make it readable, or name it in .burstignore",
        ) from error
    for item in found:
        is_folder = item.is_dir(follow_symlinks=False)
        path = Path(item.path)
        if _is_ignored(path, is_folder=is_folder, rules=rules):
            continue
        name = path.relative_to(root).as_posix()
        if is_folder:
            yield Entry(name, executable=True, is_folder=True)
            yield from _walk(root, path, rules)
        elif item.is_symlink():
            yield Entry(name, link=_target(root, path))
        elif item.is_file():
            facts = item.stat()
            yield Entry(name, facts.st_size, bool(facts.st_mode & stat.S_IXUSR))


def _is_ignored(path: Path, *, is_folder: bool, rules: Sequence[_Rules]) -> bool:
    if path.name in _NEVER or path.suffix == ".pyc":
        return True
    # unlike Path.exists, os.path.exists never raises
    if is_folder and any(os.path.exists(path / mark) for mark in ("pyvenv.cfg", STATE_MARK)):
        return True
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _rules_in(folder: Path) -> list[_Rules]:
    lines: list[str] = []
    for name in IGNORE_FILES:
        try:
            lines += (folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
        except (FileNotFoundError, IsADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(
                f"cannot read {folder / name}", why=error.strerror or str(error)
            ) from error
    return [_Rules(folder, GitIgnoreSpec.from_lines(lines))] if lines else []


def _rules_above(folder: Path) -> list[_Rules]:
    """The rules of the repository that `folder` is a part of, but for any that ignore it whole."""
    above: list[Path] = []
    for parent in (folder, *folder.parents):
        above.append(parent)
        if (parent / ".git").exists():
            break
    else:
        return []
    rules = [rule for parent in reversed(above[1:]) for rule in _rules_in(parent)]
    return [rule for rule in rules if not rule.verdict(folder, is_folder=True)]


def _target(root: Path, link: Path) -> str:
    """Where `link` points, relative to its folder."""
    target = Path(os.path.realpath(link))
    if not target.is_relative_to(root):
        raise ConfigError(
            f"the link {link} points out of the code folder",
            why=f"it leads to {target}, which the node will not have",
            mend="copy what it points to into the folder, or name the link in .burstignore",
        )
    return Path(os.path.relpath(target, link.parent)).as_posix()
