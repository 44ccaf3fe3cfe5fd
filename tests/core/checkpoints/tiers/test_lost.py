"""An empty place may be a share that is not mounted; that it is lost is for a person to say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.checkpoints.format.manifest import Damaged
from burst.core.checkpoints.removal.lost import accept_loss, refuse_unless_empty, said_to_lie_in
from burst.core.errors import Refused, Unreachable
from burst.core.launch import Tier
from burst.core.store.port import Put
from burst.core.testing.examples import experiment
from tests.core.checkpoints.tiers.tier_lab import TierLab, stored


@pytest.fixture
def lab() -> TierLab:
    made = TierLab()
    made.store.commit(Put(experiment(id=made.experiment)))
    return made


def emptied(tier: Tier) -> None:
    folder = Path(tier.url.removeprefix("file://"))
    shutil.rmtree(folder)
    folder.mkdir()


def accept(lab: TierLab, url: str) -> list[str]:
    found = said_to_lie_in(lab.store, url)
    return [accept_loss(lab.store, each.id, url, lab.clock.now()).id for each in found]


def test_what_lay_in_other_places_too_is_read_from_there(lab: TierLab, two: list[Tier]) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    emptied(two[1])
    other_node = lab.tiers([Tier(url=f"{two[0].url}-2", shared=False), two[1]], "node-2")
    with pytest.raises(Unreachable, match="is empty") as caught:
        other_node.find(lab.record(manifest))
    assert f"burst checkpoint lost {two[1].url}" in caught.value.mend
    assert accept(lab, two[1].url) == [manifest.id]
    record = lab.record(manifest)
    assert (record.url, record.durable, record.damaged) == (two[0].url, False, "")
    assert lab.tiers(two).find(record) == manifest
    assert accept(lab, two[1].url) == []


def test_what_lay_nowhere_else_is_damaged_and_never_an_error_again(
    lab: TierLab, two: list[Tier]
) -> None:
    manifest = lab.save(lab.tiers(two[1:]), 10)
    emptied(two[1])
    accept(lab, two[1].url)
    assert "is empty" in lab.record(manifest).damaged
    assert lab.tiers(two).candidates(lab.records()) == []
    text = lab.store.events().events[-1].text
    assert text == f"checkpoint at batch 10 is lost: {two[1].url} is empty"


def test_a_place_with_anything_in_it_is_not_given_up(lab: TierLab, two: list[Tier]) -> None:
    lab.save(lab.tiers(two[1:]), 10)
    with pytest.raises(Refused, match="not empty"):
        refuse_unless_empty(open_blobs(two[1].url))
    emptied(two[1])
    refuse_unless_empty(open_blobs(two[1].url))


def test_other_places_and_what_is_deleted_are_left_alone(lab: TierLab, two: list[Tier]) -> None:
    elsewhere = lab.save(lab.tiers(two[:1]), 10)
    before = lab.record(elsewhere)
    assert accept(lab, two[1].url) == []
    assert accept(lab, two[0].url) == []  # a node's own disk is no such place
    assert lab.record(elsewhere) == before


def test_nothing_counts_as_durable_that_is_written_where_a_share_was_mounted_before(
    lab: TierLab, two: list[Tier]
) -> None:
    tiers = lab.tiers(two)
    lab.save(tiers, 10)
    emptied(two[1])
    manifest = lab.save(tiers, 20, spread=False)
    (tier,) = tiers.due(manifest)
    with pytest.raises(Unreachable, match="is empty, though an earlier checkpoint"):
        tiers.spread(manifest, tier)
    assert stored(two[1].url) == set()
    again = lab.tiers(two)  # the next attempt, once the loss is accepted
    accept(lab, two[1].url)
    again.source(again.find(lab.record(manifest)))
    assert again.spread(manifest, tier).durable


def test_a_folder_that_has_become_empty_by_itself_is_written_to_again(
    lab: TierLab, two: list[Tier]
) -> None:
    """As where its disk was full, and what it held was removed to make room."""
    tiers = lab.tiers(two)
    lab.save(tiers, 10)
    shared = Path(two[1].url.removeprefix("file://"))
    for path in shared.iterdir():
        shutil.rmtree(path)
    manifest = lab.save(tiers, 20, spread=False)
    assert tiers.spread(manifest, two[1]).durable


def test_a_restore_is_damaged_and_not_unreachable_once_the_loss_is_accepted(
    lab: TierLab, two: list[Tier]
) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    for tier in two:
        emptied(tier)
    with pytest.raises(Unreachable):
        lab.tiers(two).find(lab.record(manifest))
    accept(lab, two[1].url)
    with pytest.raises(Damaged):
        lab.tiers(two).find(lab.record(manifest))
