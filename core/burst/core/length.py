"""Lengths of training: so many batches, records, epochs, or so much time.

Written `{batches: 500}`, `500ba`, `64000rec`, `5ep`, `2h`, `1h30m` or `30s`.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from burst.core.units import format_duration, parse_duration

_UNITS = {"ba": "batches", "batch": "batches", "batches": "batches",
          "rec": "records", "record": "records", "records": "records",
          "ep": "epochs", "epoch": "epochs", "epochs": "epochs"}  # fmt: skip
_SHORT = {"batches": "ba", "records": "rec", "epochs": "ep"}
_TEXT = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([a-z]+)")
_FORMS = "`500ba`, `64000rec`, `5ep`, `2h` or {batches: 500}"
_LARGEST = 2.0**53  # up to here every whole number is a float of its own


class Unit(StrEnum):
    BATCHES = "batches"
    RECORDS = "records"
    EPOCHS = "epochs"
    SECONDS = "seconds"


_WHOLE = (Unit.BATCHES, Unit.RECORDS)


class Length(BaseModel):
    """An amount of training in one unit: finite, not negative, whole in batches and records."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    amount: float
    unit: Unit

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if isinstance(value, Length):
            return value
        if isinstance(value, str):
            return _from_text(value)
        if isinstance(value, dict):
            return _from_mapping(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise ValueError(f"{value} has no unit; write `{value}ba` or `{value}ep`")
        raise ValueError(f"a length is {_FORMS}")

    @model_validator(mode="after")
    def _check(self) -> Length:
        if math.isnan(self.amount) or self.amount < 0:
            raise ValueError("a length cannot be negative or not a number")
        if self.amount > _LARGEST:
            raise ValueError("a length beyond 2^53 is a mistake")
        if self.unit in _WHOLE and self.amount != int(self.amount):
            raise ValueError(f"a length in {self.unit} is a whole number")
        return self

    @model_serializer
    def _write(self) -> dict[str, float | int]:
        whole = self.unit is not Unit.SECONDS and self.amount == int(self.amount)
        return {str(self.unit): int(self.amount) if whole else self.amount}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        number = {"type": "number", "minimum": 0}
        units = {
            str(unit): {"type": "integer", "minimum": 0} if unit in _WHOLE else number
            for unit in Unit
        }
        return {
            "description": f"A length of training: {_FORMS}.",
            "anyOf": [
                {"type": "string", "pattern": r"^\s*[0-9.]+\s*[A-Za-z].*$"},
                {
                    "type": "object",
                    "properties": units,
                    "additionalProperties": False,
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            ],
        }

    def __str__(self) -> str:
        if self.unit is Unit.SECONDS:
            text = format_duration(self.amount)
            return text if parse_duration(text) == self.amount else f"{self.amount}s"
        amount = int(self.amount) if self.amount == int(self.amount) else self.amount
        return f"{amount}{_SHORT[self.unit]}"


def _from_mapping(value: dict[Any, Any]) -> dict[str, Any]:
    if set(value) == {"amount", "unit"}:
        amount, unit = value["amount"], value["unit"]
    elif len(value) == 1 and next(iter(value)) in tuple(Unit):
        ((unit, amount),) = value.items()
    else:
        raise ValueError(f"a length is {_FORMS}")
    if isinstance(amount, str) and unit == Unit.SECONDS:
        amount = parse_duration(amount)
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise ValueError(f"the {unit} of a length are a number, not {amount!r}")
    try:
        return {"amount": float(amount), "unit": unit}
    except OverflowError:
        raise ValueError("a length beyond 2^53 is a mistake") from None


def _from_text(text: str) -> dict[str, Any]:
    written = text.strip().lower()
    match = _TEXT.fullmatch(written)
    if match is not None and match[2] in _UNITS:
        return {"amount": float(match[1]), "unit": _UNITS[match[2]]}
    try:
        if written[-1:].isalpha():
            return {"amount": parse_duration(written), "unit": Unit.SECONDS}
    except ValueError:
        pass
    hint = f"; {written} what? `{written}ba` is batches" if written.isdigit() else ""
    raise ValueError(f"{text!r} is not a length{hint}; write {_FORMS}")
