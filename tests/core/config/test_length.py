"""Lengths of training, in every form and at their edges."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from burst.core.length import Length, Unit


@pytest.mark.parametrize(
    ("written", "amount", "unit"),
    [
        ("500ba", 500, Unit.BATCHES),
        ("1 batch", 1, Unit.BATCHES),
        ("64000rec", 64000, Unit.RECORDS),
        ("5ep", 5, Unit.EPOCHS),
        ("0.5 Epochs", 0.5, Unit.EPOCHS),
        ("2h", 7200, Unit.SECONDS),
        ("1h30m", 5400, Unit.SECONDS),
        ("30s", 30, Unit.SECONDS),
        ({"batches": 500}, 500, Unit.BATCHES),
        ({"epochs": 2.5}, 2.5, Unit.EPOCHS),
        ({"seconds": 30}, 30, Unit.SECONDS),
        ({"seconds": "5m"}, 300, Unit.SECONDS),
        ({"amount": 3, "unit": "records"}, 3, Unit.RECORDS),
        ("0ba", 0, Unit.BATCHES),
        ({"batches": 2.0}, 2, Unit.BATCHES),
    ],
)
def test_a_length_is_read_in_every_form(written: Any, amount: float, unit: Unit) -> None:
    length = Length.model_validate(written)
    assert (length.amount, length.unit) == (amount, unit)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "ba",
        "5",
        "5x",
        "-5ba",
        "0.5ba",
        "1e3ba",
        "1_000ba",
        "9" * 400 + "ba",
        "9007199254740993000ba",
        5,
        2.5,
        True,
        None,
        [5],
        {},
        {"batch": 3},
        {"batches": 3, "epochs": 1},
        {"batches": True},
        {"batches": "3"},
        {"batches": None},
        {"batches": -1},
        {"batches": 1.5},
        {"records": 1.5},
        {"epochs": math.nan},
        {"epochs": math.inf},
        {"epochs": -math.inf},
        {"batches": 10**400},
        {"amount": 3, "unit": "parsecs"},
    ],
)
def test_what_is_no_length_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        Length.model_validate(written)


@pytest.mark.parametrize("written", [5, "5"])
def test_a_bare_number_is_asked_for_its_unit(written: Any) -> None:
    with pytest.raises(ValidationError, match="5ba"):
        Length.model_validate(written)


LENGTHS = st.one_of(
    st.builds(
        Length,
        amount=st.integers(0, 2**53).map(float),
        unit=st.sampled_from([Unit.BATCHES, Unit.RECORDS]),
    ),
    st.builds(
        Length,
        amount=st.floats(0, 1e9),
        unit=st.sampled_from([Unit.EPOCHS, Unit.SECONDS]),
    ),
)


@given(LENGTHS)
def test_a_length_survives_json(length: Length) -> None:
    assert Length.model_validate(length.model_dump(mode="json")) == length
    assert Length.model_validate_json(length.model_dump_json()) == length


@given(st.integers(0, 2**53), st.sampled_from([Unit.BATCHES, Unit.RECORDS, Unit.EPOCHS]))
def test_a_whole_length_survives_its_text_form(amount: int, unit: Unit) -> None:
    length = Length(amount=amount, unit=unit)
    assert Length.model_validate(str(length)) == length


def test_lengths_of_time_are_printed_as_durations() -> None:
    assert str(Length.model_validate("90m")) == "1h30m"
    assert str(Length.model_validate({"batches": 1234567})) == "1234567ba"
