"""Loaders of evaluation data whose worker processes stay (`dataloader_persistent_workers`).

Torch draws a random number when it starts workers. Those that stay are started once in a training,
so an attempt that starts them anew must do so without drawing, to be where the others are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burst.harness.data.randomness import kept_generators
from burst.harness.transformers.trainer.loading import generators_of


def standing(trainer: Any) -> dict[str, Any]:
    """By name, of the evaluation loaders whose workers run, the generators that are theirs."""
    loaders = getattr(trainer, "_eval_dataloaders", {})
    return {
        name: generators_of(each).private()
        for name, each in loaders.items()
        if _base(each)._iterator is not None
    }


def start_quietly(trainer: Any, name: str, loader: Any, private: Any) -> None:
    """Have the workers of this loader start without moving a random state.

    Args:
        private: what `standing` gave for it.
    """
    base = _base(loader)
    if getattr(trainer, "_eval_dataloaders", {}).get(name) is loader and base._iterator is None:
        generators_of(loader).put_private(private)
        base._get_iterator = _quiet(base._get_iterator)


def _base(loader: Any) -> Any:
    return getattr(loader, "base_dataloader", loader)


def _quiet(start: Callable[[], Any]) -> Callable[[], Any]:
    def started() -> Any:
        with kept_generators():
            return start()

    return started
