"""Loaders of evaluation data whose worker processes stay (`dataloader_persistent_workers`).

Torch draws a random number when it starts workers. Those that stay are started once in a training,
so an attempt that starts them anew must do so without drawing, to be where the others are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burst.harness.data.randomness import kept_generators


def standing(trainer: Any) -> list[str]:
    """The names of the evaluation loaders whose workers run."""
    loaders = getattr(trainer, "_eval_dataloaders", {})
    return sorted(name for name, each in loaders.items() if _base(each)._iterator is not None)


def start_quietly(trainer: Any, name: str, loader: Any) -> None:
    """Have the workers of this loader start without moving a random state."""
    base = _base(loader)
    if getattr(trainer, "_eval_dataloaders", {}).get(name) is loader and base._iterator is None:
        base._get_iterator = _quiet(base._get_iterator)


def _base(loader: Any) -> Any:
    return getattr(loader, "base_dataloader", loader)


def _quiet(start: Callable[[], Any]) -> Callable[[], Any]:
    def started() -> Any:
        with kept_generators():
            return start()

    return started
