"""What a trial is made of, as far as a checkpoint has to fit it: tensors of models by name and
shape, and how many parameters an optimizer has in its groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from burst.core.units import counted
from burst.harness.errors import TrialError

T = TypeVar("T")

_SHOWN = 6
HOOK = "on_checkpoint_load_start"
"""The hook of callbacks that can make a structure anew before a state is put back."""

Shapes = Mapping[str, tuple[int, ...] | None]
"""By name, as a model's `state_dict` has them; None where there is no shape."""
Groups = tuple[int, ...] | None
"""How many parameters each group has; None of an optimizer that has no groups."""


@dataclass(frozen=True)
class Structure:
    models: tuple[Shapes, ...]
    optimizers: tuple[Groups, ...]
    classes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Of live models and optimizers, the names of their classes."""


@dataclass(frozen=True)
class Difference:
    """What one model or optimizer has otherwise than before."""

    part: str
    """Such as `model 0 (Sequential)`."""
    more: tuple[str, ...] = ()
    """Tensors that are only there now."""
    less: tuple[str, ...] = ()
    """Tensors that were only there before."""
    other: tuple[str, ...] = ()
    """Tensors of another shape, each with both."""
    groups: tuple[Groups, Groups] | None = None
    """Of an optimizer, the sizes of its groups before and now."""
    only: str = ""
    """`before` or `now`, if there is such a part only then."""

    def text(self, before: str, now: str) -> Iterator[str]:
        """Lines for people, with names for what it was and is a part of."""
        if self.only:
            has, lacks = (before, now) if self.only == "before" else (now, before)
            inner = _named(self.less or self.more) if self.less or self.more else "no tensor"
            what = f" with {inner}" if self.part.startswith("model") else ""
            yield f"{has} has {self.part}{what}, and {lacks} has none"
            return
        if self.more:
            yield f"{self.part} has {_named(self.more)} that {before} does not have"
        if self.less:
            yield f"{self.part} lacks {_named(self.less)} of {before}"
        if self.other:
            yield f"{self.part} has {_named(self.other)} of another shape"
        if self.groups is not None:
            old, new = (_sizes(sizes) for sizes in self.groups)
            yield f"{self.part} has {new} in {now}, and {old} in {before}"


def structure_of(models: Sequence[Mapping[str, Any]], optimizers: Sequence[Any]) -> Structure:
    """
    Args:
        models: their state dicts, saved ones or live ones.
        optimizers: their state dicts, or they themselves.
    """
    return Structure(
        tuple({name: _shape(value) for name, value in model.items()} for model in models),
        tuple(groups_of(optimizer) for optimizer in optimizers),
    )


def groups_of(optimizer: Any) -> Groups:
    groups = getattr(optimizer, "param_groups", None)
    if groups is None and isinstance(optimizer, Mapping):
        groups = optimizer.get("param_groups")
    return None if groups is None else tuple(len(group["params"]) for group in groups)


def differences(before: Structure, now: Structure) -> list[Difference]:
    """What two structures differ in; the classes are those of `now`."""
    models, optimizers = now.classes
    pairs = _pairs("model", before.models, now.models, models)
    found = [_of_models(*pair) for pair in pairs]
    both = before.optimizers, now.optimizers
    for part, old, new, only in _pairs("optimizer", *both, optimizers):
        other = old is not None and new is not None and old != new
        found.append(Difference(part, only=only, groups=(old, new) if other else None))
    return [each for each in found if each != Difference(each.part)]


def misfit(found: Sequence[Difference]) -> TrialError:
    """That a checkpoint does not fit a trial, in these differences from it to the trial."""
    lines = [line for each in found for line in each.text("the checkpoint", "the trial")]
    anew = "start a new trial from its weights: `burst run --from CHECKPOINT --partial`"
    mend = f"put the code and the hyperparameters back as they were, or {anew}"
    if not any(each.other for each in found):
        mend = (
            f"what training itself had added or removed, do again in `{HOOK}` of a callback, "
            f"which is given the checkpoint; if the code has changed, put it back, or {anew}"
        )
    parts = " and ".join(each.part for each in found)
    differ = "differ" if len(found) > 1 else "differs"
    what = f"the checkpoint does not fit what the trial makes: {parts} {differ}"
    return TrialError(what, why="; ".join(lines), mend=mend)


def _of_models(part: str, was: Shapes | None, has: Shapes | None, only: str) -> Difference:
    was, has = was or {}, has or {}
    other = []
    for name, shape in was.items():
        live = has.get(name)
        if shape is not None and live is not None and live != shape:
            other.append(f"{name}: {_by(live)}, and {_by(shape)} before")
    return Difference(
        part,
        more=tuple(name for name in has if name not in was),
        less=tuple(name for name in was if name not in has),
        other=tuple(other),
        only=only,
    )


def _pairs(
    kind: str, before: Sequence[T], now: Sequence[T], classes: Sequence[str]
) -> Iterator[tuple[str, T | None, T | None, str]]:
    for index in range(max(len(before), len(now))):
        name = f" ({classes[index]})" if index < len(classes) else ""
        old = before[index] if index < len(before) else None
        new = now[index] if index < len(now) else None
        only = "now" if index >= len(before) else "before" if index >= len(now) else ""
        yield f"{kind} {index}{name}", old, new, only


def _shape(value: Any) -> tuple[int, ...] | None:
    try:
        return tuple(value.shape)
    except (AttributeError, RuntimeError):  # no tensor, or a parameter that is made later
        return None


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "a number"


def _sizes(sizes: Groups) -> str:
    text = " and ".join(map(str, sizes or ()))
    return f"{counted(len(sizes or ()), 'group')} of {text} parameters" if text else "no groups"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{counted(len(names), 'tensor')} ({', '.join(names[:_SHOWN])}{more})"
