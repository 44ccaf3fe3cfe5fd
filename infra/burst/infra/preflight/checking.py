"""What a check found. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from burst.core.errors import BurstError, Unreachable
from burst.infra.preflight.asking import Unknown


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"  # it can be built, and something will be missing or is not known
    FAILED = "failed"  # nothing can be built, or nothing launched


@dataclass(frozen=True)
class Check:
    name: str
    """`credentials`, `pool spot`, `quota of spot`."""
    verdict: Verdict
    found: str
    mend: str = ""
    code: str = ""
    """AWS's own, where it refused something."""
    silent: bool = False
    """Whether it failed for want of an answer: from AWS at all, or to these credentials."""


def ok(name: str, found: str) -> Check:
    return Check(name, Verdict.OK, found)


def warning(name: str, found: str, mend: str = "", code: str = "") -> Check:
    return Check(name, Verdict.WARNING, found, mend, code)


def failed(name: str, found: str, mend: str = "", code: str = "") -> Check:
    return Check(name, Verdict.FAILED, found, mend, code)


def refused(name: str, error: BurstError, code: str = "") -> Check:
    """That an error stands in the way."""
    silent = isinstance(error, Unreachable)
    return Check(name, Verdict.FAILED, in_words(error), error.mend, code, silent)


def not_known(name: str, answer: Unknown, *, needed: bool = False) -> Check:
    """That AWS did not tell.

    Args:
        needed: whether nothing can be built without it.
    """
    mend = answer.error.mend
    if answer.denied:
        mend = f"allow {answer.action} to whoever asks, and it is looked at"
    verdict = Verdict.FAILED if needed else Verdict.WARNING
    silent = isinstance(answer.error, Unreachable)
    return Check(name, verdict, in_words(answer.error), mend, answer.code, silent)


def in_words(error: BurstError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
