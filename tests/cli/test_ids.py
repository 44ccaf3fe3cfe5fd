from __future__ import annotations

from typing import Any

import pytest

from burst.cli import ids
from burst.core.errors import NotFound, UsageError
from burst.core.model import Checkpoint, Experiment, Node, Trial
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Store
from tests.cli import world


@pytest.fixture
def store() -> Store:
    made = MemoryStore()
    world.fill(made)
    return made


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (world.DONE, world.DONE),
        ("1m3k9zq4w02", world.DONE),
        ("latest", world.FAILED),
        (f"{world.RUNNING}.t0002", f"{world.RUNNING}.t0002"),
        (f"{world.RUNNING}.t2", f"{world.RUNNING}.t0002"),
        ("1m3k9zq4w01.t3", f"{world.RUNNING}.t0003"),
        ("latest.t0", f"{world.FAILED}.t0000"),
        (world.NODE, world.NODE),
        ("node-1m", world.NODE),
        ("ckpt-1m3k9zq4w0b", "ckpt-1m3k9zq4w0b"),
        ("ckpt-1m3k9zq4wd", "ckpt-1m3k9zq4wdc"),
    ],
)
def test_an_id_may_be_typed_as(store: Store, typed: str, meant: str) -> None:
    assert ids.find_any(store, typed).id == meant


@pytest.mark.parametrize("typed", ["", " ", "exp-", "ckpt-", "node-", ".t0", "exp-.t3"])
def test_the_beginning_of_every_id_means_none_even_where_there_is_one_record(typed: str) -> None:
    store = MemoryStore()
    first = world.training(0)
    world.put(store, world.experiment(), first, world.checkpoint(first), world.node())
    with pytest.raises(UsageError, match="an id is missing"):
        ids.find_any(store, typed)
    with pytest.raises((UsageError, NotFound)):
        ids.find_source_id(store, typed)


def test_an_ambiguous_beginning_lists_what_it_could_mean(store: Store) -> None:
    with pytest.raises(UsageError) as caught:
        ids.find_any(store, "exp-1m")
    assert caught.value.why.splitlines() == [
        f"{world.RUNNING}  digits, active",
        f"{world.DONE}  digits, completed",
        f"{world.FAILED}  negative, failed",
    ]


def test_an_unknown_id_names_the_nearest(store: Store) -> None:
    with pytest.raises(NotFound) as caught:
        ids.find_any(store, "exp-1m3k9zq4x03")
    assert world.FAILED in caught.value.why
    assert "burst ls" in caught.value.mend
    assert caught.value.exit_code == 4


def test_a_trial_number_that_is_not_there_says_how_many_there_are(store: Store) -> None:
    with pytest.raises(NotFound, match="has no trial 9"):
        ids.find_any(store, f"{world.RUNNING}.t9")


def test_latest_of_nothing_says_how_to_start() -> None:
    with pytest.raises(NotFound) as caught:
        ids.find_any(MemoryStore(), "latest")
    assert "burst run" in caught.value.mend


def test_an_experiment_stands_for_its_only_trial(store: Store) -> None:
    assert ids.find_trial(store, world.DONE).id == f"{world.DONE}.t0000"
    with pytest.raises(UsageError, match="4 trials: say which"):
        ids.find_trial(store, world.RUNNING)


def test_a_trial_stands_for_its_newest_checkpoint(store: Store) -> None:
    assert ids.find_checkpoint(store, f"{world.RUNNING}.t0").id == "ckpt-1m3k9zq4w0b"
    with pytest.raises(NotFound, match="has no checkpoint"):
        ids.find_checkpoint(store, f"{world.RUNNING}.t2")


def test_looking_up_reads_no_more_the_more_there_is(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    world.put(store, *(world.experiment(f"exp-2m3k9zq{n:04d}") for n in range(300)))
    read: list[int] = []
    children = store.children

    def counting(*args: Any, **options: Any) -> list[Any]:
        found: list[Any] = children(*args, **options)
        read.append(len(found))
        return found

    monkeypatch.setattr(store, "children", counting)
    assert ids.find_any(store, "exp-2m3k9zq0299").id == "exp-2m3k9zq0299"
    with pytest.raises(UsageError):
        ids.find_any(store, "exp-2m3k9zq02")
    assert sum(read) <= 20


def test_every_kind_is_found_as_itself(store: Store) -> None:
    found = [ids.find_any(store, ref) for ref in ("latest", "latest.t0", world.NODE)]
    assert [type(one) for one in found] == [Experiment, Trial, Node]
    assert type(ids.find_any(store, "ckpt-1m3k9zq4w0b")) is Checkpoint
