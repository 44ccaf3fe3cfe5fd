"""Weights of another trial, or of an imported model, for the models of this one."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from burst.core.units import counted
from burst.harness.errors import TrialError
from burst.harness.trial.named import (
    COMPILED,
    has_adapters,
    is_a,
    own_prefix,
    plain,
    plain_names,
    saved_names,
    unadapted,
)
from burst.harness.trial.state import load_model

_SHOWN = 8
_ADAPTED = re.compile(r"(^|\.)(base_layer|original_module)\.|^base_model\.model\.")
"""In the name of a tensor of a model with adapters."""
_RANDOM = ("gaussian", "orthogonal")
"""Beginnings of an adapter in which the weights under it play no part."""


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
    live = {plain(name): value for name, value in model.state_dict(keep_vars=True).items()}
    given: Mapping[str, Any] = {plain(name): value for name, value in saved.items()}
    added = set[str]()
    if has_adapters(model) and not _is_adapted(given):
        given, added = _under_adapters(model, live, given)
    else:
        given = _named_as(model, live, given)
    names = plain_names(model)
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
        missing=tuple(name for name in missing if not absent(name) and name not in added),
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
    it as a part, such as `h.0.…` and `transformer.h.0.…`; or where they are those of a file that
    transformers names otherwise when it loads it."""
    own = getattr(model, COMPILED, model)
    if is_a(own, "PreTrainedModel", "transformers"):
        files = saved_names(own, live)
        given = {files.get(n, n) if n not in live else n: value for n, value in given.items()}
    prefix = f"{getattr(own, 'base_model_prefix', '')}."
    out: dict[str, Any] = {}
    for name, value in given.items():
        other = name.removeprefix(prefix) if name.startswith(prefix) else f"{prefix}{name}"
        taken = name if name in live or other not in live or other in given else other
        out[taken] = value
    return out


def _under_adapters(
    model: nn.Module, live: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[Mapping[str, Any], set[str]]:
    """The tensors of a model as they are called in a live one that adapts it, and the names there
    that are of adapters alone, which stay as they are. A module that is trained as a whole begins
    with the weights of the one that it stands for."""
    adapted = unadapted(model)
    own = {old: live[name] for name, (old, _) in adapted.items()}
    base = model.get_base_model() if own_prefix(model) else model  # type: ignore[operator]
    named = _named_as(base, own, given)
    out = {name: named[old] for name, (old, _) in adapted.items() if old in named}
    unknown = {name: value for name, value in named.items() if name not in own}
    return {**out, **unknown}, live.keys() - adapted.keys()


def _declared(model: nn.Module, attribute: str) -> Callable[[str], bool]:
    """Whether a name is among the patterns that a model of transformers declares."""
    patterns = getattr(getattr(model, COMPILED, model), attribute, None) or ()
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
    for model, one in zip(models, saved, strict=False):
        _check_adapters(model, one, checkpoint)
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


def _check_adapters(model: nn.Module, saved: Mapping[str, Any], checkpoint: str) -> None:
    """
    Raises:
        TrialError: one of the two has adapters and the other none, and that is no start: weights
            under adapters are those of before the adapters were trained.
    """
    there = _is_adapted(map(plain, saved))
    here = has_adapters(model)
    if there and not here:
        raise TrialError(
            f"checkpoint {checkpoint} holds a model with adapters, and this trial's "
            f"{type(model).__name__} has none",
            why="its weights without the adapters are those of before it was trained",
            mend="wrap the model in get_peft_model as that trial did; or `burst checkpoint "
            "download` it, merge with PeftModel.from_pretrained(...).merge_and_unload(), and "
            "start from that with `burst checkpoint import`",
        )
    if here and not there and (name := _made_of_weights(model)):
        raise TrialError(
            f"the adapters of this trial's {type(model).__name__} were made of the weights that "
            f"checkpoint {checkpoint} would replace",
            why=f"their configuration has {name}",
            mend="`burst checkpoint download` it, and load that with from_pretrained before "
            "get_peft_model",
        )


def _is_adapted(names: Iterable[str]) -> bool:
    return any(_ADAPTED.search(name) for name in names)


def _made_of_weights(model: nn.Module) -> str:
    """The setting by which an adapter begins with what was computed of the weights under it."""
    configs: Mapping[str, Any] = getattr(getattr(model, COMPILED, model), "peft_config", {})
    for config in configs.values():
        if getattr(config, "use_dora", False):
            return "use_dora=True"
        begins = getattr(config, "init_lora_weights", True)
        if isinstance(begins, str) and begins not in _RANDOM:
            return f"init_lora_weights={begins!r}"
    return ""


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


def _same_shape(live: Any, given: Any) -> bool:
    if not (isinstance(live, torch.Tensor) and isinstance(given, torch.Tensor)):
        return isinstance(live, torch.Tensor) == isinstance(given, torch.Tensor)
    return is_lazy(live) or live.shape == given.shape


def _shape(value: Any) -> str:
    if not isinstance(value, torch.Tensor) or is_lazy(value):
        return "no tensor"
    return "×".join(str(size) for size in value.shape) or "a number"
