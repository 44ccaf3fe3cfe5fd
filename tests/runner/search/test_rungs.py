"""Brackets and rungs: the vectors of Determined 0.38, and what must hold for any settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.experiment import ExperimentConfig
from burst.core.config.halving import Ladder
from burst.core.errors import ConfigError
from burst.core.length import Unit
from burst.runner.search.rungs import (
    Bracket,
    Halving,
    expected_ends,
    halving_of,
    most_rungs,
    rung_counts,
    rung_lengths,
    share_concurrency,
    share_trials,
    whole_log,
)


def halving(searcher: Mapping[str, Any]) -> Halving:
    config = ExperimentConfig.model_validate(
        {
            "name": "n",
            "entrypoint": "train:Trial",
            "searcher": {"name": "adaptive_asha", **searcher},
            "reproducibility": {"experiment_seed": 7},
        }
    )
    found = halving_of(config)
    assert found is not None
    return found


def adaptive(trials: int, top: int, **more: Any) -> Halving:
    return halving({"max_trials": trials, "max_length": f"{top}ba", **more})


@pytest.mark.parametrize(
    ("trials", "divisor", "rungs", "shares"),
    [
        (20, 3, [3, 2, 1], [12, 5, 3]),
        (50, 3, [4, 3], [35, 15]),
        (50, 4, [3, 2], [37, 13]),
        (100, 4, [4, 3, 2], [70, 22, 8]),
    ],
)
def test_trials_are_shared_out_by_the_length_that_a_bracket_trains(
    trials: int, divisor: float, rungs: Sequence[int], shares: Sequence[int]
) -> None:
    assert share_trials(trials, divisor, rungs) == shares


@pytest.mark.parametrize(
    ("at_once", "divisor", "trials", "shares"),
    [
        (0, 3, [9, 3, 1], [3, 3, 3]),
        (11, 3, [9, 3, 1], [4, 4, 3]),
        (0, 4, [40, 10], [10, 10]),
        (1, 4, [40, 10], [1, 1]),
    ],
)
def test_places_are_shared_out_evenly_the_deepest_first(
    at_once: int, divisor: float, trials: Sequence[int], shares: Sequence[int]
) -> None:
    assert share_concurrency(at_once, divisor, trials) == shares


@pytest.mark.parametrize(
    ("count", "divisor", "top", "lengths"),
    [
        (3, 3, 9, (1, 3, 9)),
        (4, 2, 10, (1, 2, 5, 10)),
        (1, 3, 9, (9,)),
        (3, 3, 900, (100, 300, 900)),
        (3, 4, 20, (1, 5, 20)),
        (2, 4, 0.5, (0.5, 0.5)),
        (3, 4, 2.5, (1, 1, 2.5)),
    ],
)
def test_rungs_are_whole_below_the_top_and_never_beyond_it(
    count: int, divisor: float, top: float, lengths: Sequence[float]
) -> None:
    assert rung_lengths(count, divisor, top) == lengths


@pytest.mark.parametrize(
    ("mode", "most", "counts"),
    [
        ("aggressive", 4, [4]),
        ("standard", 4, [4, 3, 2]),
        ("standard", 5, [5, 4, 3]),
        ("standard", 1, [1]),
        ("conservative", 3, [3, 2, 1]),
    ],
)
def test_a_mode_says_which_brackets_there_are(mode: str, most: int, counts: list[int]) -> None:
    assert rung_counts(mode, most) == counts


def _shape(found: Halving) -> list[tuple[int, int, int]]:
    return [(len(each.rungs), each.trials, each.concurrent) for each in found.brackets]


def test_brackets_are_those_of_determined() -> None:
    standard = adaptive(10, 100, divisor=4, max_concurrent_trials=2)
    assert _shape(standard) == [(2, 7, 1), (1, 3, 1)]
    modest = adaptive(10, 1000, divisor=3, max_concurrent_trials=5, mode="conservative")
    assert _shape(modest) == [(3, 7, 2), (2, 2, 2), (1, 1, 1)]


@pytest.mark.parametrize(
    ("found", "brackets", "ends"),
    [
        (
            adaptive(64, 256),
            [
                ((4, 16, 64, 256), 45, 6),
                ((16, 64, 256), 14, 5),
                ((64, 256), 5, 5),
            ],
            {4: 34, 16: 20, 64: 7, 256: 3},
        ),
        (adaptive(10, 100), [((25, 100), 7, 7), ((100,), 3, 3)], {25: 6, 100: 4}),
        (
            halving({"max_trials": 50, "max_length": "20ep"}),
            [((1, 5, 20), 37, 8), ((5, 20), 13, 8)],
            {1: 28, 5: 17, 20: 5},
        ),
        (
            adaptive(500, 4096, mode="aggressive"),
            [((16, 64, 256, 1024, 4096), 500, 16)],
            {16: 375, 64: 94, 256: 24, 1024: 6, 4096: 1},
        ),
        (
            adaptive(10, 900, divisor=3, max_rungs=10),
            [((100, 300, 900), 7, 7), ((300, 900), 3, 3)],
            {100: 5, 300: 3, 900: 2},
        ),
    ],
)
def test_the_preview_of_a_search_is_determined_s(
    found: Halving, brackets: list[tuple[Any, ...]], ends: Mapping[int, int]
) -> None:
    assert [(b.rungs, b.trials, b.concurrent) for b in found.brackets] == brackets
    assert expected_ends(found) == ends


def test_rungs_that_are_written_out_win_over_the_mode() -> None:
    found = adaptive(20, 900, divisor=3, bracket_rungs=[1, 3, 2], mode="aggressive")
    assert [len(bracket.rungs) for bracket in found.brackets] == [3, 2, 1]
    assert [bracket.trials for bracket in found.brackets] == [12, 5, 3]


def test_asha_is_one_bracket() -> None:
    asha = {"name": "asha", "num_rungs": 3, "max_trials": 20, "divisor": 3, "max_length": "9ep"}
    assert halving(asha).brackets == (Bracket((1, 3, 9), 20, 16),)
    unlimited = halving({**asha, "max_concurrent_trials": 0})
    assert unlimited.brackets[0].concurrent == 9


def test_a_whole_logarithm_is_exact_where_floating_point_is_not() -> None:
    assert [whole_log(3, 243), whole_log(4, 64), whole_log(4, 63), whole_log(5, 1)] == [5, 3, 2, 0]
    assert most_rungs(10, 3, 243, 243) == 6


@pytest.mark.parametrize(
    ("searcher", "unit", "words"),
    [
        ({"max_length": "20ep"}, Unit.EPOCHS, "20 epochs"),
        ({"max_length": "1ep"}, Unit.EPOCHS, "1 epoch"),
        ({"max_length": "2.5ep"}, Unit.EPOCHS, "2.5 epochs"),
        ({"max_length": "5000ba"}, Unit.BATCHES, "5,000 batches"),
        ({"max_length": "64rec"}, Unit.RECORDS, "64 records"),
        ({"max_length": "90m"}, Unit.SECONDS, "1h30m"),
        ({"time_metric": "tokens", "max_time": 7}, "tokens", "tokens 7"),
        ({"time_metric": "epochs", "max_time": 7}, Unit.EPOCHS, "7 epochs"),
    ],
)
def test_a_ladder_says_its_lengths_in_words(
    searcher: Mapping[str, Any], unit: str, words: str
) -> None:
    ladder = halving({"max_trials": 4, **searcher}).ladder
    assert ladder.unit == unit
    assert ladder.words(ladder.top) == words


def test_a_search_that_halves_has_to_know_how_long_a_trial_trains() -> None:
    with pytest.raises(ConfigError, match="how long to train"):
        halving({"max_trials": 4})


@given(
    trials=st.integers(1, 500),
    top=st.integers(1, 10_000),
    divisor=st.floats(1.01, 9),
    at_once=st.integers(0, 40),
    mode=st.sampled_from(["aggressive", "standard", "conservative"]),
)
def test_any_settings_give_brackets_that_fit_them(
    trials: int, top: int, divisor: float, at_once: int, mode: str
) -> None:
    found = adaptive(trials, top, divisor=divisor, max_concurrent_trials=at_once, mode=mode)
    depths = [len(bracket.rungs) for bracket in found.brackets]
    assert depths == sorted(set(depths), reverse=True)
    assert trials <= found.trials <= trials + len(depths)
    for bracket in found.brackets:
        assert list(bracket.rungs) == sorted(bracket.rungs)
        assert bracket.rungs[-1] == top
        assert bracket.rungs[0] >= min(1, top)
        assert 1 <= bracket.concurrent <= bracket.trials
    ends = expected_ends(found)
    assert sum(ends.values()) == found.trials
    assert ends[top] >= len(depths)


def test_any_amount_has_words() -> None:
    assert Ladder(1e6, Unit.BATCHES).words(0.0) == "0 batches"
