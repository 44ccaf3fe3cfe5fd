"""Where a save finds files that it need not write, and on what terms it may name them."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import trial_folder
from burst.core.checkpoints.removal.collect import Library, Reach
from burst.core.checkpoints.removal.evict import evict
from burst.core.checkpoints.removal.lend import (
    SIBLINGS,
    Known,
    Terms,
    family_of,
    held_at,
    join,
    known_files,
    still_lent,
    terms,
)
from burst.core.errors import Fenced
from burst.core.model import Checkpoint, Copy, Family
from burst.core.store import update
from burst.core.store.port import Fence, Store
from tests.core.checkpoints.interleaving import FAMILY, NODE, Blobbery, Process, World

FROZEN = b"frozen weights"


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def look(world: World, trial: str, **more: Any) -> dict[str, Known]:
    given: dict[str, Any] = {"families": [FAMILY], "worth": 0, **more}
    return known_files(cast(Blobs, world.slow), world.store, trial, **given)


def test_its_own_newest_checkpoint_comes_before_those_of_others() -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()
    for trial in (first, second):
        world.saver(trial, [trial.encode(), FROZEN], known={}).run()
    of_first, of_second = world.records()
    found = look(world, second)
    assert found[digest(FROZEN)].lender == of_second.id
    assert found[digest(first.encode())].lender == of_first.id
    assert terms(found.values(), second) == terms(list(found.values())[::-1], second)
    assert terms(found.values(), second).lenders == {of_first.id, of_second.id}
    assert terms(found.values(), second).owners == {of_first.id}


def test_a_file_in_a_deleted_checkpoints_folder_is_found_through_who_still_names_it() -> None:
    world = World()
    first, second, third = (world.add_trial() for _ in range(3))
    world.saver(first, [b"1", FROZEN]).run()
    world.saver(first, [b"2", FROZEN]).run()
    world.remover(world.records()[0]).run()
    owner, lender = world.records()
    on = terms(look(world, second).values(), second)
    assert on == Terms(frozenset({lender.id}), frozenset({owner.id, lender.id}))
    world.saver(second, [b"3", FROZEN]).run()
    world.saver(third, [b"4", FROZEN]).run()
    assert world.store.get(Checkpoint, owner.id).lent_to == (second, third)
    assert world.missing() == []


def test_what_lies_in_a_trials_own_folders_costs_no_condition_on_its_owners() -> None:
    world = World()
    trial = world.add_trial()
    for number in (b"1", b"2", b"3"):
        world.saver(trial, [number, FROZEN]).run()
    assert [record.version for record in world.records()] == [2, 2, 1]
    on = terms(look(world, trial).values(), trial)
    assert on == Terms(frozenset({world.records()[2].id}), frozenset())


def test_the_source_of_a_warm_start_lends_without_a_family() -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()
    world.saver(first, [b"1", FROZEN]).run()
    source = world.records()[0].id
    assert look(world, second, families=[]) == {}
    assert look(world, second, families=[], source=source).keys() == {
        digest(b"1"),
        digest(FROZEN),
    }
    assert look(world, second, families=[], source="ckpt-zzzzzzzzzzz") == {}


def test_small_files_of_others_are_not_worth_it_and_its_own_always_are() -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()
    world.saver(first, [b"1", FROZEN]).run()
    assert look(world, second, worth=len(FROZEN)).keys() == {digest(FROZEN)}
    assert look(world, second, worth=len(FROZEN) + 1) == {}
    assert look(world, first, worth=10**9).keys() == {digest(b"1"), digest(FROZEN)}


def test_only_what_the_same_tier_holds_is_lent() -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()
    world.saver(first, [b"1", FROZEN], tiers=True).run()
    assert digest(FROZEN) in look(world, second)
    fast = cast(Blobs, world.fast)
    assert digest(FROZEN) in known_files(
        fast, world.store, second, families=[FAMILY], node=NODE, worth=0
    )
    elsewhere = known_files(fast, world.store, second, families=[FAMILY], node="node-2", worth=0)
    assert elsewhere == {}


def test_on_another_node_its_own_files_are_known_from_the_tier_that_outlives_nodes(
    tmp_path: Path,
) -> None:
    world = World()
    trial = world.add_trial()
    shared = open_blobs(f"file://{tmp_path / 'shared'}")
    world.slow = cast(Blobbery, shared)
    world.saver(trial, [b"1", FROZEN]).run()
    found = known_files(
        cast(Blobs, world.fast), world.store, trial, families=[FAMILY], node=NODE, worth=0
    )
    assert found.keys() == {digest(b"1"), digest(FROZEN)}


def test_a_checkpoint_without_copies_is_held_where_it_says() -> None:
    record = Checkpoint(
        id="ckpt-00000000001",
        trial="t",
        experiment="e",
        attempt=1,
        batches=1,
        created=0,
        url="file:///a",
        manifest="m",
        size=1,
    )
    assert held_at(record, "file:///a")
    assert not held_at(record, "file:///b")
    local = record.model_copy(update={"copies": (Copy(url="file:///b", at=0, node="n"),)})
    places = [("file:///b", "n"), ("file:///b", "m"), ("file:///a", "n")]
    assert [held_at(local, url, node) for url, node in places] == [True, False, False]


@pytest.mark.parametrize("what", ["deleted", "damaged"])
def test_what_a_lender_has_lost_the_right_to_is_forgotten(what: str) -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()
    world.saver(first, [b"1", FROZEN]).run()
    world.saver(first, [b"2"]).run()
    known = look(world, second)
    assert still_lent(world.store, known) == known
    gone = {"deleted": 5.0} if what == "deleted" else {"damaged": "for a test"}
    update(world.store, Checkpoint, world.records()[0].id, lambda r: r.model_copy(update=gone))
    assert still_lent(world.store, known).keys() == {digest(b"2")}
    assert look(world, second).keys() == {digest(b"2")}


def test_a_manifest_that_is_damaged_lends_nothing_and_hinders_nothing() -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()
    world.saver(first, [b"1", FROZEN]).run()
    world.saver(first, [b"2"]).run()
    world.slow.put(world.records()[0].manifest, b"{}")
    assert look(world, second).keys() == {digest(b"2")}


def test_a_family_remembers_the_last_that_joined_and_each_once() -> None:
    world = World()
    trials = [world.add_trial() for _ in range(SIBLINGS + 2)]
    for trial in [*trials, trials[-1]]:
        join(world.store, Fence(trial, 1), [FAMILY])
    assert world.store.get(Family, FAMILY).trials == tuple(trials[2:])
    with pytest.raises(Fenced):
        join(world.store, Fence(trials[0], 0), [FAMILY])


def test_joining_in_the_same_moment_as_another_does_no_harm() -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()

    def script(process: Process) -> None:
        join(process.through(world.store), Fence(first, 1), [FAMILY, "family-other"])

    process = Process(script)
    process.step(1)
    join(world.store, Fence(second, 1), [FAMILY])
    process.run()
    assert process.error is None
    assert world.store.get(Family, FAMILY).trials == (second,)
    assert world.store.get(Family, "family-other").trials == (first,)


def test_a_family_is_of_one_structure() -> None:
    one = [("w", "float32", (3, 4)), ("b", "float32", (4,))]
    assert family_of(one) == family_of([(name, dtype, list(shape)) for name, dtype, shape in one])
    others = [
        one[:1],
        one[::-1],
        [("w", "float16", (3, 4)), one[1]],
        [("w", "float32", (4, 3)), one[1]],
    ]
    assert len({family_of(each) for each in (one, *others)}) == 5


class _Counting:
    def __init__(self, target: object) -> None:
        self._target = target
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        self.calls.append(name)
        return value


def test_looking_costs_a_few_reads_however_much_there_is() -> None:
    world = World()
    trials = [world.add_trial() for _ in range(12)]
    for trial in trials:
        for number in range(9):
            world.saver(trial, [b"%s %d" % (trial.encode(), number), FROZEN]).run()
    store, blobs = _Counting(world.store), _Counting(world.slow)
    found = known_files(
        cast(Blobs, blobs), cast(Store, store), trials[0], families=[FAMILY], worth=0
    )
    assert len(found) > 10
    assert len(store.calls) <= 1 + 1 + SIBLINGS
    assert len(blobs.calls) <= 17


def test_what_many_lend_is_taken_from_as_few_as_a_commit_can_name() -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()
    contents: list[bytes] = []
    for number in range(60):  # each checkpoint adds a file and names those of all before
        contents.append(b"layer %d" % number)
        world.saver(first, contents).run()
    found = look(world, second)
    assert len({found[d].entry.key.split("/")[2] for d in found}) == 40
    process = world.saver(second, contents).run()
    assert process.error is None
    assert len(world.records()) == 61
    assert world.missing() == []


# --- one of several tiers ----------------------------------------------------------------------


def evicted(world: World, trial: str, *leaving: str) -> int:
    return evicted_from(world, world.fast, trial, leaving, NODE)


def evicted_from(
    world: World, place: Blobbery, trial: str, leaving: Collection[str], node: str = ""
) -> int:
    fast, slow = cast(Blobs, world.fast), cast(Blobs, world.slow)
    library = Library(Reach([fast, slow]), world.store)
    space = cast(Blobs, place)
    found = list(space.list(trial_folder(trial)))
    return evict(space, library, Fence(trial, 1), leaving, found=found, node=node)


def test_a_tier_lets_go_of_what_it_no_longer_holds_and_of_nothing_else() -> None:
    world = World()
    trial = world.add_trial()
    for number in (b"1", b"2", b"3"):
        world.saver(trial, [number, FROZEN], tiers=True).run()
    first, second, _ = world.records()
    slow = dict(world.slow.kept)
    assert evicted(world, trial, first.id, second.id) > 2
    assert [len(record.copies) for record in world.records()] == [1, 1, 2]
    assert sorted(world.fast.kept.values(), key=len)[:2] == [b"3", FROZEN]
    assert len(world.fast.kept) == 3
    assert world.slow.kept == slow
    assert world.missing() == []
    assert evicted(world, trial, first.id) == 0


def test_a_tier_keeps_the_only_copy_that_outlives_its_node() -> None:
    world = World()
    trial = world.add_trial()
    for number in (b"1", b"2"):
        world.saver(trial, [number, FROZEN]).run()
    leaving = [each.id for each in world.records()]
    assert evicted_from(world, world.slow, trial, leaving) == 0
    assert world.missing() == []


def test_a_tier_keeps_what_it_has_lent_to_another_trial() -> None:
    world = World()
    first, second = world.add_trial(), world.add_trial()
    for number in (b"1", b"2"):
        world.saver(first, [number, FROZEN, number * 9], tiers=True).run()
    world.saver(second, [b"3", FROZEN, b"1" * 9], tiers=True).run()
    before = world.records()[0]
    assert evicted(world, first, before.id) > 0
    assert world.missing() == []
    assert FROZEN in world.fast.kept.values()
    assert b"1" * 9 in world.fast.kept.values()
    assert b"1" not in world.fast.kept.values()
