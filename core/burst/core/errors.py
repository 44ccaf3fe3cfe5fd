"""Errors as one object: what happened, why, and how to mend it.

The command line, the page and the API render the same object, so each carries the exit code too.

    BurstError (1)
    ├── UsageError (2)         the command was called in a way that means nothing
    ├── ConfigError (3)        a file people write is wrong
    ├── NotFound (4)           an id or a name that is not there
    ├── Refused (5)            a cloud, a quota or a rule said no
    ├── Unreachable (6)        the store, the blobs or a network did not answer
    └── StoreError (1)
        ├── Conflict           the record is at another version: read again, decide again
        ├── Fenced             a newer allocation owns the trial: stop, nothing you write counts
        ├── Taken              another wrote under the key first
        └── NoStore (4)        the store itself is not there
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a burst command's exit status means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIG = 3
    NOT_FOUND = 4
    REFUSED = 5
    UNREACHABLE = 6
    INTERRUPTED = 130


class BurstError(Exception):
    """Something a person has to know about.

    Args:
        what: the fact, in one sentence that names the thing.
        why: the cause, as far as it is known; may be empty.
        mend: what the reader can do about it; may be empty.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, what: str, *, why: str = "", mend: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.mend = mend

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  Why:  {self.why}")
        if self.mend:
            lines.append(f"  Mend: {self.mend}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.why, self.mend))


def _rebuild(kind: type[BurstError], what: str, why: str, mend: str) -> BurstError:
    return kind(what, why=why, mend=mend)


class UsageError(BurstError):
    exit_code = ExitCode.USAGE


class ConfigError(BurstError):
    exit_code = ExitCode.CONFIG


class NotFound(BurstError):
    exit_code = ExitCode.NOT_FOUND


class Refused(BurstError):
    exit_code = ExitCode.REFUSED


class Unreachable(BurstError):
    exit_code = ExitCode.UNREACHABLE


class Unauthorized(Unreachable):
    """Whoever asks has no credentials, or none that are accepted; with others it would answer."""


class StoreError(BurstError):
    """The store did not take a write."""


class Conflict(StoreError):
    """A record was not at the version that the writer had read; nothing was written."""


class Fenced(StoreError):
    """The writer's token is older than the trial's; nothing was written, and never will be."""


class Taken(StoreError):
    """Other bytes are under a key that was to be new; nothing was written."""


class NoStore(StoreError):
    """What is named as the store is not there. No NotFound: that of a record may be expected."""

    exit_code = ExitCode.NOT_FOUND
