"""Copies that stop anywhere and go on there, and readers of one node that share them."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.folder import FolderBlobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import Damaged, manifest_key
from burst.core.checkpoints.tiers.places import Elsewhere, Tiers
from burst.core.errors import BurstError, StoreError
from burst.core.launch import Tier
from burst.core.model import Checkpoint
from burst.core.testing.faults import FaultyBlobs, FaultyDisk, How, Plan, dying, plans
from tests.core.checkpoints.tiers.tier_lab import (
    TierLab,
    flipped,
    is_whole,
    keys_of,
    restore,
    spread_under,
    stored,
)

# --- interruptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", list(How))
def test_an_upload_that_ends_at_any_step_shows_all_or_nothing_and_goes_on(
    how: How, tmp_path: Path, lab: TierLab
) -> None:
    fast = Tier(url=f"file://{tmp_path}/fast", shared=False)
    numbers = itertools.count()
    manifest = lab.save(lab.tiers([fast]), 10, names=["a"])

    def place_of(number: int) -> list[Tier]:
        return [fast, Tier(url=f"file://{tmp_path}/slow{number}")]

    def attempt(plan: Plan, given: list[Tier]) -> None:
        folder = Path(given[1].url.removeprefix("file://"))
        spread_under(lab, given, manifest, FolderBlobs(folder, FaultyDisk(plan)), plan)

    tried = 0
    for plan in plans(lambda plan: attempt(plan, place_of(next(numbers))), how):
        given = place_of(next(numbers))
        try:
            with dying():
                attempt(plan, given)
        except BurstError:
            pass
        shown = manifest_key(manifest.trial, manifest.id) in stored(given[1].url)
        assert not shown or keys_of(manifest) <= stored(given[1].url)
        lab.tiers(given).spread(manifest, given[1])
        assert stored(given[1].url) == keys_of(manifest)
        assert is_whole(lab, restore(lab.tiers(given[1:]), lab.record(manifest)), manifest)
        tried += 1
    assert tried > 20


def test_a_tier_that_shows_less_than_was_written_gets_no_manifest(
    two: list[Tier], lab: TierLab
) -> None:
    manifest = lab.save(lab.tiers(two[:1]), 10)
    opened: list[str] = []

    class Forgetful(FolderBlobs):
        """A mount that has lost what was written once it is opened anew."""

        def list(self, prefix: str) -> Iterator[object]:  # type: ignore[override]
            return iter(())

    def opener(url: str) -> Blobs:
        opened.append(url)
        path = Path(url.removeprefix("file://"))
        return Forgetful(path) if opened.count(two[1].url) == 2 else FolderBlobs(path)

    with pytest.raises(StoreError, match="does not show"):
        lab.tiers(two, opener=opener).spread(manifest, two[1])
    assert manifest_key(manifest.trial, manifest.id) not in stored(two[1].url)


def test_a_reader_that_looked_before_sees_the_new_manifest_after(
    two: list[Tier], lab: TierLab, tmp_path: Path
) -> None:
    reader = lab.tiers([Tier(url=f"file://{tmp_path}/other", shared=False), two[1]], node="node-2")
    writer = lab.tiers(two)
    manifest = lab.save(writer, 10, spread=False)
    with pytest.raises(Elsewhere):
        reader.find(lab.record(manifest))
    writer.spread(manifest, two[1])
    assert reader.find(lab.record(manifest)) == manifest


def test_a_damaged_file_is_not_spread(two: list[Tier], lab: TierLab) -> None:
    manifest = lab.save(lab.tiers(two), 10, spread=False)
    flipped(open_blobs(two[0].url), manifest.tensors[2].key)
    with pytest.raises(Damaged, match="no copy"):
        lab.tiers(two).spread(manifest, two[1])
    assert manifest_key(manifest.trial, manifest.id) not in stored(two[1].url)


def test_a_file_that_an_earlier_checkpoint_has_brought_is_not_sent_again(
    two: list[Tier], lab: TierLab
) -> None:
    tiers = lab.tiers(two)
    first = lab.save(tiers, 10, names=["a", "b"])
    lent = {"a": first.tensors[0]}
    plan = Plan()
    watched = lab.tiers(two, opener=lambda url: FaultyBlobs(open_blobs(url), plan))
    second = lab.save(watched, 20, names=["a", "c"], lent=lent)
    sent = [step.split()[1] for step in plan.steps if step.startswith("batch.put")]
    assert set(sent) == {entry.key for entry in second.files} - {first.tensors[0].key}
    assert is_whole(lab, restore(lab.tiers(two[1:]), lab.record(second)), second)


def test_a_borrowed_file_comes_along_though_its_owner_stays_behind(
    two: list[Tier], lab: TierLab
) -> None:
    tiers = lab.tiers(two)
    first = lab.save(tiers, 10, names=["a"], spread=False)
    second = lab.save(tiers, 20, names=["a"], lent={"a": first.tensors[0]})
    assert stored(two[1].url) == keys_of(second)
    assert is_whole(lab, restore(lab.tiers(two[1:]), lab.record(second)), second)


# --- several readers of one node -----------------------------------------------------------------


def test_an_interrupted_fetch_goes_on_at_the_file(
    two: list[Tier], lab: TierLab, tmp_path: Path
) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    fresh = [Tier(url=f"file://{tmp_path}/new", shared=False), two[1]]
    plan = Plan()

    def opener(url: str) -> Blobs:
        return FaultyBlobs(open_blobs(url), plan) if url == two[1].url else open_blobs(url)

    first = lab.tiers(fresh, node="node-2", opener=opener)
    source = first.source(first.find(lab.record(manifest)))
    for entry in manifest.files[:2]:
        source.get(entry.key)
    assert is_whole(
        lab,
        restore(lab.tiers(fresh, node="node-2", opener=opener), lab.record(manifest)),
        manifest,
    )
    fetched = [step.split()[1] for step in plan.steps if step.startswith("read_into")]
    assert sorted(fetched) == sorted(entry.key for entry in manifest.files)


def test_threads_of_one_node_fetch_each_file_once(
    two: list[Tier], lab: TierLab, tmp_path: Path
) -> None:
    manifest = lab.save(lab.tiers(two), 10, names=[f"layer{n}" for n in range(20)])
    fresh = [Tier(url=f"file://{tmp_path}/new", shared=False), two[1]]
    plan = Plan()

    def opener(url: str) -> Blobs:
        return FaultyBlobs(open_blobs(url), plan) if url == two[1].url else open_blobs(url)

    ranks = [lab.tiers(fresh, node="node-2", opener=opener) for _ in range(4)]
    record = lab.record(manifest)
    whole: list[bool] = []

    def rank(tiers: Tiers) -> None:
        whole.append(is_whole(lab, restore(tiers, record), manifest))

    threads = [threading.Thread(target=rank, args=(tiers,)) for tiers in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert whole == [True] * 4
    fetched = [step.split()[1] for step in plan.steps if step.startswith("read_into")]
    assert sorted(fetched) == sorted(entry.key for entry in manifest.files)


def _fetch_all(tiers: list[Tier], record: Checkpoint, counted: str) -> None:
    lab = TierLab()

    class Counting(FolderBlobs):
        def read_into(self, key: str, buffer: memoryview) -> int:
            with open(counted, "a") as file:
                file.write(f"{key}\n")
            return super().read_into(key, buffer)

    def opener(url: str) -> Blobs:
        kind = FolderBlobs if url == tiers[0].url else Counting
        return kind(Path(url.removeprefix("file://")))

    found = lab.tiers(tiers, node="node-2", opener=opener)
    restore(found, record)


def test_processes_of_one_node_fetch_each_file_once(
    two: list[Tier], lab: TierLab, tmp_path: Path
) -> None:
    manifest = lab.save(lab.tiers(two), 10, names=[f"layer{n}" for n in range(20)])
    fresh = [Tier(url=f"file://{tmp_path}/new", shared=False), two[1]]
    counted = tmp_path / "counted"
    context = multiprocessing.get_context("fork")
    ranks = [
        context.Process(target=_fetch_all, args=(fresh, lab.record(manifest), str(counted)))
        for _ in range(2)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
        assert process.exitcode == 0
    assert sorted(counted.read_text().split()) == sorted(entry.key for entry in manifest.files)
