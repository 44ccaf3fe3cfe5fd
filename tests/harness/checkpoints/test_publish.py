"""What a save, its copies and its failures write down."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.errors import Fenced, NotFound
from burst.core.model import Checkpoint, Copy, Event, Trial
from burst.core.store import update
from burst.core.store.memory import MemoryStore
from burst.harness.checkpoints.agreement import LenderGone, OutcomeUnknown
from burst.harness.checkpoints.publish import (
    MOST_BORROWERS,
    Identity,
    note_copies,
    note_failure,
    publish,
)
from tests.core.checkpoints.interleaving import EXPERIMENT, World
from tests.harness.checkpoints.support import Fault

LOCAL = Copy(url="file:///fast", at=1.0, node="node-1")
SHARED = Copy(url="file:///shared", at=2.0)
ONE, TWO, FOUR, FIVE = (f"ckpt-{number:011d}" for number in (1, 2, 4, 5))
S3 = Copy(url="s3://bucket/x", at=3.0)


@pytest.fixture
def world() -> World:
    made = World()
    made.add_trial()
    return made


def identity(world: World, number: int = 0) -> Identity:
    trial = world.trials()[number]
    return Identity(EXPERIMENT, trial.id, 1, 1)


def record(world: World, number: int, *copies: Copy, **fields: Any) -> Checkpoint:
    given: dict[str, Any] = {
        "id": f"ckpt-{number:011d}",
        "trial": world.trials()[0].id,
        "experiment": EXPERIMENT,
        "attempt": 1,
        "batches": number,
        "created": 100.0 + number,
        "url": "file:///shared",
        "copies": copies,
        "manifest": "m",
        "size": 1,
    }
    return Checkpoint(**{**given, **fields})


def trial(world: World) -> Trial:
    return world.trials()[0]


def events(store: MemoryStore) -> list[Event]:
    return list(store.events().events)


def test_a_durable_checkpoint_is_the_trials_newest_and_ends_its_problem(world: World) -> None:
    note_failure(world.store, identity(world), "the disk is full", 3, 50.0)
    assert trial(world).checkpoint_problem == "the disk is full"
    publish(world.store, identity(world), record(world, 4))
    assert (trial(world).checkpoint, trial(world).checkpoint_at) == (FOUR, 104.0)
    assert trial(world).checkpoint_problem == ""
    failed, saved = events(world.store)
    assert (failed.name, failed.text, failed.at) == ("checkpoint.failed", "the disk is full", 50.0)
    assert failed.data == {"trial": trial(world).id, "batches": 3}
    assert (saved.name, saved.subject) == ("checkpoint.saved", FOUR)


def test_one_on_a_nodes_own_disk_becomes_the_newest_once_it_is_copied(world: World) -> None:
    publish(world.store, identity(world), record(world, 4, LOCAL))
    assert trial(world).checkpoint == ""
    assert "own disk" in events(world.store)[-1].text
    for _ in range(2):
        noted = note_copies(world.store, identity(world), FOUR, [S3])
    assert (noted.copies, noted.url) == ((LOCAL, S3), S3.url)
    assert trial(world).checkpoint == FOUR
    assert [event.name for event in events(world.store)] == [
        "checkpoint.saved",
        "checkpoint.durable",
    ]
    assert events(world.store)[-1].at == S3.at


def test_a_further_copy_of_a_durable_one_is_no_news(world: World) -> None:
    publish(world.store, identity(world), record(world, 4, SHARED))
    noted = note_copies(world.store, identity(world), FOUR, [S3, LOCAL])
    assert (noted.copies, noted.url) == ((LOCAL, SHARED, S3), S3.url)
    assert [event.name for event in events(world.store)] == ["checkpoint.saved"]


def test_a_record_without_copies_keeps_the_place_it_names(world: World) -> None:
    publish(world.store, identity(world), record(world, 4))
    noted = note_copies(world.store, identity(world), FOUR, [S3])
    assert [copy.url for copy in noted.copies] == ["file:///shared", S3.url]
    assert noted.copies[0].at == 104.0


def test_an_older_one_that_becomes_durable_late_does_not_replace_a_newer(world: World) -> None:
    publish(world.store, identity(world), record(world, 4, LOCAL))
    publish(world.store, identity(world), record(world, 5, LOCAL))
    note_copies(world.store, identity(world), FIVE, [S3])
    note_copies(world.store, identity(world), FOUR, [S3])
    assert trial(world).checkpoint == FIVE


@pytest.mark.parametrize("change", [{"damaged": "x"}, {"deleted": 1.0}])
def test_it_does_replace_one_that_is_no_good(world: World, change: dict[str, Any]) -> None:
    publish(world.store, identity(world), record(world, 4, LOCAL))
    publish(world.store, identity(world), record(world, 5, SHARED))
    update(world.store, Checkpoint, FIVE, lambda r: r.model_copy(update=change))
    note_copies(world.store, identity(world), FOUR, [S3])
    assert trial(world).checkpoint == FOUR


def test_copies_of_a_deleted_checkpoint_are_not_noted(world: World) -> None:
    publish(world.store, identity(world), record(world, 4, LOCAL))
    update(
        world.store,
        Checkpoint,
        FOUR,
        lambda r: r.model_copy(update={"deleted": 1.0}),
    )
    assert note_copies(world.store, identity(world), FOUR, [S3]).copies == (LOCAL,)
    assert trial(world).checkpoint == ""
    with pytest.raises(NotFound):
        note_copies(world.store, identity(world), "ckpt-00000000009", [S3])


def test_a_copy_of_another_trials_checkpoint_does_not_become_ones_own(world: World) -> None:
    world.add_trial()
    publish(world.store, identity(world), record(world, 4, LOCAL))
    note_copies(world.store, identity(world, 1), FOUR, [S3])
    assert [each.checkpoint for each in world.trials()] == ["", ""]


def test_nothing_counts_under_an_older_token(world: World) -> None:
    publish(world.store, identity(world), record(world, 4, LOCAL))
    update(world.store, Trial, trial(world).id, lambda t: t.model_copy(update={"token": 2}))
    before = (world.records(), trial(world), events(world.store))
    with pytest.raises(Fenced):
        publish(world.store, identity(world), record(world, 5))
    with pytest.raises(Fenced):
        note_copies(world.store, identity(world), FOUR, [S3])
    with pytest.raises(Fenced):
        note_failure(world.store, identity(world), "the disk is full", 3, 50.0)
    assert (world.records(), trial(world), events(world.store)) == before


def test_publishing_twice_is_publishing_once(world: World) -> None:
    publish(world.store, identity(world), record(world, 3))
    for _ in range(2):
        publish(world.store, identity(world), record(world, 4), ["ckpt-00000000003"])
    assert [each.version for each in world.records()] == [2, 1]
    assert len(events(world.store)) == 2


def lend(world: World, **fields: Any) -> None:
    """A checkpoint of another trial, which the first trial may borrow from."""
    other = world.add_trial()
    made = record(world, 1, trial=other, **fields)
    publish(world.store, identity(world, 1), made)


def test_who_borrows_is_written_down_on_both_sides(world: World) -> None:
    lend(world)
    publish(world.store, identity(world), record(world, 4), [ONE], [ONE])
    mine, theirs = world.store.children(Checkpoint, trial(world).id) + world.store.children(
        Checkpoint, world.trials()[1].id
    )
    assert mine.borrowed_from == (world.trials()[1].id,)
    assert theirs.lent_to == (trial(world).id,)


@pytest.mark.parametrize(
    "change",
    [
        {"deleted": 1.0},
        {"damaged": "x"},
        {"copies": (S3,)},
        {"copies": (LOCAL, S3)},
    ],
)
def test_a_lender_that_may_lose_its_files_lends_nothing(
    world: World, change: dict[str, Any]
) -> None:
    lend(world)
    update(world.store, Checkpoint, ONE, lambda r: r.model_copy(update=change))
    before = world.records()
    with pytest.raises(LenderGone):
        publish(world.store, identity(world), record(world, 4), [ONE])
    assert world.records() == before
    with pytest.raises(LenderGone):
        publish(world.store, identity(world), record(world, 4), ["ckpt-00000000009"])


def test_one_of_this_attempt_that_left_the_tier_lends_nothing_and_one_of_an_earlier_may(
    world: World,
) -> None:
    publish(world.store, identity(world), record(world, 1, SHARED))
    again = record(world, 4, LOCAL)
    with pytest.raises(LenderGone, match="no longer held"):
        publish(world.store, identity(world), again, [ONE])
    publish(world.store, identity(world), again.model_copy(update={"attempt": 2}), [ONE])
    assert len(world.records()) == 2


def test_an_owner_may_be_deleted_as_long_as_its_lender_is_not(world: World) -> None:
    lend(world)
    publish(world.store, identity(world, 1), record(world, 2, trial=world.trials()[1].id))
    update(
        world.store,
        Checkpoint,
        ONE,
        lambda r: r.model_copy(update={"deleted": 1.0}),
    )
    publish(world.store, identity(world), record(world, 4), [TWO], [ONE])
    owner = world.store.get(Checkpoint, ONE)
    assert owner.lent_to == (trial(world).id,)
    assert owner.deleted == 1.0


def test_a_record_lends_to_no_more_trials_than_it_can_name(world: World) -> None:
    lend(world, lent_to=tuple(f"{EXPERIMENT}.t{n:04d}" for n in range(100, 100 + MOST_BORROWERS)))
    lender = [ONE]
    with pytest.raises(LenderGone, match="lent files"):
        publish(world.store, identity(world), record(world, 4), lender, lender)


def test_a_commit_with_too_many_lenders_is_not_tried(world: World) -> None:
    with pytest.raises(LenderGone, match="too many"):
        publish(world.store, identity(world), record(world, 4), [f"ckpt-{n}" for n in range(90)])


def test_whether_a_lost_answer_was_a_commit_is_asked(world: World) -> None:
    fault = Fault(mode="lose")
    publish(fault.around(world.store), identity(world), record(world, 3))
    at = fault.calls.index("commit")
    for number, mode in ((4, "lose"), (5, "refuse")):
        fault = Fault(at=at, mode=mode)
        if mode == "lose":
            publish(fault.around(world.store), identity(world), record(world, number))
        else:
            with pytest.raises(OutcomeUnknown):
                publish(fault.around(world.store), identity(world), record(world, number))
    assert trial(world).checkpoint == FOUR
