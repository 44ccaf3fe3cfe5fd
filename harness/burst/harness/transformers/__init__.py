"""Scripts around `transformers.Trainer`: attached by the launcher, without a change to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burst.harness.transformers.callback import BurstCallback

__all__ = ["BurstCallback"]


def __getattr__(name: str) -> Any:
    if name != "BurstCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from burst.harness.transformers.callback import BurstCallback

    return BurstCallback
