"""Tiers: copies that are whole or not there, read from the fastest place that has them intact."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.checkpoints.format.manifest import manifest_key
from burst.core.checkpoints.tiers.reader import aligned
from burst.core.errors import NotFound
from burst.core.launch import Tier
from burst.core.model import Copy
from burst.core.testing.faults import FaultyBlobs, How, Plan, dying
from tests.core.blobs.mock_s3 import BUCKET, mock_s3
from tests.core.checkpoints.tiers.tier_lab import (
    TierLab,
    content,
    is_whole,
    keys_of,
    restore,
    spread_under,
    stored,
)

_prefixes = itertools.count()
Place = Callable[[str], str]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an S3 of our own, with one bucket."""
    with mock_s3() as url:
        yield url


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """The URL of a fresh place of a kind: `local`, `shared` or `s3`."""

    def make(kind: str) -> str:
        if kind == "s3":
            server = request.getfixturevalue("server")
            return f"s3://{BUCKET}/{next(_prefixes)}?endpoint_url={server}"
        return f"file://{tmp_path}/{kind}"

    return make


@pytest.fixture
def two(place: Place) -> list[Tier]:
    return [Tier(url=place("local"), shared=False), Tier(url=place("shared"))]


# --- combinations of places ----------------------------------------------------------------------

COMBINATIONS = [
    ("shared",),
    ("s3",),
    ("local", "shared"),
    ("local", "s3"),
    ("shared", "s3"),
    ("local", "shared", "s3"),
]


def tiers_of(kinds: tuple[str, ...], place: Place) -> list[Tier]:
    return [Tier(url=place(kind), shared=kind != "local") for kind in kinds]


@pytest.mark.parametrize("kinds", COMBINATIONS, ids="-".join)
def test_every_tier_gets_the_whole_checkpoint_and_each_alone_restores_it(
    kinds: tuple[str, ...], place: Place, lab: TierLab
) -> None:
    given = tiers_of(kinds, place)
    manifest = lab.save(lab.tiers(given), 10)
    record = lab.record(manifest)
    assert [copy.url for copy in record.copies] == [tier.url for tier in given]
    assert [copy.node for copy in record.copies] == [
        "" if tier.shared else "node-1" for tier in given
    ]
    assert record.durable
    for tier in given:
        assert stored(tier.url) == keys_of(manifest)
        assert is_whole(lab, restore(lab.tiers([tier]), record), manifest)
    assert lab.said == []


@pytest.mark.parametrize("kinds", COMBINATIONS, ids="-".join)
def test_another_node_reads_what_outlives_the_first(
    kinds: tuple[str, ...], place: Place, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(kinds, place)
    manifest = lab.save(lab.tiers(given), 10)
    there = [
        tier.model_copy(update={"url": f"file://{tmp_path}/other-disk"})
        if not tier.shared
        else tier
        for tier in given
    ]
    other = lab.tiers(there, node="node-2")
    assert is_whole(lab, restore(other, lab.record(manifest)), manifest)
    if not there[0].shared:
        assert stored(there[0].url) == keys_of(manifest) - {
            manifest_key(manifest.trial, manifest.id)
        }


@pytest.mark.parametrize("kinds", COMBINATIONS[2:], ids="-".join)
def test_spreading_again_sends_nothing(kinds: tuple[str, ...], place: Place, lab: TierLab) -> None:
    given = tiers_of(kinds, place)
    manifest = lab.save(lab.tiers(given), 10)
    plan = Plan()
    again = lab.tiers(given, opener=lambda url: FaultyBlobs(open_blobs(url), plan))
    copy = again.spread(manifest, given[-1])
    assert copy == Copy(url=given[-1].url, at=lab.clock.now())
    assert [step for step in plan.steps if "put" in step] == []


def test_the_source_reads_like_blobs(two: list[Tier], lab: TierLab) -> None:
    tiers = lab.tiers(two)
    manifest = lab.save(tiers, 1)
    source = tiers.source(tiers.find(lab.record(manifest)))
    entry = manifest.tensors[0]
    assert source.get(entry.key) == content("a")
    whole = memoryview(aligned(entry.size))
    assert source.read_into(entry.key, whole) == entry.size
    assert whole[: entry.size] == content("a")
    part = memoryview(bytearray(100))
    assert source.read_into(entry.key, part) == entry.size
    assert part == content("a")[:100]
    info = source.info(entry.key)
    assert info is not None
    assert info.size == entry.size
    assert source.info("nothing") is None
    assert source.local_path(entry.key) is None
    assert source.url == two[-1].url
    with pytest.raises(NotFound, match="has no file"):
        source.get("nothing")


def test_a_killed_upload_goes_on_without_sending_finished_files_again(
    place: Place, lab: TierLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burst.core.checkpoints.tiers.copy._ROUND_BYTES", 12_000)
    given = tiers_of(("local", "s3"), place)
    names = [f"layer{n}" for n in range(8)]
    manifest = lab.save(lab.tiers(given[:1]), 10, names=names)
    sent: list[str] = []
    for at in (7, 13):
        plan = Plan(at, How.KILL)
        with dying():
            spread_under(lab, given, manifest, open_blobs(given[1].url), plan)
        assert plan.killed
        finished = {step.split()[1] for step in plan.steps if step.startswith("batch.put")}
        there = stored(given[1].url)
        assert manifest_key(manifest.trial, manifest.id) not in there
        assert len(finished & there) >= 2
        assert finished.isdisjoint(sent)
        sent += finished & there
    last = Plan()
    spread_under(lab, given, manifest, open_blobs(given[1].url), last)
    again = [step.split()[1] for step in last.steps if step.startswith("batch.put")]
    assert set(again).isdisjoint(sent)
    assert sorted([*again, *sent]) == sorted(entry.key for entry in manifest.files)
