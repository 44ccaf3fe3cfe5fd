"""Tiers that lose, damage or withhold what they hold: what is read then, and what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.folder import FolderBlobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import Damaged, manifest_key
from burst.core.checkpoints.tiers.places import Elsewhere
from burst.core.errors import Unreachable
from burst.core.launch import Tier
from burst.core.length import Length
from burst.core.testing.examples import allocation
from burst.core.testing.faults import FaultyDisk, How, Plan
from tests.core.checkpoints.tiers.tier_lab import (
    TierLab,
    content,
    flipped,
    is_whole,
    removed,
    restore,
    stored,
    truncated,
)

# --- what is lost, damaged, silent ---------------------------------------------------------------


def test_what_lies_on_another_nodes_disk_alone_is_elsewhere_and_the_newest_durable_one_is_taken(
    two: list[Tier], lab: TierLab, tmp_path: Path
) -> None:
    first = lab.tiers(two)
    durable = lab.save(first, 10)
    lost = lab.save(first, 20, spread=False)
    fresh = [Tier(url=f"file://{tmp_path}/new-disk", shared=False), two[1]]
    tiers = lab.tiers(fresh, node="node-2")
    newest, next_one = tiers.candidates(lab.records())
    assert [newest.id, next_one.id] == [lost.id, durable.id]
    with pytest.raises(Elsewhere, match="another node's disk") as caught:
        tiers.find(newest)
    assert "node-1" in caught.value.why
    assert not isinstance(caught.value, Damaged)
    assert is_whole(lab, restore(tiers, next_one), durable)
    assert not lab.record(lost).damaged


def test_back_on_its_disk_the_checkpoint_is_there_again_whatever_the_node_is_called(
    two: list[Tier], lab: TierLab
) -> None:
    lost = lab.save(lab.tiers(two), 20, spread=False)
    renamed = lab.tiers(two, node="node-9")
    assert is_whole(lab, restore(renamed, lab.record(lost)), lost)


def test_what_a_later_attempt_has_left_behind_is_tried_last(two: list[Tier], lab: TierLab) -> None:
    tiers = lab.tiers(two)
    base = lab.save(tiers, 10)
    behind = lab.save(tiers, 20, spread=False)
    on = lab.save(tiers, 15, attempt=2)
    order = [record.id for record in tiers.candidates(lab.records())]
    assert order == [on.id, base.id, behind.id]


def test_what_an_attempt_without_a_checkpoint_has_left_behind_is_tried_last(
    two: list[Tier], lab: TierLab
) -> None:
    tiers = lab.tiers(two)
    base = lab.save(tiers, 10)
    behind = lab.save(tiers, 20, spread=False)
    second = allocation(attempt=2, restored_from=base.id, restored_batches=10)
    unsaid = allocation(attempt=3)
    records = lab.records()
    assert [r.id for r in tiers.candidates(records, [unsaid])] == [behind.id, base.id]
    assert [r.id for r in tiers.candidates(records, [second, unsaid])] == [base.id, behind.id]


def test_a_manifest_missing_on_this_nodes_own_disk_is_damage_if_nobody_else_has_it(
    two: list[Tier], lab: TierLab
) -> None:
    tiers = lab.tiers(two)
    manifest = lab.save(tiers, 10, spread=False)
    tiers.first.delete(manifest_key(manifest.trial, manifest.id))
    with pytest.raises(Damaged, match="intact"):
        tiers.find(lab.record(manifest))


@pytest.mark.parametrize("harm", [truncated, flipped, removed])
@pytest.mark.parametrize("which", ["file", "manifest"])
def test_harm_in_a_fast_tier_is_made_good_from_a_slower_one(
    harm: Callable[[Blobs, str], None], which: str, two: list[Tier], lab: TierLab
) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    record = lab.record(manifest)
    key = record.manifest if which == "manifest" else manifest.tensors[1].key
    fast = open_blobs(two[0].url)
    before = fast.get(key)
    harm(fast, key)
    assert is_whole(lab, restore(lab.tiers(two), record), manifest)
    if harm is not removed:
        assert fast.get(key) == before
        assert len(lab.said) == 1
        assert "written anew" in lab.said[0]
    elif which == "file":
        assert fast.get(key) == before
        assert lab.said == []


@pytest.mark.parametrize("harm", [truncated, flipped, removed])
def test_harm_in_a_shared_tier_that_should_hold_the_file_is_made_good(
    harm: Callable[[Blobs, str], None], lab: TierLab, tmp_path: Path
) -> None:
    given = [Tier(url=f"file://{tmp_path}/shared"), Tier(url=f"file://{tmp_path}/slow")]
    manifest = lab.save(lab.tiers(given), 10)
    fast = open_blobs(given[0].url)
    harm(fast, manifest.tensors[0].key)
    assert is_whole(lab, restore(lab.tiers(given), lab.record(manifest)), manifest)
    assert fast.get(manifest.tensors[0].key) == content("a")
    assert "written anew" in lab.said[0]


def test_a_shared_tier_that_never_held_the_checkpoint_is_not_filled_by_reading(
    lab: TierLab, tmp_path: Path
) -> None:
    given = [Tier(url=f"file://{tmp_path}/shared"), Tier(url=f"file://{tmp_path}/slow")]
    manifest = lab.save(lab.tiers(given[1:]), 10)
    assert is_whole(lab, restore(lab.tiers(given), lab.record(manifest)), manifest)
    assert stored(given[0].url) == set()


def test_a_reader_that_mends_nothing_leaves_damage_as_it_is(two: list[Tier], lab: TierLab) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    fast = open_blobs(two[0].url)
    flipped(fast, manifest.tensors[0].key)
    flipped(fast, lab.record(manifest).manifest)
    harmed = fast.get(manifest.tensors[0].key)
    assert is_whole(lab, restore(lab.tiers(two, mends=False), lab.record(manifest)), manifest)
    assert fast.get(manifest.tensors[0].key) == harmed


def test_harm_everywhere_is_damage_and_names_every_place(two: list[Tier], lab: TierLab) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    for tier in two:
        flipped(open_blobs(tier.url), manifest.tensors[0].key)
    tiers = lab.tiers(two)
    with pytest.raises(Damaged, match="no copy") as caught:
        restore(tiers, lab.record(manifest))
    assert all(tier.url in caught.value.why for tier in two)


def test_harm_here_is_elsewhere_while_another_node_has_the_file(
    two: list[Tier], lab: TierLab
) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    for tier in two:
        flipped(open_blobs(tier.url), manifest.tensors[0].key)
    with pytest.raises(Elsewhere, match="not on this node"):
        restore(lab.tiers(two, node="node-2"), lab.record(manifest))


class Silent:
    """Blobs that never answer."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*_: object) -> object:
            raise Unreachable(f"{self.url} does not answer")

        return call


