"""One file that is not what was written, and all the checkpoints that name it."""

from __future__ import annotations

from typing import cast

import pytest

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import FileEntry
from burst.core.checkpoints.removal.damage import harmed_by, mark_damaged, mark_harmed
from burst.core.checkpoints.removal.lend import known_files
from burst.core.errors import Fenced, NotFound
from burst.core.model import Checkpoint
from burst.core.store.port import Fence
from tests.core.checkpoints.interleaving import FAMILY, World

FROZEN = b"frozen weights"


@pytest.fixture
def world() -> World:
    """Two trials that name one file, and each others of its own."""
    made = World()
    for trial in (made.add_trial(), made.add_trial()):
        for number in (b"1", b"2"):
            made.saver(trial, [trial.encode() + number, FROZEN]).run()
    return made


def frozen(world: World) -> FileEntry:
    manifest = world.manifests[world.records()[0].id]
    return manifest.tensors[0]


def slow(world: World) -> Blobs:
    return cast(Blobs, world.slow)


@pytest.mark.parametrize("how", ["rotten", "short", "missing"])
def test_a_damaged_file_harms_all_that_name_it_in_whatever_trial(world: World, how: str) -> None:
    entry = frozen(world)
    assert harmed_by(slow(world), world.store, entry) == []
    if how == "missing":
        world.slow.delete(entry.key)
    else:
        world.slow.put(entry.key, b"frozen weighty"[: 14 if how == "rotten" else 9])
    harmed = {record.id for record in harmed_by(slow(world), world.store, entry)}
    assert harmed == {record.id for record in world.records()}
    marked = mark_harmed(slow(world), world.store, entry, 5.0)
    assert len(marked) == 4
    assert all(entry.key in record.damaged for record in world.records())
    assert mark_harmed(slow(world), world.store, entry, 5.0) == []
    names = [event.name for event in world.store.events().events]
    assert names.count("checkpoint.damaged") == 4


def test_what_does_not_name_it_stays_good_and_is_not_lent_by_the_others(world: World) -> None:
    third = world.add_trial()
    world.saver(third, [b"3"], known={}).run()
    own = world.manifests[world.records()[1].id].shared
    world.slow.put(own.key, b"rotten")
    assert [each.id for each in mark_harmed(slow(world), world.store, own, 5.0)] == [
        world.records()[1].id
    ]
    found = known_files(slow(world), world.store, third, families=[FAMILY], worth=0)
    assert own.sha256 not in found
    assert frozen(world).sha256 in found


def test_a_file_that_another_tier_holds_whole_harms_none() -> None:
    world = World()
    trial = world.add_trial()
    world.saver(trial, [b"1", FROZEN], tiers=True).run()
    entry = frozen(world)
    world.fast.put(entry.key, b"rotten")
    fast = cast(Blobs, world.fast)
    assert mark_harmed(fast, world.store, entry, 5.0, tiers=[slow(world)]) == []
    world.slow.delete(entry.key)
    assert len(mark_harmed(fast, world.store, entry, 5.0, tiers=[slow(world)])) == 1


def test_one_that_borrows_while_the_others_are_marked_is_marked_too(world: World) -> None:
    entry = frozen(world)
    world.slow.put(entry.key, b"rotten")
    third = world.add_trial()
    saving = world.saver(third, [b"3", FROZEN])
    world.slow.kept[entry.key] = FROZEN  # it was whole when the save looked for it
    while not any(record.trial == third for record in world.records()):
        saving.step()
    world.slow.put(entry.key, b"rotten")
    assert len(mark_harmed(slow(world), world.store, entry, 5.0)) == 5


def test_marking_is_said_once_and_under_the_right_of_who_found_out(world: World) -> None:
    first = world.records()[0]
    with pytest.raises(Fenced):
        mark_damaged(world.store, first.id, "short file", 5.0, fence=Fence(first.trial, 0))
    fence = Fence(world.trials()[1].id, 1)
    assert mark_damaged(world.store, first.id, "short file", 5.0, fence=fence)
    assert not mark_damaged(world.store, first.id, "another", 6.0)
    assert world.store.get(Checkpoint, first.id).damaged == "short file"
    with pytest.raises(NotFound):
        mark_damaged(world.store, "ckpt-zzzzzzzzzzz", "short file", 5.0)
