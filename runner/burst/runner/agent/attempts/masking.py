"""Secrets never leave the node: they are starred out of what is shipped and stored."""

from __future__ import annotations

import re
from collections.abc import Iterable

from burst.core.model import Exit

STARS = b"***"
_SHORTEST = 4
"""Characters; a shorter secret would star out half of the log and hide nothing."""


class Masker:
    """Masks a stream, also where a secret lies across two pieces of it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _encoded(secrets)
        self._pattern = _pattern_of(self._secrets)
        self._held = b""

    @property
    def held(self) -> int:
        """Bytes kept back, because they may be the beginning of a secret."""
        return len(self._held)

    def feed(self, data: bytes) -> bytes:
        """What of the stream can go out now."""
        if self._pattern is None:
            return data
        whole = self._held + data
        keep = self._begun(whole)
        self._held = whole[len(whole) - keep :]
        return self._pattern.sub(STARS, whole[: len(whole) - keep])

    def finish(self) -> bytes:
        """The rest: nothing comes behind it that would make it a secret."""
        rest, self._held = self._held, b""
        return rest

    def _begun(self, whole: bytes) -> int:
        """How many of the last bytes may be a secret's beginning, past the last whole secret."""
        assert self._pattern is not None
        start = 0
        for found in self._pattern.finditer(whole):
            start = found.end()
        longest = max(len(secret) for secret in self._secrets) - 1
        rest = whole[start:][-longest:] if longest else b""
        for begin in range(len(rest)):
            if any(secret.startswith(rest[begin:]) for secret in self._secrets):
                return len(rest) - begin
        return 0


def mask_text(text: str, secrets: Iterable[str]) -> str:
    pattern = _pattern_of(_encoded(secrets))
    if pattern is None:
        return text
    return pattern.sub(STARS, text.encode(errors="surrogateescape")).decode(errors="replace")


def mask_exit(exit: Exit, secrets: Iterable[str]) -> Exit:
    """The exit with its failure masked."""
    if exit.failure is None:
        return exit
    secrets = tuple(secrets)
    failure = exit.failure.model_copy(
        update={
            field: mask_text(getattr(exit.failure, field), secrets)
            for field in ("kind", "message", "traceback")
        }
    )
    return exit.model_copy(update={"failure": failure})


def _encoded(secrets: Iterable[str]) -> list[bytes]:
    found = {secret.strip().encode() for secret in secrets if len(secret.strip()) >= _SHORTEST}
    return sorted(found, key=lambda secret: (-len(secret), secret))


def _pattern_of(secrets: list[bytes]) -> re.Pattern[bytes] | None:
    return re.compile(b"|".join(map(re.escape, secrets))) if secrets else None
