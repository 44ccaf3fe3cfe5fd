"""`burst checkpoint delete` over several places, and what is said of it then and later."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from burst.core.blobs.folder import FolderBlobs
from burst.core.checkpoints.tiers.own_disk import local_folder, note_local_folders
from burst.core.clock import ManualClock
from burst.core.errors import BurstError, Refused, Unauthorized, Unreachable
from burst.core.launch import Tier
from burst.core.store.port import Put
from burst.core.testing.examples import experiment, node
from burst.runner.agent.hardware.machine import host_name
from tests.cli.conftest import Burst
from tests.core.checkpoints.tiers.tier_lab import TierLab, keys_of, stored


@pytest.fixture
def given(burst: Burst, tmp_path: Path) -> list[Tier]:
    """The disk of this machine, which its agent has noted, and a share."""
    places = [
        Tier(url=f"file://{tmp_path}/nvme", shared=False),
        Tier(url=f"file://{tmp_path}/share"),
    ]
    note_local_folders(burst.session.home, places)
    return places


@pytest.fixture
def lab(burst: Burst) -> TierLab:
    assert isinstance(burst.session.clock, ManualClock)
    made = TierLab(clock=burst.session.clock, store=burst.store)
    burst.store.commit(Put(node(id="node-1", host=host_name())))
    return made


def test_deleting_removes_from_every_place_that_this_machine_reaches(
    burst: Burst, lab: TierLab, given: list[Tier]
) -> None:
    first, last = [lab.save(lab.tiers(given), batches) for batches in (10, 20)]
    said = burst("checkpoint", "delete", "-y", first.id).stderr
    assert "is deleted: 53 kB freed." in said
    assert "go when" not in said
    assert [stored(tier.url) for tier in given] == [keys_of(last), keys_of(last)]


def test_what_lies_on_another_machine_is_named_and_left_to_its_agent(
    burst: Burst, lab: TierLab, given: list[Tier], tmp_path: Path
) -> None:
    lab.store.commit(Put(node(id="node-00000000002", host="gpu-7")))
    first = lab.save(lab.tiers(given, node="node-00000000002"), 10)
    there = stored(given[0].url)
    lab.save(lab.tiers(given[1:]), 20)
    Path(given[0].url.removeprefix("file://")).rename(tmp_path / "another machine's")
    said = burst("checkpoint", "delete", "-y", first.id).stderr
    assert "27 kB freed" in said
    assert stored(f"file://{tmp_path}/another machine's") == there
    assert "Up to 25 kB on the disk of gpu-7 (node-00000000002) go when its agent starts" in said


def test_a_second_time_it_says_since_when_and_who_asked(
    burst: Burst, lab: TierLab, given: list[Tier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    first, _ = [lab.save(lab.tiers(given), batches) for batches in (10, 20)]
    burst("checkpoint", "delete", "-y", first.id)
    lab.clock.advance(120)
    said = burst("checkpoint", "delete", first.id).stderr  # it does not ask again
    assert "was deleted already" in said
    assert "2m ago; ada asked for it): nothing was left here" in said
    assert "ada asked for it" in burst("checkpoint", "verify", first.id, status=4).stderr
    shown = burst("checkpoint", "show", first.id).stdout
    assert "ada asked for it" in shown
    assert "lies in" not in shown
    assert "retention" not in shown
    reason = burst.json("checkpoint", "show", first.id)["deleted_because"]
    assert reason == {"code": "requested", "text": "ada asked for it"}
    assert "deleted (requested)" in shown


@pytest.mark.parametrize("kind", [Unauthorized, Unreachable, Refused])
def test_where_a_place_cannot_be_used_it_says_what_counts_and_what_finishes_it(
    burst: Burst,
    lab: TierLab,
    given: list[Tier],
    monkeypatch: pytest.MonkeyPatch,
    kind: type[BurstError],
) -> None:
    first, last = [lab.save(lab.tiers(given), batches) for batches in (10, 20)]
    remove = FolderBlobs.delete

    def refuses(blobs: FolderBlobs, key: str) -> None:
        if blobs.url == given[1].url:
            raise kind("the share does not let us in", why="read-only", mend="log in")
        remove(blobs, key)

    monkeypatch.setattr(FolderBlobs, "delete", refuses)
    for _ in range(2):
        said = burst("checkpoint", "delete", "-y", first.id, status=kind.exit_code).stderr
        assert f"{first.id} counts as deleted, but its bytes remain" in said
        assert "the share does not let us in" in said
        assert "log in" in said
        assert f"`burst checkpoint delete {first.id}`" in said
    monkeypatch.undo()
    assert "was deleted already" in burst("checkpoint", "delete", first.id).stderr
    assert stored(given[1].url) == keys_of(last)


def test_what_is_needed_is_refused_in_its_own_words(
    burst: Burst, lab: TierLab, given: list[Tier]
) -> None:
    first = lab.save(lab.tiers(given), 10)
    burst("checkpoint", "pin", first.id)
    said = burst("checkpoint", "delete", "-y", first.id, status=5).stderr
    assert "is pinned" in said
    assert "counts as deleted" not in said


def test_no_folder_is_made_where_none_is(burst: Burst, lab: TierLab, given: list[Tier]) -> None:
    first, _ = [lab.save(lab.tiers(given[1:]), batches) for batches in (10, 20)]
    burst("checkpoint", "delete", "-y", first.id)
    assert not Path(given[0].url.removeprefix("file://")).exists()
    assert not local_folder(burst.session.home).exists()


def test_an_emptied_place_is_given_up_after_a_question(
    burst: Burst, lab: TierLab, given: list[Tier]
) -> None:
    share = Path(given[1].url.removeprefix("file://"))
    lab.store.commit(Put(experiment(id=lab.experiment)))
    first = lab.save(lab.tiers(given[1:]), 10)
    second = lab.save(lab.tiers(given), 20)
    assert "is not empty" in burst("checkpoint", "lost", given[1].url, "-y", status=5).stderr
    shutil.rmtree(share)
    share.mkdir()
    asked = burst("checkpoint", "lost", given[1].url, status=130)
    assert "mount it instead" in asked.stderr
    assert lab.record(first).damaged == ""
    said = burst("checkpoint", "lost", f"{given[1].url}/", "-y").stderr
    assert "2 checkpoints of 1 trial given up: 1 lay nowhere else." in said
    assert lab.record(first).damaged != ""
    assert lab.record(second).damaged == ""
    assert "No checkpoint" in burst("checkpoint", "lost", given[1].url, "-y").stderr
