"""What trials leave on a node's own disk does not stay for ever, and nothing needed goes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.folder import FolderBlobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import Manifest
from burst.core.checkpoints.removal.delete import delete, pin
from burst.core.checkpoints.removal.reasons import why_deleted
from burst.core.checkpoints.tiers.own_disk import local_folder, local_folders, note_local_folders
from burst.core.launch import Tier
from burst.core.model import Share, Trial
from burst.core.states import AllocationState, TrialState
from burst.core.store import update
from burst.core.store.port import Put
from burst.core.testing.examples import allocation, node
from burst.core.testing.faults import FaultyBlobs, FaultyDisk, How, Plan, dying, plans, stepwise
from burst.core.workspace import Workspace, open_workspace
from burst.runner.agent.hardware.machine import host_name
from burst.runner.agent.preparing.tier_folders import clear_tiers
from tests.core.checkpoints.tiers.tier_lab import TierLab, keys_of, stored


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


def test_a_record_claims_no_copy_that_was_removed(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    alone = lab.save(lab.tiers(given), 5, spread=False)
    shared = lab.save(lab.tiers(given), 10)
    put_state(lab, TrialState.COMPLETED)
    clear_tiers(ws, lab.clock)
    assert [copy.url for copy in lab.record(shared).copies] == [given[1].url]
    assert lab.record(alone).deleted == lab.clock.now()
    assert "one node's disk alone" in why_deleted(lab.record(alone))


def test_what_is_pinned_or_may_be_the_best_stays_where_it_lies_alone(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    pinned = lab.save(lab.tiers(given), 4, spread=False)
    pin(lab.store, pinned.id)
    best = lab.save(lab.tiers(given), 5, spread=False, metrics={"loss": 0.1})
    lab.save(lab.tiers(given), 10)
    put_state(lab, TrialState.COMPLETED)
    assert clear_tiers(ws) > 0
    assert stored(given[0].url) == keys_of(pinned) | keys_of(best)
    assert [lab.record(each).deleted for each in (pinned, best)] == [None, None]


def test_another_machine_with_such_a_folder_keeps_its_copies(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    manifest = lab.save(lab.tiers(given), 10)
    lab.store.commit(Put(node(id="node-1", host="another-machine")))
    put_state(lab, TrialState.COMPLETED)
    before = lab.record(manifest)
    clear_tiers(ws)
    assert lab.record(manifest) == before


def test_what_others_have_deleted_leaves_this_disk_though_its_trial_may_come_back(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    first, last = [lab.save(lab.tiers(given), batches) for batches in (10, 20)]
    put_state(lab, TrialState.PAUSED)
    delete(open_blobs(given[1].url), lab.store, lab.record(first))
    assert stored(given[0].url) == keys_of(first) | keys_of(last)
    assert clear_tiers(ws) > 0
    assert stored(given[0].url) == keys_of(last)


@pytest.mark.parametrize("how", list(How))
def test_whatever_goes_wrong_at_any_step_no_record_claims_what_is_gone(
    how: How, tmp_path: Path
) -> None:
    numbers = itertools.count()

    def prepared() -> tuple[TierLab, Workspace, list[Tier], list[Manifest]]:
        root = tmp_path / str(next(numbers))
        lab = TierLab()
        ws = replace(open_workspace({"BURST_HOME": str(root)}), store=lab.store)
        given = tiers_of(ws, root)
        alone = lab.save(lab.tiers(given), 5, names=["a"], spread=False)
        first = lab.save(lab.tiers(given), 10, names=["b", "c"])
        last = lab.save(lab.tiers(given), 20, names=["b"], lent={"b": first.tensors[0]})
        gone = lab.save(lab.tiers(given), 15, names=["d"])
        delete(open_blobs(given[1].url), lab.store, lab.record(gone))
        put_state(lab, TrialState.COMPLETED)
        return lab, ws, given, [alone, first, last]

    def act(plan: Plan, lab: TierLab, ws: Workspace) -> None:
        def opener(url: str) -> Blobs:
            path = Path(url.removeprefix("file://"))
            return FaultyBlobs(FolderBlobs(path, FaultyDisk(plan)), plan)

        store = stepwise(lab.store, plan, "commit")
        clear_tiers(replace(ws, store=store), lab.clock, opener)

    tried = 0
    for plan in plans(lambda plan: act(plan, *prepared()[:2]), how):
        lab, ws, given, (alone, first, last) = prepared()
        with dying():
            act(plan, lab, ws)
        for manifest in (alone, first, last):
            record = lab.record(manifest)
            for copy in record.copies if record.deleted is None else ():
                assert keys_of(manifest) <= stored(copy.url), plan.wrong
        clear_tiers(ws, lab.clock)
        assert stored(given[0].url) == set(), plan.wrong
        assert keys_of(first) | keys_of(last) <= stored(given[1].url)
        tried += 1
    assert tried > 15


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


def test_while_a_manifest_cannot_be_read_that_may_name_a_file_the_file_stays(
    ws: Workspace, lab: TierLab, tmp_path: Path
) -> None:
    given = tiers_of(ws, tmp_path)
    lender = lab.save(lab.tiers(given), 10)
    harmed = lab.save(
        lab.tiers(given), 5, names=["a"], lent={"a": lender.tensors[0]}, trial=lab.add_trial(1)
    )
    for tier in given:
        open_blobs(tier.url).put(lab.record(harmed).manifest, b"{}")
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
