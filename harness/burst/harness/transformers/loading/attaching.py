"""Attaches to the loader that a Trainer made, which stays the object that it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from accelerate.data_loader import DataLoaderDispatcher, DataLoaderShard

from burst.harness.transformers.loading.following import Followed
from burst.harness.transformers.loading.generators import Generators
from burst.harness.transformers.loading.inline import Inline
from burst.harness.transformers.loading.places import Places


def follow(loader: Any) -> Followed:
    """Keep books of what `loader`, as `Trainer.get_train_dataloader()` returned it, gives.

    The order and the content of its batches stay what they are: nothing is seeded, and no random
    number is drawn.
    """
    adapted = issubclass(type(loader), DataLoaderShard | DataLoaderDispatcher)
    base = loader.base_dataloader if adapted else loader
    places = Places(base.dataset)
    generators = Generators(_parts(loader, base))
    source = Inline(base, _ahead(loader) if adapted else 0, generators, places)
    followed = Followed(loader, source, generators, places.told)
    if adapted:
        _become(base, _opened, followed)
        _become(loader, _handed_out, followed)
    else:
        _become(loader, _plain, followed)
    return followed


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
    return loader._burst_followed.opened()  # type: ignore[no-any-return]


def _handed_out(loader: Any) -> Iterator[Any]:
    """Of a loader that is handed to the Trainer: its batches, counted."""
    make = partial(loader._burst_iter, loader)
    return loader._burst_followed.handed_out(make)  # type: ignore[no-any-return]


def _plain(loader: Any) -> Iterator[Any]:
    """Of a torch loader that is handed to the Trainer itself."""
    followed: Followed = loader._burst_followed
    return followed.handed_out(followed.opened)


def _become(loader: Any, role: Callable[[Any], Iterator[Any]], followed: Followed) -> None:
    kind: Any = type(loader)
    if "_burst_iter" not in vars(kind):  # a script may hand out the same loader again
        # The Trainer and accelerate keep this very object, so it takes the role on instead of
        # being wrapped. Accelerate's name the torch loader's class as theirs: hence the long way.
        object.__dict__["__class__"].__set__(loader, _class(kind, role))
    loader.__dict__["_burst_followed"] = followed


@cache
def _class(kind: Any, role: Callable[[Any], Iterator[Any]]) -> type:
    body = {
        "__iter__": role,
        "__module__": kind.__module__,
        "_burst_iter": staticmethod(kind.__iter__),
    }
    return type(kind.__name__, (kind,), body)
