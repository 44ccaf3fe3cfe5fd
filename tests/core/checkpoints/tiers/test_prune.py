"""Tiers hold no more than they may, and never lose what something needs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burst.core.blobs import open_blobs
from burst.core.blobs.folder import FolderBlobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import Manifest, manifest_key
from burst.core.checkpoints.removal.delete import delete, pin
from burst.core.checkpoints.tiers.places import Tiers
from burst.core.errors import BurstError, Fenced, Unreachable
from burst.core.launch import Tier
from burst.core.length import Length
from burst.core.model import Checkpoint, Trial
from burst.core.store import update
from burst.core.store.port import Fence
from burst.core.testing.faults import FaultyBlobs, FaultyDisk, How, Plan, dying, plans, stepwise
from tests.core.checkpoints.tiers.tier_lab import TierLab, keys_of, stored


def places(root: Path, *, local: int | None = None, shared: int | None = None) -> list[Tier]:
    return [
        Tier(url=f"file://{root}/local", shared=False, keep=local),
        Tier(url=f"file://{root}/shared", keep=shared),
        Tier(url=f"file://{root}/slow"),
    ]


def readable(tiers: Tiers, record: Checkpoint) -> bool:
    manifest = tiers.find(record)
    source = tiers.source(manifest)
    return all(len(source.fetch(entry)) == entry.size for entry in manifest.files)


def test_a_tier_holds_its_newest_and_the_others_stay_where_they_outlive_the_node(
    lab: TierLab, tmp_path: Path
) -> None:
    given = places(tmp_path, local=1, shared=2)
    tiers = lab.tiers(given)
    saved = [lab.save(tiers, batches) for batches in (10, 20, 30)]
    assert tiers.prune(lab.store, lab.fence) > 0
    assert stored(given[0].url) == keys_of(saved[2])
    assert stored(given[1].url) == keys_of(saved[1]) | keys_of(saved[2])
    assert stored(given[2].url) == set().union(*map(keys_of, saved))
    assert [[copy.url for copy in lab.record(m).copies] for m in saved] == [
        [given[2].url],
        [given[1].url, given[2].url],
        [tier.url for tier in given],
    ]
    assert tiers.prune(lab.store, lab.fence) == 0
    assert all(readable(lab.tiers(given), record) for record in lab.records())
    assert stored(given[0].url) > keys_of(saved[2])  # what was read from elsewhere
    lab.tiers(given).prune(lab.store, lab.fence)
    assert stored(given[0].url) == keys_of(saved[2])
    assert lab.said == []


def test_a_checkpoint_on_this_disk_alone_is_deleted_once_it_is_beyond_the_measure(
    lab: TierLab, tmp_path: Path
) -> None:
    given = places(tmp_path, local=2)
    tiers = lab.tiers(given)
    durable = lab.save(tiers, 10)
    alone = [lab.save(tiers, batches, spread=False) for batches in (20, 30, 40)]
    tiers.prune(lab.store, lab.fence)
    assert lab.record(alone[0]).deleted is not None
    assert stored(given[0].url) == keys_of(alone[1]) | keys_of(alone[2])
    assert lab.record(durable).deleted is None
    assert stored(given[2].url) == keys_of(durable)


def test_what_is_pinned_or_may_be_the_best_stays_on_the_disk_that_alone_has_it(
    lab: TierLab, tmp_path: Path
) -> None:
    tiers = lab.tiers(places(tmp_path, local=1))
    pinned = lab.save(tiers, 10, spread=False)
    pin(lab.store, pinned.id)
    best = lab.save(tiers, 20, spread=False, metrics={"loss": 0.1})
    plain = lab.save(tiers, 30, spread=False)
    newest = lab.save(tiers, 40, spread=False)
    tiers.prune(lab.store, lab.fence)
    deleted = [record.id for record in lab.records() if record.deleted is not None]
    assert deleted == [plain.id]
    assert stored(tiers.first.url) == keys_of(pinned) | keys_of(best) | keys_of(newest)


def test_files_that_a_checkpoint_which_stays_has_borrowed_stay(
    lab: TierLab, tmp_path: Path
) -> None:
    tiers = lab.tiers(places(tmp_path, local=1))
    first = lab.save(tiers, 10, names=["a", "b"])
    second = lab.save(tiers, 20, names=["a", "c"], lent={"a": first.tensors[0]})
    tiers.prune(lab.store, lab.fence)
    assert stored(tiers.first.url) == keys_of(second)
    assert first.tensors[0].key in stored(tiers.first.url)


def test_files_lent_to_another_trial_stay(lab: TierLab, tmp_path: Path) -> None:
    given = places(tmp_path, local=1)
    tiers = lab.tiers(given)
    lender = lab.save(tiers, 10, names=["a", "b"])
    other = lab.add_trial(1)
    update(
        lab.store,
        Checkpoint,
        lender.id,
        lambda found: found.model_copy(update={"lent_to": (other,)}),
    )
    borrower = lab.save(tiers, 5, names=["a"], lent={"a": lender.tensors[0]}, trial=other)
    lab.save(tiers, 20)
    tiers.prune(lab.store, lab.fence)
    assert manifest_key(lab.trial, lender.id) not in stored(given[0].url)
    assert keys_of(borrower) <= stored(given[0].url)
    assert lender.tensors[1].key not in stored(given[0].url)


def test_what_is_deleted_leaves_this_nodes_disk_at_the_next_turn(
    lab: TierLab, tmp_path: Path
) -> None:
    given = places(tmp_path)
    tiers = lab.tiers(given)
    first, second = (lab.save(tiers, batches) for batches in (10, 20))
    elsewhere = open_blobs(f"file://{tmp_path}/blobs-of-the-runner")
    delete(elsewhere, lab.store, lab.record(first), clock=lab.clock)
    assert keys_of(first) <= stored(given[0].url)
    tiers.prune(lab.store, lab.fence)
    assert stored(given[0].url) == keys_of(second)


def test_a_save_and_a_copy_under_way_are_left_alone(lab: TierLab, tmp_path: Path) -> None:
    given = places(tmp_path, local=1, shared=1)
    tiers = lab.tiers(given)
    for batches in (10, 20):
        lab.save(tiers, batches)
    coming = lab.manifest(30)
    for entry in coming.files[:2]:
        tiers.first.put(entry.key, b"x" * entry.size)
    halfway = lab.save(tiers, 40, spread=False)
    shared = open_blobs(given[1].url)
    shared.put(halfway.tensors[0].key, tiers.first.get(halfway.tensors[0].key))
    tiers.prune(lab.store, lab.fence)
    assert {entry.key for entry in coming.files[:2]} <= stored(given[0].url)
    assert halfway.tensors[0].key in stored(given[1].url)


def test_an_older_token_drops_nothing(lab: TierLab, tmp_path: Path) -> None:
    given = places(tmp_path, local=1)
    tiers = lab.tiers(given)
    for batches in (10, 20):
        lab.save(tiers, batches)
    before = stored(given[0].url)
    update(lab.store, Trial, lab.trial, lambda t: t.model_copy(update={"token": 2}))
    with pytest.raises(Fenced):
        tiers.prune(lab.store, Fence(lab.trial, 1))
    assert stored(given[0].url) == before


def test_a_silent_tier_is_told_about_and_the_others_are_tidied(
    lab: TierLab, tmp_path: Path
) -> None:
    given = places(tmp_path, local=1, shared=1)
    for batches in (10, 20):
        newest = lab.save(lab.tiers(given), batches)

    def opener(url: str) -> Blobs:
        if url == given[0].url:
            raise Unreachable("the disk is gone")
        return open_blobs(url)

    lab.tiers(given, opener=opener).prune(lab.store, lab.fence)
    assert stored(given[1].url) == keys_of(newest)
    assert lab.said == [f"{given[0].url} was not tidied: the disk is gone"]


@pytest.mark.parametrize("how", list(How))
def test_interrupted_anywhere_nothing_needed_is_lost_and_the_next_turn_ends_it(
    how: How, tmp_path: Path
) -> None:
    turn = 0

    def prepared() -> tuple[TierLab, list[Tier], list[Manifest]]:
        nonlocal turn
        turn += 1
        lab = TierLab()
        given = places(tmp_path / str(turn), local=1, shared=1)
        tiers = lab.tiers(given)
        first = lab.save(tiers, 10, names=["a", "b"])
        alone = lab.save(tiers, 20, names=[], spread=False)
        last = lab.save(tiers, 30, names=["a"], lent={"a": first.tensors[0]})
        return lab, given, [first, alone, last]

    def act(plan: Plan, lab: TierLab, given: list[Tier]) -> None:
        def opener(url: str) -> Blobs:
            path = Path(url.removeprefix("file://"))
            return FaultyBlobs(FolderBlobs(path, FaultyDisk(plan)), plan)

        lab.tiers(given, opener=opener).prune(stepwise(lab.store, plan, "commit"), lab.fence)

    tried = 0
    for plan in plans(lambda plan: act(plan, *prepared()[:2]), how):
        lab, given, (first, alone, last) = prepared()
        try:
            with dying():
                act(plan, lab, given)
        except BurstError:
            pass
        for manifest in (first, last):
            record = lab.record(manifest)
            assert record.durable
            for copy in record.copies:  # it claims nothing that is gone
                assert keys_of(manifest) <= stored(copy.url), plan.wrong
            assert readable(lab.tiers(given), record)
        lab.tiers(given).prune(lab.store, lab.fence)
        assert lab.record(alone).deleted is not None
        assert stored(given[0].url) == keys_of(last)
        assert stored(given[1].url) == keys_of(last)
        assert stored(given[2].url) == keys_of(first) | keys_of(last)
        tried += 1
    assert tried > 15


# --- any life of a trial -------------------------------------------------------------------------

STEP: st.SearchStrategy[tuple[str, int, Collection[str]]] = st.one_of(
    st.tuples(st.just("save"), st.integers(1, 30), st.sets(st.sampled_from("abcdef"), min_size=1)),
    st.tuples(st.just("prune"), st.just(0), st.just(frozenset())),
    st.tuples(st.just("lose"), st.just(0), st.just(frozenset())),
    st.tuples(st.just("delete"), st.integers(0, 5), st.just(frozenset())),
    st.tuples(st.just("pin"), st.integers(0, 5), st.just(frozenset())),
)


@settings(max_examples=40)
@given(
    st.lists(STEP, max_size=14),
    st.integers(1, 3) | st.none(),
    st.integers(1, 3) | st.none(),
    st.integers(1, 25),
)
def test_in_any_life_of_a_trial_what_its_records_promise_can_be_read(
    tmp_path_factory: pytest.TempPathFactory,
    life: list[tuple[str, int, Collection[str]]],
    local: int | None,
    shared: int | None,
    every: int,
) -> None:
    root = tmp_path_factory.mktemp("life")
    lab = TierLab()
    node, attempt, at = 1, 1, 0

    def tiers() -> Tiers:
        given = places(root, local=local, shared=shared)
        given[0] = given[0].model_copy(update={"url": f"file://{root}/local{node}"})
        given[2] = given[2].model_copy(update={"every": Length.model_validate(f"{every}ba")})
        return lab.tiers(given, node=f"node-{node}")

    now = tiers()
    parent: Manifest | None = None
    for kind, number, names in life:
        if kind == "save":
            at += number
            there = {e.sha256: e for e in parent.files} if parent else {}
            lent = {
                name: there[digest]
                for name in ("shared", "own", *sorted(names))
                if (digest := lab.entry("x", name).sha256) in there
            }
            parent = lab.save(now, at, names=sorted(names), lent=lent, attempt=attempt)
        elif kind == "prune":
            now.prune(lab.store, lab.fence)
        elif kind == "lose":
            node, attempt, parent, at = node + 1, attempt + 1, None, 0
            now = tiers()
            candidates = [record for record in now.candidates(lab.records()) if record.durable]
            if candidates:
                parent = now.find(candidates[0])
                at = parent.done.batches
        elif records := [record for record in lab.records() if record.deleted is None]:
            record = records[number % len(records)]
            try:
                if kind == "delete":
                    delete(now.first, lab.store, record, tiers=[now.first], clock=lab.clock)
                else:
                    pin(lab.store, record.id)
            except BurstError:
                continue
        _promises_are_kept(lab, now, node)
    now.prune(lab.store, lab.fence)
    _promises_are_kept(lab, now, node)


def _promises_are_kept(lab: TierLab, now: Tiers, node: int) -> None:
    lab.said.clear()
    for record in now.candidates(lab.records()):
        here = any(copy.durable or copy.node == f"node-{node}" for copy in record.copies)
        assert not here or readable(now, record)
        for copy in record.copies:
            if copy.durable:
                assert keys_of(now.find(record)) <= stored(copy.url)
    assert lab.said == []
