"""Hyperparameters in a command line: `${hp.lr}` and `${hp.optimizer.lr}`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from burst.core.errors import ConfigError
from burst.harness.errors import did_you_mean

_REFERENCE = re.compile(r"\$\{hp\.([^}]*)\}")


def command_of(entrypoint: str | Sequence[str], hparams: Mapping[str, Any]) -> list[str]:
    """The command's words. A list is taken word by word; a line is given to the shell, with each
    value quoted so that it stays one word.

    Raises:
        ConfigError: for a hyperparameter that is not there.
    """
    if isinstance(entrypoint, str):
        line = _REFERENCE.sub(lambda m: shlex.quote(_text(m[1], hparams)), entrypoint)
        return ["/bin/sh", "-c", f"exec {line}" if _is_simple(entrypoint) else line]
    return [_REFERENCE.sub(lambda m: _text(m[1], hparams), word) for word in entrypoint]


def lookup(path: str, hparams: Mapping[str, Any]) -> Any:
    """The hyperparameter at a dotted path.

    Raises:
        ConfigError: if there is none, with the nearest names.
    """
    if not isinstance(path, str):
        raise ConfigError(
            f"a hyperparameter's name is a string, and {path!r:.60} is none",
            why=f"it is of the type {type(path).__name__}",
            mend=did_you_mean("", paths(hparams)),
        )
    if path in hparams:
        return hparams[path]
    found: Any = hparams
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise ConfigError(
                f"there is no hyperparameter {path!r}", mend=did_you_mean(path, paths(hparams))
            )
        found = found[part]
    return found


def paths(hparams: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The dotted paths of all hyperparameters."""
    found: list[str] = []
    for name, value in hparams.items():
        found.append(f"{prefix}{name}")
        if isinstance(value, Mapping):
            found.extend(paths(value, f"{prefix}{name}."))
    return found


def _text(path: str, hparams: Mapping[str, Any]) -> str:
    value = lookup(path.strip(), hparams)
    return value if isinstance(value, str) else json.dumps(value)


def _is_simple(line: str) -> bool:
    """Whether the shell may be replaced by the one command it runs, so that signals reach it."""
    return not re.search(r"[;&|<>()`\n]|\$\(|^\s*\w+=", _REFERENCE.sub("", line))
