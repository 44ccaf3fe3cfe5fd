"""Lengths of training: so many batches, records, epochs, or so much time.

Written `{batches: 500}`, `500ba`, `64000rec`, `5ep`, `2h`, `90m` or `30s`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, model_serializer, model_validator

_UNITS = {"ba": ("batches", 1.0), "batch": ("batches", 1.0), "batches": ("batches", 1.0),
          "rec": ("records", 1.0), "records": ("records", 1.0),
          "ep": ("epochs", 1.0), "epoch": ("epochs", 1.0), "epochs": ("epochs", 1.0),
          "s": ("seconds", 1.0), "m": ("seconds", 60.0), "min": ("seconds", 60.0),
          "h": ("seconds", 3600.0), "d": ("seconds", 86400.0)}  # fmt: skip
_TEXT = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$")


class Unit(StrEnum):
    BATCHES = "batches"
    RECORDS = "records"
    EPOCHS = "epochs"
    SECONDS = "seconds"


class Length(BaseModel):
    """An amount of training in one unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    amount: float
    unit: Unit

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if isinstance(value, str):
            return _from_text(value)
        if isinstance(value, dict) and len(value) == 1 and "amount" not in value:
            ((unit, amount),) = value.items()
            if unit in tuple(Unit):
                return {"amount": amount, "unit": unit}
        if isinstance(value, dict) and set(value) == {"amount", "unit"}:
            return value
        raise ValueError("a length is `500ba`, `64000rec`, `5ep`, `2h`, or {batches: 500}")

    @model_validator(mode="after")
    def _check(self) -> Length:
        if self.amount < 0:
            raise ValueError("a length cannot be negative")
        if self.unit in (Unit.BATCHES, Unit.RECORDS) and self.amount != int(self.amount):
            raise ValueError(f"a length in {self.unit} is a whole number")
        return self

    @model_serializer
    def _write(self) -> dict[str, float | int]:
        whole = self.unit is not Unit.SECONDS and self.amount == int(self.amount)
        return {str(self.unit): int(self.amount) if whole else self.amount}

    def __str__(self) -> str:
        short = {"batches": "ba", "records": "rec", "epochs": "ep", "seconds": "s"}
        return f"{self.amount:g}{short[self.unit]}"


def _from_text(text: str) -> dict[str, Any]:
    match = _TEXT.match(text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(
            f"{text!r} is not a length; write `500ba`, `64000rec`, `5ep`, `2h` or {{batches: 500}}"
        )
    unit, factor = _UNITS[match[2]]
    return {"amount": float(match[1]) * factor, "unit": unit}
