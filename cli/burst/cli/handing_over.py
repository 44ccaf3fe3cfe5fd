"""Which shell's credentials count: those of the newest that asked for something to be done.

A runner in the background, and the agents that it starts, keep the environment that they were
started with for as long as there is work. So one with other credentials than the newest shell's
leaves as soon as another drives. What is written down is a fingerprint, and no secret.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from burst.cli.driving import is_driven, start_runner

_WHO = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
"""Where none of these is set, an environment says nothing of who asks."""
_MORE = (
    "AWS_CONFIG_FILE",
    "AWS_ROLE_ARN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SHARED_CREDENTIALS_FILE",
)
_FILE = "driving.credentials"


def fingerprint(environ: Mapping[str, str]) -> str:
    """What tells the credentials of an environment from others; empty where it has none."""
    if not any(environ.get(name) for name in _WHO):
        return ""
    told = {name: environ.get(name, "") for name in (*_WHO, *_MORE)}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def bring(home: Path, environ: Mapping[str, str]) -> bool:
    """Let the credentials of `environ` count from now on; whether that changes anything."""
    mine = fingerprint(environ)
    if not mine or mine == _newest(home):
        return False
    home.mkdir(parents=True, exist_ok=True)
    (home / _FILE).write_text(mine)
    return True


def is_superseded(home: Path, environ: Mapping[str, str]) -> bool:
    """Whether a newer shell has brought other credentials."""
    newest = _newest(home)
    return bool(newest) and newest != fingerprint(environ)


def take_over(home: Path, environ: Mapping[str, str], cwd: Path) -> None:
    """See to it that somebody drives who has the credentials of `environ`, if it has any."""
    if bring(home, environ) or not is_driven(home):
        start_runner(home, environ, cwd)


def _newest(home: Path) -> str:
    try:
        return (home / _FILE).read_text()
    except FileNotFoundError:
        return ""
