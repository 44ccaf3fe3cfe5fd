"""The small things everything is built of: lengths, errors, clocks."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from burst.core import errors
from burst.core.clock import ManualClock, SystemClock
from burst.core.errors import BurstError, ExitCode
from burst.core.length import Length, Unit


@pytest.mark.parametrize(
    ("written", "amount", "unit"),
    [
        ("500ba", 500, Unit.BATCHES),
        ("64000rec", 64000, Unit.RECORDS),
        ("1.5ep", 1.5, Unit.EPOCHS),
        ("90m", 5400, Unit.SECONDS),
        (" 2 h ", 7200, Unit.SECONDS),
        ({"batches": 3}, 3, Unit.BATCHES),
        ({"epochs": 0.25}, 0.25, Unit.EPOCHS),
    ],
)
def test_a_length_is_read_as_it_is_written(written: object, amount: float, unit: Unit) -> None:
    assert Length.model_validate(written) == Length(amount=amount, unit=unit)


@pytest.mark.parametrize(
    "written", ["", "5", "ba", "-5ba", "5 parsecs", "1.5ba", {}, {"batches": -1}, {"bats": 1}, 5]
)
def test_what_is_no_length_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        Length.model_validate(written)


@given(st.sampled_from(Unit), st.integers(0, 10**9))
def test_a_length_survives_json(unit: Unit, amount: int) -> None:
    length = Length(amount=amount, unit=unit)
    assert Length.model_validate_json(length.model_dump_json()) == length


ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type)]
BURST_ERRORS = [kind for kind in ERRORS if issubclass(kind, BurstError)]


@pytest.mark.parametrize("kind", BURST_ERRORS)
def test_an_error_survives_a_process_boundary(kind: type[BurstError]) -> None:
    error = kind("it broke", why="it was old", mend="buy another")
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is kind
        assert str(copied) == "it broke\n  Why:  it was old\n  Mend: buy another"


def test_each_error_has_the_exit_code_of_its_kind() -> None:
    codes = {kind.__name__: kind.exit_code for kind in BURST_ERRORS}
    assert codes == {
        "BurstError": ExitCode.FAILED,
        "UsageError": ExitCode.USAGE,
        "ConfigError": ExitCode.CONFIG,
        "NotFound": ExitCode.NOT_FOUND,
        "Refused": ExitCode.REFUSED,
        "Unreachable": ExitCode.UNREACHABLE,
        "Unauthorized": ExitCode.UNREACHABLE,
        "StoreError": ExitCode.FAILED,
        "Conflict": ExitCode.FAILED,
        "Fenced": ExitCode.FAILED,
        "Taken": ExitCode.FAILED,
        "NoStore": ExitCode.NOT_FOUND,
    }


def test_a_manual_clock_moves_only_when_it_is_told() -> None:
    clock = ManualClock(10.0)
    clock.sleep(5.0)
    clock.advance(2.0)
    assert clock.now() == clock.monotonic() == 17.0


def test_the_systems_clock_tells_the_time_and_does_not_go_back() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now() > 1.7e9
