"""Which keys there are. They become paths and object names, so nothing else may pass."""

from __future__ import annotations

import re

PARTIAL = ".burst-"
"""How the name of a file begins that is not whole yet; no key has a part that begins so."""

_PART = re.compile(r"[A-Za-z0-9_.=+@,~-]{1,200}")
_MAX_KEY = 900


def check_key(key: str) -> str:
    """`key`, if it is one: parts of letters, digits and `_.=+@,~-`, joined by `/`.

    Raises:
        ValueError: for anything else. Keys are made from ids and digests that were checked
            before, so this is a defect of the caller, not a mistake of the user's.
    """
    if len(key) > _MAX_KEY or not all(_is_part(part) for part in key.split("/")):
        raise ValueError(f"{key!r} is not the key of a blob")
    return key


def check_prefix(prefix: str) -> str:
    """`prefix`, if some key could begin with it.

    Raises:
        ValueError: for anything else.
    """
    head, slash, stem = prefix.rpartition("/")
    if slash:
        check_key(head)
    if stem and stem not in (".", "..") and not _is_part(stem):
        raise ValueError(f"{prefix!r} is not the beginning of a key")
    return prefix


def _is_part(part: str) -> bool:
    return (
        _PART.fullmatch(part) is not None
        and part not in (".", "..")
        and not part.startswith(PARTIAL)
    )
