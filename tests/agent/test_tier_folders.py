"""What trials leave on a node's own disk does not stay for ever, and nothing needed goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.launch import Tier
from burst.core.model import Share, Trial
from burst.core.states import AllocationState, TrialState
from burst.core.store import update
from burst.core.store.port import Put
from burst.core.testing.examples import allocation, node
from burst.core.workspace import Workspace, open_workspace
from burst.runner.agent.machine import host_name
from burst.runner.agent.storage import local_folder, local_folders, note_local_folders
from burst.runner.agent.tier_folders import clear_tiers
from tests.core.checkpoints.tier_lab import TierLab, keys_of, stored


@pytest.fixture
def ws() -> Workspace:
    return open_workspace()


@pytest.fixture
def lab(ws: Workspace) -> TierLab:
    return TierLab(store=ws.store)


def tiers_of(ws: Workspace, tmp_path: Path) -> list[Tier]:
    return [
        Tier(url=f"file://{local_folder(ws.home)}", shared=False),
        Tier(url=f"file://{tmp_path}/shared"),
    ]


def put_state(lab: TierLab, state: TrialState) -> None:
    update(lab.store, Trial, lab.trial, lambda t: t.model_copy(update={"state": state}))


def run_on(lab: TierLab, host: str) -> None:
    """A live attempt of the trial on a machine."""
    put_state(lab, TrialState.RUNNING)
    there = node(id="node-00000000009", host=host)
    attempt = allocation(
        trial=lab.trial,
        experiment=lab.experiment,
        shares=(Share(node=there.id, slots=(0,)),),
        state=AllocationState.RUNNING,
    )
    lab.store.commit(Put(there), Put(attempt))


def test_a_trial_that_is_over_leaves_this_disk_and_nothing_else(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    manifest = lab.save(lab.tiers(given), 10)
    put_state(lab, TrialState.COMPLETED)
    assert clear_tiers(ws) > manifest.size
    assert stored(given[0].url) == set()
    assert stored(given[1].url) == keys_of(manifest)
    assert clear_tiers(ws) == 0


@pytest.mark.parametrize("state", [TrialState.PAUSED, TrialState.WAITING])
def test_a_trial_that_may_come_back_keeps_its_newest_here(
    state: TrialState, ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    manifest = lab.save(lab.tiers(given), 10)
    put_state(lab, state)
    assert clear_tiers(ws) == 0
    assert stored(given[0].url) == keys_of(manifest)


def test_a_trial_that_went_on_elsewhere_leaves_this_disk(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    lab.save(lab.tiers(given), 10)
    run_on(lab, "another-machine")
    assert clear_tiers(ws) == 0
    lab.save(lab.tiers(given[1:], node="node-2"), 20, attempt=2)
    assert clear_tiers(ws) > 0
    assert stored(given[0].url) == set()


def test_a_trial_that_runs_on_this_machine_is_left_alone(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    lab.save(lab.tiers(given), 10)
    newer = lab.save(lab.tiers(given[1:], node="node-2"), 20)
    run_on(lab, host_name())
    before = stored(given[0].url)
    assert clear_tiers(ws) == 0
    assert stored(given[0].url) == before
    assert lab.record(newer).durable


def test_the_only_copy_of_the_newest_stays_though_its_trial_is_over(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    lab.save(lab.tiers(given), 10)
    last = lab.save(lab.tiers(given), 20, spread=False)
    put_state(lab, TrialState.FAILED)
    assert clear_tiers(ws) == 0
    assert keys_of(last) <= stored(given[0].url)


def test_a_trial_of_another_store_is_left_alone(ws: Workspace, tmp_path: Path) -> None:
    other = TierLab()
    given = tiers_of(ws, tmp_path)
    manifest = other.save(other.tiers(given), 10)
    assert clear_tiers(ws) == 0
    assert stored(given[0].url) == keys_of(manifest)


def test_files_that_another_trial_still_names_stay(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    lender = lab.save(lab.tiers(given), 10, names=["a", "b"])
    other = lab.add_trial(1)
    borrower = lab.save(
        lab.tiers(given), 5, names=["a"], lent={"a": lender.tensors[0]}, trial=other
    )
    put_state(lab, TrialState.COMPLETED)
    assert clear_tiers(ws) > 0
    assert stored(given[0].url) == keys_of(borrower)


def test_while_a_manifest_cannot_be_read_everything_beside_it_stays(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    lab.save(lab.tiers(given), 10)
    other = lab.add_trial(1)
    harmed = lab.save(lab.tiers(given), 5, trial=other)
    open_blobs(given[0].url).put(lab.record(harmed).manifest, b"{}")
    put_state(lab, TrialState.COMPLETED)
    before = stored(given[0].url)
    assert clear_tiers(ws) == 0
    assert stored(given[0].url) == before


def test_folders_that_experiments_have_named_are_remembered(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = [
        Tier(url=f"file://{tmp_path}/nvme", shared=False),
        Tier(url=f"file://{tmp_path}/shared"),
    ]
    for _ in range(2):
        note_local_folders(ws.home, [*tiers_of(ws, tmp_path), *given])
    assert local_folders(ws.home) == (local_folder(ws.home), tmp_path / "nvme")
    lab.save(lab.tiers(given), 10)
    put_state(lab, TrialState.STOPPED)
    assert clear_tiers(ws) > 0
    assert stored(given[0].url) == set()
