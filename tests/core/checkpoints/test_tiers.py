"""Tiers: copies that are whole or not there, read from the fastest place that has them intact."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.folder import FolderBlobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.manifest import Damaged, Manifest, manifest_key
from burst.core.checkpoints.tier_reader import aligned
from burst.core.checkpoints.tiers import Elsewhere, Tiers
from burst.core.errors import BurstError, NotFound, StoreError, Unreachable
from burst.core.launch import Tier
from burst.core.length import Length
from burst.core.model import Checkpoint, Copy
from burst.core.testing.examples import allocation
from burst.core.testing.faults import FaultyBlobs, FaultyDisk, How, Plan, dying, plans
from tests.core.checkpoints.tier_lab import TierLab, content, keys_of, stored

BUCKET = "burst-tiers"
_prefixes = itertools.count()
Place = Callable[[str], str]


@pytest.fixture(autouse=True, scope="module")
def _no_fsync() -> Iterator[None]:
    """No test here takes the machine's power away, and a busy disk makes every fsync slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an S3 of our own, with one bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        moto.start()
        host, port = moto.get_host_and_port()
        url = f"http://{host}:{port}"
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield url
        moto.stop()


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
def lab() -> TierLab:
    return TierLab()


@pytest.fixture
def two(place: Place) -> list[Tier]:
    return [Tier(url=place("local"), shared=False), Tier(url=place("shared"))]


def restore(tiers: Tiers, record: Checkpoint) -> dict[str, bytes]:
    manifest = tiers.find(record)
    source = tiers.source(manifest)
    return {entry.sha256: bytes(source.fetch(entry)) for entry in manifest.files}


def is_whole(lab: TierLab, found: dict[str, bytes], manifest: Manifest) -> bool:
    import hashlib

    return set(found) == {entry.sha256 for entry in manifest.files} and all(
        hashlib.sha256(data).hexdigest() == digest for digest, data in found.items()
    )


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


def _truncated(blobs: Blobs, key: str) -> None:
    blobs.put(key, blobs.get(key)[:-1])


def _flipped(blobs: Blobs, key: str) -> None:
    data = bytearray(blobs.get(key))
    data[len(data) // 2] ^= 1
    blobs.put(key, data)


def _removed(blobs: Blobs, key: str) -> None:
    blobs.delete(key)


@pytest.mark.parametrize("harm", [_truncated, _flipped, _removed])
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
    if harm is not _removed:
        assert fast.get(key) == before
        assert len(lab.said) == 1
        assert "written anew" in lab.said[0]
    elif which == "file":
        assert fast.get(key) == before
        assert lab.said == []


@pytest.mark.parametrize("harm", [_truncated, _flipped, _removed])
def test_harm_in_a_shared_tier_that_should_hold_the_file_is_made_good(
    harm: Callable[[Blobs, str], None], place: Place, lab: TierLab, tmp_path: Path
) -> None:
    given = [Tier(url=place("shared")), Tier(url=f"file://{tmp_path}/slow")]
    manifest = lab.save(lab.tiers(given), 10)
    fast = open_blobs(given[0].url)
    harm(fast, manifest.tensors[0].key)
    assert is_whole(lab, restore(lab.tiers(given), lab.record(manifest)), manifest)
    assert fast.get(manifest.tensors[0].key) == content("a")
    assert "written anew" in lab.said[0]


def test_a_shared_tier_that_never_held_the_checkpoint_is_not_filled_by_reading(
    place: Place, lab: TierLab, tmp_path: Path
) -> None:
    given = [Tier(url=place("shared")), Tier(url=f"file://{tmp_path}/slow")]
    manifest = lab.save(lab.tiers(given[1:]), 10)
    assert is_whole(lab, restore(lab.tiers(given), lab.record(manifest)), manifest)
    assert stored(given[0].url) == set()


def test_a_reader_that_mends_nothing_leaves_damage_as_it_is(two: list[Tier], lab: TierLab) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    fast = open_blobs(two[0].url)
    _flipped(fast, manifest.tensors[0].key)
    _flipped(fast, lab.record(manifest).manifest)
    harmed = fast.get(manifest.tensors[0].key)
    assert is_whole(lab, restore(lab.tiers(two, mends=False), lab.record(manifest)), manifest)
    assert fast.get(manifest.tensors[0].key) == harmed


def test_harm_everywhere_is_damage_and_names_every_place(two: list[Tier], lab: TierLab) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    for tier in two:
        _flipped(open_blobs(tier.url), manifest.tensors[0].key)
    tiers = lab.tiers(two)
    with pytest.raises(Damaged, match="no copy") as caught:
        restore(tiers, lab.record(manifest))
    assert all(tier.url in caught.value.why for tier in two)


def test_harm_here_is_elsewhere_while_another_node_has_the_file(
    two: list[Tier], lab: TierLab
) -> None:
    manifest = lab.save(lab.tiers(two), 10)
    for tier in two:
        _flipped(open_blobs(tier.url), manifest.tensors[0].key)
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
    place: Place, lab: TierLab, tmp_path: Path
) -> None:
    given = [Tier(url=place("shared")), Tier(url=f"file://{tmp_path}/slow")]
    manifest = lab.save(lab.tiers(given), 10)

    def opener(url: str) -> Blobs:
        return Silent(url) if url == given[0].url else open_blobs(url)  # type: ignore[return-value]

    tiers = lab.tiers(given, opener=opener)
    assert is_whole(lab, restore(tiers, lab.record(manifest)), manifest)
    assert all("does not answer" in text for text in lab.said)


