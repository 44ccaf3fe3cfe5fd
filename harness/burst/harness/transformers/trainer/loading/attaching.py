"""Attaches to the loader that a Trainer made, which stays the object that it is."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from accelerate.data_loader import (
    DataLoaderAdapter,
    DataLoaderDispatcher,
    DataLoaderShard,
)
from torch.utils.data import DataLoader

from burst.harness.transformers.trainer.loading.again import Again
from burst.harness.transformers.trainer.loading.following import Followed
from burst.harness.transformers.trainer.loading.generators import Generators
from burst.harness.transformers.trainer.loading.inline import Inline
from burst.harness.transformers.trainer.loading.places import Places
from burst.harness.transformers.trainer.loading.pooled import Pooled, fits_torch


def follow(loader: Any) -> Followed:
    """Keep books of what `loader`, as `Trainer.get_train_dataloader()` returned it, gives.

    The order and the content of its batches stay what they are: nothing is seeded, and no random
    number is drawn. The loader is followed for as long as what is returned is kept.
    """
    adapted = issubclass(type(loader), DataLoaderShard | DataLoaderDispatcher)
    base = loader.base_dataloader if adapted else loader
    if not _is_torch(base):
        return _read_again(loader)
    places = Places(base.dataset, base.num_workers)
    generators = Generators(_parts(loader, base))
    kind = Pooled if base.num_workers else Inline
    source = kind(base, _ahead(loader) if adapted else 0, generators, places)
    length = None if places.is_stream else len(base)
    followed = Followed(loader, source, generators, length, places.told or _unordered(base))
    if adapted:
        _become(base, _opened, followed)
        _become(loader, _handed_out, followed)
    else:
        _become(loader, _plain, followed)
    return followed


def _read_again(loader: Any) -> Followed:
    name = type(loader).__name__
    told = (
        f"the place in {name} cannot be told: a pass that was interrupted is read again from its "
        "beginning, and what was consumed is left out"
    )
    if isinstance(loader, DataLoader) or issubclass(type(loader), DataLoaderAdapter):
        generators = Generators([loader.dataset, loader.collate_fn, loader])
        source = Again(partial(_made_as(loader).__iter__, loader), generators)
        followed = Followed(loader, source, generators, None, told)
        _become(loader, _plain, followed)
        return followed
    generators = Generators([loader])
    counted = CountedSized(loader) if hasattr(loader, "__len__") else Counted(loader)
    counted.followed = Followed(
        counted, Again(loader.__iter__, generators), generators, None, told
    )
    return counted.followed


class Counted:
    """An iterable of the script's own, whose batches are counted."""

    followed: Followed

    def __init__(self, iterable: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return self.followed.handed_out(self.followed.opened)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterable, name)


class CountedSized(Counted):
    """One that has a length, which a Trainer makes much of."""

    def __len__(self) -> int:
        return len(self._iterable)


def _is_torch(loader: Any) -> bool:
    """Whether its iterators are torch's own: then they can be begun anywhere."""
    if not isinstance(loader, DataLoader) or (loader.num_workers and not fits_torch()):
        return False
    kind = _made_as(loader)
    is_own = kind.__iter__ is not DataLoader.__iter__
    return not (is_own or kind._get_iterator is not DataLoader._get_iterator)


def _unordered(loader: Any) -> str:
    if loader.in_order or not loader.num_workers:
        return ""
    return (
        "the loader gives batches in the order in which its workers are done (in_order=False), "
        "which no two runs have alike"
    )


def generators_of(loader: Any) -> Generators:
    """The random generators that a loader's parts hold for themselves."""
    adapted = issubclass(type(loader), DataLoaderShard | DataLoaderDispatcher)
    return Generators(_parts(loader, loader.base_dataloader if adapted else loader))


def followed_of(loader: Any) -> Followed | None:
    """Who follows a loader, if anybody does."""
    found = getattr(loader, "__dict__", {}).get("_burst_followed")
    return None if found is None else found()


def _ahead(loader: Any) -> int:
    """How many batches of the torch loader make one of accelerate's, which reads one ahead."""
    if not issubclass(type(loader), DataLoaderDispatcher) or loader.split_batches:
        return 1
    return 1 if loader.submesh_tp else int(loader.state.num_processes)


def _parts(loader: Any, base: Any) -> list[Any]:
    return [
        base.dataset,
        base.collate_fn,
        base.batch_sampler,
        base.sampler,
        base,
        getattr(loader, "__dict__", {}).get("synchronized_generator"),
    ]


def _opened(loader: Any) -> Iterator[Any]:
    """Of accelerate's torch loader: an iterator that keeps books."""
    followed: Followed | None = loader._burst_followed()
    if followed is None:
        return _made_as(loader).__iter__(loader)  # type: ignore[no-any-return]
    return followed.opened()  # type: ignore[no-any-return]


def _handed_out(loader: Any) -> Iterator[Any]:
    """Of a loader that is handed to the Trainer: its batches, counted."""
    followed: Followed | None = loader._burst_followed()
    make = partial(_made_as(loader).__iter__, loader)
    return make() if followed is None else followed.handed_out(make)


def _plain(loader: Any) -> Iterator[Any]:
    """Of a torch loader that is handed to the Trainer itself."""
    followed: Followed | None = loader._burst_followed()
    if followed is None:
        return _made_as(loader).__iter__(loader)  # type: ignore[no-any-return]
    return followed.handed_out(followed.opened)


def _become(loader: Any, role: Callable[[Any], Iterator[Any]], followed: Followed) -> None:
    # The Trainer and accelerate keep this very object, so it takes the role on instead of being
    # wrapped. Accelerate's name the torch loader's class as theirs: hence the long way.
    object.__dict__["__class__"].__set__(loader, _class(_made_as(loader), role))
    # Weakly, as it holds the loader. Workers that nobody needs any more end when their loader is
    # let go of: in a cycle their queues would be gone before them, and they wait for seconds.
    loader.__dict__["_burst_followed"] = weakref.ref(followed)


def _made_as(loader: Any) -> Any:
    """The class that a loader was of before it was followed."""
    return vars(type(loader)).get("_burst_made_as", type(loader))


@cache
def _class(kind: Any, role: Callable[[Any], Iterator[Any]]) -> type:
    body = {"__iter__": role, "__module__": kind.__module__, "_burst_made_as": kind}
    return type(kind.__name__, (kind,), body)
