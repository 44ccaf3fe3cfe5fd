"""Weights of another trial, or of an imported model, for the models of this one."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from burst.core.units import counted
from burst.harness.errors import TrialError
from burst.harness.trial.state import load_model

_SHOWN = 8
_COMPILED = "_orig_mod."


def state_dicts(shared: Any) -> dict[str, Mapping[str, Any]]:
    """The models in what a checkpoint holds for all ranks, by their places in it: those of a trial
    class, or of whatever a script saved, the state dicts of modules."""
    models = shared.get("models") if isinstance(shared, Mapping) else None
    if isinstance(models, list):
        return {f"models.{index}": model for index, model in enumerate(models)}
    return dict(_found(shared, ""))


def _found(node: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(node, OrderedDict) and getattr(node, "_metadata", None) is not None:
        yield place, node
    elif isinstance(node, Mapping | list | tuple):
        items = node.items() if isinstance(node, Mapping) else enumerate(node)
        for key, item in items:
            yield from _found(item, f"{place}.{key}" if place else str(key))


@dataclass(frozen=True)
class Fit:
    """What of a saved model a live one can take."""

    taken: Mapping[str, Any]
    """By the live model's names."""
    missing: tuple[str, ...]
    """In the live model alone."""
    unexpected: tuple[str, ...]
    """In the saved one alone."""
    reshaped: tuple[str, ...]
    """In both, with different shapes; each with these."""

    @property
    def whole(self) -> bool:
        return not (self.missing or self.unexpected or self.reshaped)


def fit(model: nn.Module, saved: Mapping[str, Any]) -> Fit:
    """Compare a live model with a saved one, by names and shapes.

    A name is the same with and without what `torch.compile` puts into it, and, of a model of
    transformers, with and without the prefix of its base model. A tensor that is missing and tied
    to one that is there is not missing; neither is a module's extra state, nor what the model
    itself declares needless.
    """
    live = {_plain(name): value for name, value in model.state_dict(keep_vars=True).items()}
    given = _named_as(model, live, {_plain(name): value for name, value in saved.items()})
    names = {_plain(name): name for name in model.state_dict()}
    same = {name for name in live if name in given and _same_shape(live[name], given[name])}
    held = {id(live[name]) for name in same}
    missing = [
        name
        for name, value in live.items()
        if name not in given and id(value) not in held and isinstance(value, torch.Tensor)
    ]
    needless = _declared(model, "_keys_to_ignore_on_load_unexpected")
    absent = _declared(model, "_keys_to_ignore_on_load_missing")
    return Fit(
        taken={names[name]: given[name] for name in live if name in same},
        missing=tuple(name for name in missing if not absent(name)),
        unexpected=tuple(name for name in given if name not in live and not needless(name)),
        reshaped=tuple(
            f"{name} ({_shape(given[name])} there, {_shape(live[name])} here)"
            for name in live
            if name in given and name not in same
        ),
    )


def _named_as(
    model: nn.Module, live: Mapping[str, Any], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The saved names as the live model has them, where the one is a base model and the other has
    it as a part, such as `h.0.…` and `transformer.h.0.…`."""
    prefix = f"{getattr(getattr(model, '_orig_mod', model), 'base_model_prefix', '')}."
    out: dict[str, Any] = {}
    for name, value in given.items():
        other = name.removeprefix(prefix) if name.startswith(prefix) else f"{prefix}{name}"
        taken = name if name in live or other not in live or other in given else other
        out[taken] = value
    return out


def _declared(model: nn.Module, attribute: str) -> Callable[[str], bool]:
    """Whether a name is among the patterns that a model of transformers declares."""
    patterns = getattr(getattr(model, "_orig_mod", model), attribute, None) or ()
    return lambda name: any(re.search(pattern, name) for pattern in patterns)


def load_weights(
    models: Sequence[nn.Module], shared: Any, *, checkpoint: str, partial: bool = False
) -> str:
    """Put the parameters and buffers of a checkpoint's models into live ones; says what was taken.

    Args:
        models: in the order in which the checkpoint has them.
        shared: what the checkpoint holds for all ranks.
        partial: take what fits, and leave everything else as it is.

    Raises:
        TrialError: they do not fit, naming what does not; nothing was changed. With `partial`:
            nothing at all fits.
    """
    saved = list(state_dicts(shared).values())
    if not saved:
        raise TrialError(
            f"checkpoint {checkpoint} holds no model",
            why="neither a trial class nor a module's state_dict is in it",
            mend="start from a checkpoint that has one",
        )
    if len(saved) != len(models) and not partial:
        raise TrialError(
            f"checkpoint {checkpoint} holds {counted(len(saved), 'model')} and this trial wraps "
            f"{len(models)}",
            mend="with `--partial` (`warm_start.partial: true`) they are taken in their order",
        )
    fits = [fit(model, one) for model, one in zip(models, saved, strict=False)]
    for model, found in zip(models, fits, strict=False):
        if not found.whole and not (partial and any(each.taken for each in fits)):
            raise _misfit(model, found, checkpoint)
    for model, found in zip(models, fits, strict=False):
        state = model.state_dict()
        state.update(found.taken)
        load_model(model, state)
    taken = sum(len(found.taken) for found in fits)
    there = sum(len(model.state_dict()) for model in models)
    left = sum(len(found.missing) + len(found.reshaped) for found in fits)
    return f"{taken} of {there} tensors" if left or len(fits) < len(models) else f"{taken} tensors"


def _misfit(model: nn.Module, found: Fit, checkpoint: str) -> TrialError:
    groups = (
        ("missing in the checkpoint", found.missing),
        ("not in this model", found.unexpected),
        ("of another shape", found.reshaped),
    )
    lines = [f"{len(names)} {what}: {_listed(names)}" for what, names in groups if names]
    some = f"load the {len(found.taken)} that fit with `--partial` (`warm_start.partial: true`)"
    return TrialError(
        f"checkpoint {checkpoint} does not fit the model {type(model).__name__}",
        why="\n".join(lines),
        mend=some if found.taken else "start from a checkpoint of such a model; nothing fits",
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _plain(name: str) -> str:
    return name.replace(_COMPILED, "")


def _same_shape(live: Any, given: Any) -> bool:
    if not (isinstance(live, torch.Tensor) and isinstance(given, torch.Tensor)):
        return isinstance(live, torch.Tensor) == isinstance(given, torch.Tensor)
    return is_lazy(live) or live.shape == given.shape


def _shape(value: Any) -> str:
    if not isinstance(value, torch.Tensor) or is_lazy(value):
        return "no tensor"
    return "×".join(str(size) for size in value.shape) or "a number"
