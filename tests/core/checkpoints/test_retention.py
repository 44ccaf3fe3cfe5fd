"""Which checkpoints stay."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.checkpoints.removal.retention import retained
from burst.core.config.experiment import Keep
from burst.core.model import Checkpoint, Copy

TABLE = {3: 0.6, 4: 0.5, 5: 0.4, 7: 0.2, 8: 0.3}
"""Trial 1 has checkpoints 1 to 5, trial 2 has 6 to 10; those named here were validated."""


def checkpoint(number: int, trial: str, metric: float | None, **fields: object) -> Checkpoint:
    made = Checkpoint(
        id=f"ckpt-{number:02d}",
        trial=trial,
        experiment="exp",
        attempt=1,
        batches=number * 100,
        created=float(number),
        url="file:///x",
        manifest=f"m{number}",
        size=1,
        metrics={} if metric is None else {"loss": metric},
    )
    return made.model_copy(update=fields)


def numbers(kept: frozenset[str]) -> set[int]:
    return {int(id.removeprefix("ckpt-")) for id in kept}


def keep(experiment: int, best: int, latest: int) -> Keep:
    return Keep(experiment_best=experiment, trial_best=best, trial_latest=latest)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ((2, 0, 0), {8, 7}),
        ((0, 1, 0), {7, 5}),
        ((0, 0, 1), {10, 5}),
        ((0, 1, 1), {10, 7, 5}),
        ((2, 1, 1), {10, 8, 7, 5}),
        ((0, 0, 3), {10, 9, 8, 5, 4, 3}),
        ((5, 0, 0), {8, 7, 5, 4, 3}),
        ((9, 0, 0), {8, 7, 5, 4, 3}),
    ],
)
def test_the_table_of_determined(policy: tuple[int, int, int], expected: set[int]) -> None:
    everything = [checkpoint(n, "1" if n <= 5 else "2", TABLE.get(n)) for n in range(1, 11)]
    assert numbers(retained(everything, keep(*policy), metric="loss")) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0 / n for n in range(1, 11)], {8, 9, 10}),
        ([float(n) for n in range(1, 11)], {1, 2, 3, 9, 10}),
    ],
)
def test_ten_checkpoints_that_get_better_or_worse(values: list[float], expected: set[int]) -> None:
    everything = [checkpoint(n, "1", v) for n, v in enumerate(values, start=1)]
    assert numbers(retained(everything, keep(3, 1, 2), metric="loss")) == expected


def test_larger_can_be_better() -> None:
    everything = [checkpoint(n, "1", float(n)) for n in range(1, 5)]
    kept = retained(everything, keep(0, 1, 0), metric="loss", smaller_is_better=False)
    assert numbers(kept) == {4}


@pytest.mark.parametrize("smaller", [True, False])
def test_not_a_number_ranks_worst_and_ties_go_to_the_older(smaller: bool) -> None:
    everything = [
        checkpoint(1, "1", math.nan),
        checkpoint(2, "1", 0.5),
        checkpoint(3, "1", 0.5),
        checkpoint(4, "1", math.inf if smaller else -math.inf),
    ]
    for count, expected in ((1, {2}), (2, {2, 3}), (3, {2, 3, 4}), (4, {1, 2, 3, 4})):
        kept = retained(everything, keep(0, count, 0), metric="loss", smaller_is_better=smaller)
        assert numbers(kept) == expected


def test_a_damaged_checkpoint_is_not_the_newest() -> None:
    everything = [checkpoint(1, "1", None), checkpoint(2, "1", None, damaged="short file")]
    kept = retained(everything, keep(0, 0, 1), metric="loss", open_trials={"1"})
    assert numbers(kept) == {1}


def local(number: int, trial: str, metric: float | None, **fields: object) -> Checkpoint:
    """One that lies on a node's own disk alone."""
    copies = (Copy(url="file:///node", at=0.0, node="node-1"),)
    return checkpoint(number, trial, metric, copies=copies, **fields)


def test_one_on_a_nodes_own_disk_takes_the_place_of_none_that_outlives_nodes() -> None:
    everything = [
        checkpoint(1, "1", 0.5),
        checkpoint(2, "1", 0.4),
        local(3, "1", 0.3),
        local(4, "1", 0.2),
    ]
    assert numbers(retained(everything, keep(0, 0, 1), metric="loss")) == {2, 4}
    assert numbers(retained(everything, keep(0, 1, 0), metric="loss")) == {2, 4}
    assert numbers(retained(everything, keep(2, 0, 0), metric="loss")) == {1, 2, 3, 4}


def test_an_open_trial_keeps_what_it_would_continue_from_on_its_node_and_elsewhere() -> None:
    everything = [checkpoint(1, "1", None), checkpoint(2, "1", None), local(3, "1", None)]
    kept = retained(everything, keep(0, 0, 0), metric="loss", open_trials={"1"})
    assert numbers(kept) == {2, 3}
    assert numbers(retained(everything, keep(0, 0, 0), metric="loss")) == set()


def test_what_a_later_attempt_left_behind_is_not_the_newest() -> None:
    everything = [
        checkpoint(1, "1", None),
        local(4, "1", None),
        checkpoint(2, "1", None, attempt=2),
    ]
    kept = retained(everything, keep(0, 0, 1), metric="loss", open_trials={"1"})
    assert numbers(kept) == {2}


@st.composite
def experiments(draw: st.DrawFn) -> list[Checkpoint]:
    values = st.none() | st.floats(allow_nan=True, allow_infinity=True)
    return [
        checkpoint(
            number,
            draw(st.sampled_from(["1", "2", "3"])),
            draw(values),
            pinned=draw(st.booleans()),
            damaged=draw(st.sampled_from(["", "", "short"])),
            deleted=draw(st.sampled_from([None, None, 5.0])),
            copies=draw(st.sampled_from([(), (Copy(url="file:///node", at=0.0, node="n"),)])),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


small = st.integers(0, 3)


@given(experiments(), small, small, small, st.sets(st.sampled_from(["1", "2"])), st.randoms())
def test_what_must_stay_stays_and_the_numbers_are_kept(
    everything: list[Checkpoint],
    best: int,
    trial_best: int,
    latest: int,
    open_trials: set[str],
    rng: object,
) -> None:
    policy = keep(best, trial_best, latest)
    protected = {each.id for each in everything[::5]}
    kept = retained(
        everything, policy, metric="loss", open_trials=open_trials, protected=protected
    )
    shuffled = list(everything)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert kept == retained(
        shuffled, policy, metric="loss", open_trials=open_trials, protected=protected
    )
    there = [each for each in everything if each.deleted is None]
    assert kept <= {each.id for each in there}
    exempt = {each.id for each in there if each.pinned or each.id in protected}
    assert exempt <= kept
    for trial in ("1", "2", "3"):
        mine = [each for each in there if each.trial == trial and not each.damaged]
        lasting = [each for each in mine if each.durable]
        for some in (mine, lasting):
            if trial in open_trials and some:
                assert max(some, key=lambda each: each.batches).id in kept
    for durable in (True, False):
        counted = [e for e in there if e.id in kept - exempt and e.durable is durable]
        assert len(counted) <= best + 3 * (trial_best + latest) + len(open_trials)
