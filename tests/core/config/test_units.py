"""Durations and sizes, and the fields that take them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.units import counted, format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("5min", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("1w", 604800),
        ("1h30m", 5400),
        (" 1h 30m ", 5400),
        ("1.5h", 5400),
        (".5h", 1800),
        ("250ms", 0.25),
        ("2H", 7200),
        ("90", 90),
        (90, 90),
        (0.5, 0.5),
        (0, 0),
        ("0s", 0),
    ],
)
def test_a_duration_is_read_as_people_write_it(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "x", "h", "5 parsecs", "-5m", "30m1h", "1h1h", "1h-5m", "5mm", "1e3s", -1, True,
     math.nan, math.inf, -math.inf, 10**400, "9" * 400 + "s", None, [5]],
)  # fmt: skip
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"duration|order"):
        parse_duration(text)  # type: ignore[arg-type]


@given(st.integers(min_value=0, max_value=10**9))
def test_whole_seconds_survive_printing_and_reading(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.floats(min_value=0, max_value=1e9))
def test_a_printed_duration_is_near_and_reads_back(seconds: float) -> None:
    again = parse_duration(format_duration(seconds))
    assert abs(again - seconds) <= (0.00051 if seconds < 60 else 0.51)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (2.5, "2.5s"),
        (59.9996, "1m"),
        (90, "1m30s"),
        (90061, "1d1h1m1s"),
        (-90, "-1m30s"),
        (math.inf, "never"),
        (math.nan, "?"),
    ],
)
def test_durations_are_printed_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1.5G", 3 << 29),
        ("500MiB", 500 << 20),
        ("4GB", 4_000_000_000),
        ("1Gi", 1 << 30),
        ("12 kB", 12_000),
        ("3b", 3),
        ("10", 10),
        (10, 10),
        (1.6, 2),
        (0, 0),
        ("1T", 1 << 40),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str | float, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "G", "1.5 Gigs", "-1G", "iB", "3iB", "1e9", -1, True, math.nan, math.inf, 1 << 61, None],
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)  # type: ignore[arg-type]


@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_printed_size_is_within_a_tenth_of_its_unit_and_reads_back(size: int) -> None:
    assert abs(parse_size(format_size(size)) - size) <= max(size * 0.051, 0)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (512, "512 B"), (1536, "1.5 KiB"), ((1 << 20) - 1, "1 MiB"), (1 << 41, "2 TiB")],
)
def test_sizes_are_printed_for_people(size: int, text: str) -> None:
    assert format_size(size) == text


def test_a_number_of_things_is_said_as_people_say_it() -> None:
    assert [counted(n, "slot") for n in (0, 1, 2, 1200)] == [
        "0 slots",
        "1 slot",
        "2 slots",
        "1,200 slots",
    ]