def test_a_silent_tier_is_passed_by_while_another_has_the_file(
    lab: TierLab, tmp_path: Path
) -> None:
    given = [Tier(url=f"file://{tmp_path}/shared"), Tier(url=f"file://{tmp_path}/slow")]
    manifest = lab.save(lab.tiers(given), 10)

    def opener(url: str) -> Blobs:
        return Silent(url) if url == given[0].url else open_blobs(url)  # type: ignore[return-value]

    tiers = lab.tiers(given, opener=opener)
    assert is_whole(lab, restore(tiers, lab.record(manifest)), manifest)
    assert all("does not answer" in text for text in lab.said)


def test_silence_is_never_damage(lab: TierLab, tmp_path: Path) -> None:
    given = [Tier(url=f"file://{tmp_path}/fast"), Tier(url=f"file://{tmp_path}/shared")]
    manifest = lab.save(lab.tiers(given), 10)
    fast = open_blobs(given[0].url)
    removed(fast, manifest.tensors[0].key)

    def opener(url: str) -> Blobs:
        return Silent(url) if url == given[1].url else open_blobs(url)  # type: ignore[return-value]

    tiers = lab.tiers(given, opener=opener)
    with pytest.raises(Unreachable):
        restore(tiers, lab.record(manifest))
    removed(fast, lab.record(manifest).manifest)
    with pytest.raises(Unreachable):
        tiers.find(lab.record(manifest))


def test_a_share_that_is_not_mounted_is_no_damage(
    two: list[Tier], lab: TierLab, tmp_path: Path
) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    shared = Path(two[1].url.removeprefix("file://"))
    shared.rename(tmp_path / "unmounted")
    fresh = [Tier(url=f"file://{tmp_path}/new", shared=False), two[1]]
    with pytest.raises(Unreachable, match="is empty, though") as caught:
        lab.tiers(fresh).find(lab.record(manifest))
    assert "mounted" in caught.value.why
    assert is_whole(lab, restore(lab.tiers(two), lab.record(manifest)), manifest)
    shared.rmdir()
    (tmp_path / "unmounted").rename(shared)
    assert is_whole(lab, restore(lab.tiers(fresh), lab.record(manifest)), manifest)


def test_a_full_local_disk_does_not_keep_a_trial_from_restoring(
    two: list[Tier], lab: TierLab, tmp_path: Path
) -> None:
    manifest = lab.save(lab.tiers(two), 10)

    def opener(url: str) -> Blobs:
        if url == full[0].url:
            plan = Plan(1, How.FAIL, times=10**6)
            return FolderBlobs(tmp_path / "full", FaultyDisk(plan))
        return open_blobs(url)

    full = [Tier(url=f"file://{tmp_path}/full", shared=False), two[1]]
    tiers = lab.tiers(full, node="node-2", opener=opener)
    assert is_whole(lab, restore(tiers, lab.record(manifest)), manifest)
    assert any("is not given what it lacks" in text for text in lab.said)


def test_a_checkpoint_of_another_experiment_is_read_from_where_its_record_says(
    two: list[Tier], lab: TierLab, tmp_path: Path
) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    other = [Tier(url=f"file://{tmp_path}/own", shared=False), Tier(url=f"file://{tmp_path}/s")]
    tiers = lab.tiers(other, node="node-2")
    assert is_whole(lab, restore(tiers, lab.record(manifest)), manifest)
    assert stored(other[1].url) == set()
    another_rank = lab.tiers(other, node="node-2").source(manifest, lab.record(manifest))
    assert another_rank.get(manifest.tensors[0].key) == content("a")


def test_the_length_between_two_copies_goes_on_over_a_restore(
    two: list[Tier], lab: TierLab
) -> None:
    given = [two[0], two[1].model_copy(update={"every": Length.model_validate("10ba")})]
    restored = lab.save(lab.tiers(given), 10)
    tiers = lab.tiers(given)
    tiers.source(tiers.find(lab.record(restored)))
    assert tiers.due(lab.manifest(19)) == ()
    assert tiers.due(lab.manifest(20)) == (given[1],)
    assert tiers.due(lab.manifest(15), last=True) == (given[1],)
    assert tiers.due(lab.manifest(15, metrics={"loss": 1.0})) == (given[1],)
