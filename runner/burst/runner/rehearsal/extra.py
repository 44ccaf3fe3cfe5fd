"""What a rehearsal needs beyond burst itself."""

from __future__ import annotations

from importlib.util import find_spec

from burst.core.errors import BurstError

_NEEDED = {"moto": "moto[server]", "flask": "moto[server]", "ministack": "ministack"}


def check_extra() -> None:
    """That the servers of a rehearsal are installed.

    Raises:
        BurstError: something is missing; it names the extra that brings it.
    """
    missing = sorted({package for module, package in _NEEDED.items() if find_spec(module) is None})
    if missing:
        raise BurstError(
            "a cloud cannot be rehearsed here",
            why=f"not installed: {', '.join(missing)}",
            mend="in a clone of burst: `scripts/setup dev`, or `pip install -e '.[rehearse]'`",
        )
