"""Lengths and periods as a trial's author writes them, and as the loop counts them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeGuard

from pydantic import ValidationError

from burst.core.errors import ConfigError, UsageError
from burst.core.length import Length, Unit
from burst.harness.values import shown


@dataclass(frozen=True)
class Batch:
    """So many batches; or, as a period, at these batches (counted from 1)."""

    value: int | Collection[int]


@dataclass(frozen=True)
class Epoch:
    """So many epochs; or, as a period, at the end of these epochs (counted from 1)."""

    value: float | Collection[int]


TrainUnit = Batch | Epoch | Length | str | int


@dataclass(frozen=True)
class Scale:
    """What an epoch and a batch are worth. `epoch` is None for a stream without a known end."""

    epoch: int | None
    """Global batches in an epoch."""
    batch: int
    """Records in a whole global batch."""

    def batches(self, length: Length) -> int | None:
        """The length in whole batches, at least 1 unless it is 0; None for a length in time.

        Raises:
            ConfigError: epochs of a stream without a known end.
        """
        if length.unit is Unit.SECONDS:
            return None
        if length.unit is Unit.BATCHES:
            return int(length.amount)
        if length.unit is Unit.RECORDS:
            return math.ceil(length.amount / self.batch)
        if self.epoch is None:
            raise ConfigError(
                f"a length of {length} means nothing for a stream of data",
                why="nobody knows how many batches an epoch of it has",
                mend="give the length in batches, records or time",
            )
        whole = round(length.amount * self.epoch)
        return max(1, whole) if length.amount > 0 else 0


@dataclass(frozen=True)
class Period:
    """When something recurs: every so many batches, at some batches, every so many seconds."""

    every: int | None = None
    at: frozenset[int] = frozenset()
    seconds: float | None = None

    def due(self, batches: int) -> bool:
        """Whether it is due after `batches` batches, as far as batches decide."""
        return batches in self.at or (self.every is not None and batches % self.every == 0)

    def next(self, batches: int) -> int | None:
        """The first batch beyond `batches` after which it is due; None if there is none."""
        later = [batch for batch in self.at if batch > batches]
        if self.every is not None:
            later.append((batches // self.every + 1) * self.every)
        return min(later, default=None)


NEVER = Period()


def length_of(unit: TrainUnit, argument: str = "max_length") -> Length:
    """A length, from whichever way it was written.

    Args:
        argument: what is given it, for the words of an error.

    Raises:
        ConfigError: if it is several batches or epochs.
        UsageError: if it is no length at all.
    """
    if isinstance(unit, Length):
        return unit
    if isinstance(unit, Batch | Epoch) and _is_several(unit.value):
        raise ConfigError(
            f"{unit} is not a length", mend="several batches or epochs make a period, not a length"
        )
    return _length(unit, argument)


def period_of(unit: TrainUnit | None, scale: Scale, argument: str = "period") -> Period:
    """A period in batches or seconds; None and zero are never.

    Raises:
        UsageError: if it is none.
    """
    if unit is None:
        return NEVER
    if isinstance(unit, Batch | Epoch) and _is_several(unit.value):
        lengths = [_length(type(unit)(value), argument) for value in unit.value]
        return Period(at=frozenset(scale.batches(length) or 0 for length in lengths))
    length = length_of(unit, argument)
    if length.amount == 0:
        return NEVER
    if length.unit is Unit.SECONDS:
        return Period(seconds=length.amount)
    return Period(every=scale.batches(length))


def _is_several(value: Any) -> TypeGuard[Collection[int]]:
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def _length(unit: Any, argument: str) -> Length:
    """
    Raises:
        UsageError: if `unit` is no length.
    """
    wrapped = isinstance(unit, Batch | Epoch)
    value, number = (unit.value, numbers.Real) if wrapped else (unit, numbers.Integral)
    kind = Unit.EPOCHS if isinstance(unit, Epoch) else Unit.BATCHES
    why = ""
    try:
        if isinstance(unit, str):
            return Length.model_validate(unit)
        if isinstance(value, number) and not isinstance(value, bool):
            return Length(amount=float(value), unit=kind)
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
    except OverflowError:
        why = "a length beyond 2^53 is a mistake"
    raise UsageError(
        f"`{argument}` is {shown(unit)}, which is no length of training",
        why=why or "it is a number of batches, Batch(…), Epoch(…), or text with a unit",
        mend=f'write {argument}=Batch(500), {argument}=Epoch(3) or {argument}="2h"',
    )
