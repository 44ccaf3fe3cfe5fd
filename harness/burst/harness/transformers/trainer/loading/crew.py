"""What runs in a loader's worker processes: each tells, with every batch, what it is left in."""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable, Mapping
from typing import Any

from torch.utils.data import get_worker_info

from burst.harness.checkpoints.port import Tree
from burst.harness.transformers.trainer.loading.generators import Generators, packed, unpacked


class Telling:
    """The user's `collate_fn`, the last to run for a batch. With the batch goes what changed of
    the worker's random states since its last one, and the place in a dataset that tells it."""

    def __init__(self, collate: Callable[[Any], Any], size: int | None, *, place: bool) -> None:
        """`size` is how many rows a batch has, unless it is a stream's last one."""
        self._collate = collate
        self._size = size
        self._tells_place = place
        self._generators: Generators | None = None
        self._told: dict[str, Any] = {}

    def __call__(self, rows: Any) -> tuple[Any, int, dict[str, Any]]:
        batch = self._collate(rows)
        info = get_worker_info()
        assert info is not None
        if self._generators is None:
            self._generators = Generators([info.dataset, self._collate])
        now = packed(self._generators.take())
        changed = {name: part for name, part in now.items() if not self._is_told(name, part)}
        self._told = now
        if self._tells_place:
            dataset: Any = info.dataset
            changed["place"] = copy.deepcopy(dataset.state_dict())
            # Then the dataset may tell its beginning again, and must not be asked for more.
            changed["ended"] = self._size is not None and len(rows) < self._size
        return batch, info.id, changed

    def _is_told(self, name: str, part: Any) -> bool:
        told = self._told.get(name)
        if told is None or name == "numpy":  # which is the same object while it did not move
            return told is part
        return _same(told, part)


class Entering:
    """Prepares a worker: as the user has it, and then as it was left."""

    def __init__(
        self, init: Callable[[int], None] | None, collate: Any, left: Mapping[int, Tree]
    ) -> None:
        self._init = init
        self._collate = collate
        self._left = left

    def __call__(self, number: int) -> None:
        # Ctrl-C reaches the whole process group; what it means is for the training to decide.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._init is not None:
            self._init(number)
        left = self._left.get(number)
        if left is None:
            return
        info = get_worker_info()
        assert info is not None
        dataset: Any = info.dataset
        if left.get("place") is not None:
            dataset.load_state_dict(copy.deepcopy(left["place"]))
        Generators([dataset, self._collate]).put(unpacked(left))


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # of arrays, which compare item by item
        return False
