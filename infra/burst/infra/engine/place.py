"""Where Pulumi keeps what it has made, and the words that its secrets are encrypted with."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burst.core.errors import BurstError, UsageError

PROJECT = "burst"
_SCHEMES = ("file://", "s3://", "gs://", "azblob://")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
_PASSPHRASE = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")


@dataclass(frozen=True)
class Place:
    """One stack: the record of what a cluster has in an account."""

    stack: str
    url: str
    """Of the backend: `file:///…`, `s3://bucket/…`."""
    work: Path
    """The folder for the stack's settings."""
    environ: Mapping[str, str]
    """What Pulumi needs in its environment beside the caller's."""

    @property
    def is_local(self) -> bool:
        """Whether it is lost with this machine."""
        return self.url.startswith("file://")

    def make(self) -> None:
        """Make the folders.

        Raises:
            BurstError: they cannot be made.
        """
        folders = [self.work]
        if self.is_local:
            folders.append(Path(self.url.removeprefix("file://").partition("?")[0]))
        try:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise BurstError(
                f"cannot keep the record of what is made in {error.filename}",
                why=error.strerror or str(error),
                mend="name another place: --state file:///…, or s3://bucket/…",
            ) from error


def place_of(
    environ: Mapping[str, str], home: Path, *, where: str, stack: str, url: str | None
) -> Place:
    """The stack that a command is about.

    Args:
        home: BURST_HOME.
        where: `ACCOUNT-REGION`; the same name in two accounts is two stacks.
        url: of the backend; by default PULUMI_BACKEND_URL or a folder in the home.

    Raises:
        UsageError: the URL or the name cannot be used.
        BurstError: the passphrase cannot be read or written.
    """
    if not _NAME.match(stack):
        why = "it has letters, digits and - _ . alone, 100 of them at the most"
        mend = "name it so with --stack; without it, it has the cluster's name"
        raise UsageError(f"{stack!r} is no name of a stack", why=why, mend=mend)
    found = url or environ.get("PULUMI_BACKEND_URL") or f"file://{home / 'pulumi' / where}"
    if not found.startswith(_SCHEMES):
        raise UsageError(
            f"{found!r} is no place for the record of what is made",
            why="that is a folder, file:///…, or a bucket, s3://bucket/folder",
            mend="name one with --state, or unset PULUMI_BACKEND_URL for the one in BURST_HOME",
        )
    extra = {"PULUMI_BACKEND_URL": found, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    if not any(name in environ for name in _PASSPHRASE):
        extra["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase(home))
    return Place(stack, found, home / "pulumi" / "settings" / where, extra)


def _passphrase(home: Path) -> Path:
    """The file of a passphrase that nobody has to remember; made once, for the owner alone."""
    path = home / "pulumi" / "passphrase"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(32))
    except OSError as error:
        raise BurstError(
            f"cannot keep a passphrase in {path}",
            why=error.strerror or str(error),
            mend="set BURST_HOME to a folder that you can write, or PULUMI_CONFIG_PASSPHRASE",
        ) from error
    return path


def _write_once(path: Path, words: str) -> None:
    """Whole or not at all; the first of two that come at once wins."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(words)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
