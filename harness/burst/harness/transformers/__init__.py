"""Scripts around `transformers.Trainer`: attached by the launcher, without a change to them."""

from __future__ import annotations

# Every Python program of a command imports this, and `typing` would be most of what that costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from burst.harness.transformers.trainer.callback import BurstCallback

__all__ = ["BurstCallback"]


def __getattr__(name: str) -> Any:
    if name != "BurstCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from burst.harness.transformers.trainer.callback import BurstCallback

    return BurstCallback