def test_silence_is_never_damage(place: Place, lab: TierLab, tmp_path: Path) -> None:
    given = [Tier(url=f"file://{tmp_path}/fast"), Tier(url=place("shared"))]
    manifest = lab.save(lab.tiers(given), 10)
    fast = open_blobs(given[0].url)
    _removed(fast, manifest.tensors[0].key)

    def opener(url: str) -> Blobs:
        return Silent(url) if url == given[1].url else open_blobs(url)  # type: ignore[return-value]

    tiers = lab.tiers(given, opener=opener)
    with pytest.raises(Unreachable):
        restore(tiers, lab.record(manifest))
    _removed(fast, lab.record(manifest).manifest)
    with pytest.raises(Unreachable):
        tiers.find(lab.record(manifest))


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


# --- interruptions -------------------------------------------------------------------------------


def _spread(
    lab: TierLab, given: list[Tier], manifest: Manifest, target: Blobs, plan: Plan
) -> None:
    def opener(url: str) -> Blobs:
        return FaultyBlobs(target if url == given[1].url else open_blobs(url), plan)

    lab.tiers(given, opener=opener).spread(manifest, given[1])


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
        _spread(lab, given, manifest, FolderBlobs(folder, FaultyDisk(plan)), plan)

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


def test_a_killed_upload_goes_on_without_sending_finished_files_again(
    place: Place, lab: TierLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burst.core.checkpoints.tier_copy._ROUND_BYTES", 12_000)
    given = tiers_of(("local", "s3"), place)
    names = [f"layer{n}" for n in range(8)]
    manifest = lab.save(lab.tiers(given[:1]), 10, names=names)
    sent: list[str] = []
    for at in (7, 13):
        plan = Plan(at, How.KILL)
        with dying():
            _spread(lab, given, manifest, open_blobs(given[1].url), plan)
        assert plan.killed
        finished = {step.split()[1] for step in plan.steps if step.startswith("batch.put")}
        there = stored(given[1].url)
        assert manifest_key(manifest.trial, manifest.id) not in there
        assert len(finished & there) >= 2
        assert finished.isdisjoint(sent)
        sent += finished & there
    last = Plan()
    _spread(lab, given, manifest, open_blobs(given[1].url), last)
    again = [step.split()[1] for step in last.steps if step.startswith("batch.put")]
    assert set(again).isdisjoint(sent)
    assert sorted([*again, *sent]) == sorted(entry.key for entry in manifest.files)


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
    _flipped(open_blobs(two[0].url), manifest.tensors[2].key)
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
