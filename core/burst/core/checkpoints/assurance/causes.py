"""Failures of saves, told apart by their cause and told in a few words."""

from __future__ import annotations

import re

_VARYING = re.compile(r"\S*\d\S*")
"""Words with a number in them: batches, ids, digests, paths of files named by them."""
_PREFIX = " was not saved: "
_LABEL = re.compile(r"^[ \t]+(Why|Mend):[ \t]*", re.MULTILINE)
"""What `BurstError` puts before its parts, each of which may have several lines."""
_LONGEST_WORD = 48
_LONGEST = 240


def cause(problem: str) -> str:
    """What two failures for the same cause have in common, whatever batch and file they met."""
    return _VARYING.sub("#", problem)


def brief(problem: str) -> str:
    """A failure on one line, as `what: why`, without what it was about and how to mend it. Long
    words, such as URLs, lose their middle, and a long line its end."""
    first, *parts = _LABEL.split(problem.strip())
    whys = [part for label, part in zip(parts[::2], parts[1::2], strict=True) if label == "Why"]
    told = (_on_one_line(part) for part in (first.rpartition(_PREFIX)[2], *whys))
    line = ": ".join(filter(None, told))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1].rstrip()}…"


def _on_one_line(words: str) -> str:
    return " ".join(_shortened(word) for word in words.split())


def _shortened(word: str) -> str:
    if len(word) <= _LONGEST_WORD:
        return word
    half = _LONGEST_WORD // 2
    return f"{word[: half - 1]}…{word[-half:]}"
