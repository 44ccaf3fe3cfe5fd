"""Types that a trial teaches the checkpoints: taken whole, or refused in words that help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.tensor import DTensor
from torch.nn import Parameter

from burst.core.errors import BurstError, UsageError
from burst.harness import register_state_type
from burst.harness.checkpoints.codec import encoding, state_types, tree
from burst.harness.checkpoints.codec.leaves import LEAVES
from burst.harness.checkpoints.codec.skeletons import decode
from burst.harness.rehearse import rehearse
from tests.harness.checkpoints.support import Lab, request
from tests.harness.trial.bench import SOURCE, Bench


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_types, "_by_type", {})
    monkeypatch.setattr(state_types, "_by_name", {})


class Average:
    def __init__(self, total: float = 0.0) -> None:
        self.total = total


class Other:
    pass


def of_tree(total: Any) -> Average:
    return Average(total)


def total_of(average: Average) -> float:
    return average.total


def again(encoded: tree.Encoded) -> Any:
    return decode(encoded.skeleton, [item.tensor for item in encoded.tensors])


HELD = [*LEAVES, *encoding._CONTAINERS, torch.Tensor, Parameter, DTensor, np.ndarray, np.float32]


@pytest.mark.parametrize("kind", [*HELD, bytes, bytearray], ids=lambda kind: kind.__name__)
def test_a_type_that_checkpoints_hold_as_it_is_is_refused(kind: type) -> None:
    with pytest.raises(UsageError, match="as it is") as caught:
        register_state_type(kind, total_of, of_tree)
    assert "never be called" in caught.value.why


@pytest.mark.parametrize("kind", [dict, list, torch.Tensor, np.ndarray])
def test_an_heir_of_a_type_that_is_held_may_be_registered(kind: type) -> None:
    heir = type("Heir", (kind,), {})
    register_state_type(heir, total_of, of_tree)
    assert state_types.registered_as(heir)


@pytest.mark.parametrize(
    ("arguments", "what", "mend"),
    [
        ((Average(), total_of, of_tree), "takes a class first, and got an Average", "the class"),
        (("app.Average", total_of, of_tree), "takes a class first, and got a str", "the class"),
        ((list[int], total_of, of_tree), "takes a class first", "the class"),
        ((Average, None, of_tree), "`to_tree` of Average cannot be called", "two functions"),
        ((Average, total_of, {"total": 1}), "`from_tree` of Average cannot", "two functions"),
    ],
)
def test_what_is_no_type_or_cannot_be_called_is_refused(
    arguments: Any, what: str, mend: str
) -> None:
    with pytest.raises(UsageError) as caught:
        register_state_type(*arguments)
    assert what in caught.value.what
    assert caught.value.why
    assert mend in caught.value.mend


def test_a_name_that_is_no_string_is_refused() -> None:
    with pytest.raises(UsageError, match="name of Average in checkpoints is an int"):
        register_state_type(Average, total_of, of_tree, name=3)  # type: ignore[arg-type]


def test_a_name_that_another_type_has_is_refused_and_stays_that_types() -> None:
    register_state_type(Average, total_of, of_tree, name="app.Average")
    with pytest.raises(UsageError) as caught:
        register_state_type(Other, lambda _: None, lambda _: Other(), name="app.Average")
    assert "test_state_types.Average is" in caught.value.why
    assert again(tree.encode(Average(2.0), "x")).total == 2.0


def test_a_type_may_be_registered_again_and_after_its_module_was_loaded_again() -> None:
    register_state_type(Average, total_of, of_tree)
    register_state_type(Average, lambda a: [a.total], lambda t: Average(t[0] + 1))
    assert again(tree.encode(Average(2.0), "x")).total == 3.0
    anew = type("Average", (), {"__module__": Average.__module__, "__qualname__": "Average"})
    register_state_type(anew, lambda _: None, lambda _: anew())
    assert type(again(tree.encode(anew(), "x"))) is anew


def test_under_a_new_name_what_was_written_under_the_old_one_can_still_be_read() -> None:
    register_state_type(Average, total_of, of_tree, name="old")
    before = tree.encode(Average(2.0), "x")
    register_state_type(Average, total_of, of_tree, name="new")
    assert tree.encode(Average(2.0), "x").skeleton == {"$": ["object", "new", 2.0]}
    assert again(before).total == 2.0


def _raise(_: Any) -> Any:
    raise KeyError("total")


@pytest.mark.parametrize(
    ("to_tree", "words"),
    [
        (lambda average: average, "its `to_tree` returned an object of the same type"),
        (lambda average: Average(), "its `to_tree` returned an object of the same type"),
        (lambda average: [Average()], "deeper than 150 levels"),
        (lambda average: [average], "it contains itself"),
        (lambda average: Other(), "no pickled objects"),
        (_raise, "its `to_tree` raised KeyError: 'total'"),
    ],
)
def test_a_to_tree_that_gives_no_tree_is_refused_by_the_objects_place(
    to_tree: Callable[[Average], Any], words: str
) -> None:
    register_state_type(Average, to_tree, of_tree)
    with pytest.raises(BurstError) as caught:
        tree.encode({"callbacks": [Average()]}, "shared")
    assert "shared.callbacks[0]" in caught.value.what
    assert words in caught.value.why
    assert caught.value.mend


@pytest.mark.parametrize(
    ("from_tree", "words"),
    [
        (_raise, "its `from_tree` raised KeyError: 'total'"),
        (lambda tree: None, "its `from_tree` returned a NoneType"),
        (lambda tree: tree, "its `from_tree` returned a float"),
        (lambda tree: Other(), "its `from_tree` returned an Other"),
    ],
)
def test_a_from_tree_that_makes_no_object_fails_the_restore_and_names_the_type(
    from_tree: Callable[[Any], Any], words: str, tmp_path: Path
) -> None:
    register_state_type(Average, total_of, from_tree)
    lab = Lab(tmp_path)
    try:
        lab.engine().save(request({"ema": Average(1.0), "weight": torch.ones(2)}))
        with pytest.raises(BurstError) as caught:
            lab.engine().restore()
    finally:
        lab.close()
    assert "test_state_types.Average cannot be made again" in caught.value.what
    assert words in caught.value.why
    assert caught.value.mend


def test_a_rehearsal_finds_an_object_that_cannot_be_made_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        register_state_type(Average, total_of, of_tree)
        writer = bench.core(SOURCE)
        writer.save({"ema": Average(1.0)}, batches=1)
        writer.close()
        register_state_type(Average, total_of, _raise)
        found = rehearse(bench.store, bench.newest(SOURCE).id)
    finally:
        bench.store.close()
    assert not found.good
    (problem,) = found.problems
    assert "Average cannot be made again: its `from_tree` raised KeyError" in problem["text"]


def test_what_a_type_is_made_of_may_be_of_a_type_that_is_registered_too() -> None:
    register_state_type(Other, lambda _: "other", lambda _: Other())
    register_state_type(Average, lambda a: [a.total, Other()], lambda t: Average(t[0]))
    assert again(tree.encode([Average(3.0)], "x"))[0].total == 3.0
