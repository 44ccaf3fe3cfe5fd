"""The faults that other tests are built on are what they say."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from burst.core.blobs.folder import FolderBlobs
from burst.core.blobs.port import Blobs
from burst.core.errors import BurstError, StoreError, Unreachable
from burst.core.store.memory import MemoryStore
from burst.core.testing.faults import (
    FaultyBlobs,
    FaultyDisk,
    How,
    Kill,
    Plan,
    dying,
    plans,
    stepwise,
)

DATA = bytes(range(256)) * 4096 + b"tail"


def save(blobs: Blobs) -> None:
    """A protocol in small: files in a batch, then a manifest that names them."""
    batch = blobs.batch()
    try:
        for name in ("1", "2"):
            batch.put(f"a/{name}", DATA, hashlib.sha256(DATA).hexdigest())
        batch.finish()
    except BaseException:
        batch.abort()
        raise
    blobs.put_new("b/manifest", b"1 2")


def faulty(root: Path, plan: Plan) -> Blobs:
    return FaultyBlobs(FolderBlobs(root, FaultyDisk(plan)), plan)


def test_a_plan_without_a_fault_names_every_step(tmp_path: Path) -> None:
    plan = Plan()
    save(faulty(tmp_path, plan))
    kinds = [step.split()[0] for step in plan.steps]
    for kind in ("batch.put", "batch.finish", "put_new", "create", "write", "truncate", "fsync"):
        assert kind in kinds
    assert (kinds.count("rename"), kinds.count("rename_new")) == (2, 1)
    assert not plan.reached


def test_killed_at_any_step_what_the_manifest_names_is_there_and_nothing_piles_up(
    tmp_path: Path,
) -> None:
    killed = 0
    for number, plan in enumerate(plans(lambda plan: save(faulty(tmp_path / "counted", plan)))):
        root = tmp_path / str(number)
        with dying():
            save(faulty(root, plan))
        assert plan.killed
        after = FolderBlobs(root)
        names = after.get("b/manifest").split() if after.info("b/manifest") else []
        assert all(after.get(f"a/{name.decode()}") == DATA for name in names)
        save(after)  # a later writer, which also removes what the dead one left
        del after
        assert sorted(p.name for p in root.rglob("*") if p.is_file()) == ["1", "2", "manifest"]
        killed += 1
    assert killed > 25


def broken_by_power_cuts(root: Path, make: Callable[[Plan], FaultyDisk]) -> list[str]:
    """The steps of `save` at which losing power breaks its promise."""
    broken = []
    counting = Plan()
    save(FolderBlobs(root / "counted", make(counting)))
    for at, step in enumerate([*counting.steps, "after all"]):
        plan, there = Plan(at), root / str(at)
        disk = make(plan)
        with dying():
            save(FolderBlobs(there, disk))
        disk.lose_power()
        there.mkdir(exist_ok=True)
        after = FolderBlobs(there)
        names = after.get("b/manifest").split() if after.info("b/manifest") else []
        held = [after.get(key) for key in (f"a/{n.decode()}" for n in names) if after.info(key)]
        if held != [DATA] * len(names) or (step == "after all" and len(names) != 2):
            broken.append(step)
    return broken


def test_power_lost_at_any_step_harms_nothing_that_is_durable(tmp_path: Path) -> None:
    assert broken_by_power_cuts(tmp_path, FaultyDisk) == []


@pytest.mark.parametrize("forgotten", ["sync", "sync_folder"])
def test_power_cuts_tell_when_an_fsync_is_forgotten(tmp_path: Path, forgotten: str) -> None:
    class Forgetful(FaultyDisk):
        pass

    setattr(Forgetful, forgotten, lambda *_: None)
    assert broken_by_power_cuts(tmp_path, Forgetful)


@pytest.mark.parametrize("how", [How.FAIL, How.LOST])
def test_failed_at_any_step_the_next_attempt_works(tmp_path: Path, how: How) -> None:
    raised = 0
    counted = plans(lambda plan: save(faulty(tmp_path / "counted", plan)), how)
    for number, plan in enumerate(counted):
        for _ in range(2):
            try:
                save(faulty(tmp_path / str(number), plan))
                break
            except BurstError:
                raised += 1
        assert FolderBlobs(tmp_path / str(number)).get("b/manifest")
        assert plan.reached
        assert not plan.killed
    assert raised > 15


def test_a_killed_process_does_nothing_more_in_any_thread(tmp_path: Path) -> None:
    plan = Plan(0)
    blobs = faulty(tmp_path, plan)
    uses: list[Callable[[], object]] = [
        lambda: blobs.put("a", b""),
        lambda: blobs.batch(),
        lambda: blobs.get("a"),
        lambda: blobs.delete("a"),
        lambda: blobs.local_path("a"),
        lambda: list(blobs.list("")),
        lambda: blobs.read_into("a", memoryview(bytearray(1))),
    ]
    with ThreadPoolExecutor(2) as pool:
        for use in uses:
            with pytest.raises(Kill):
                pool.submit(use).result()
    assert plan.steps == ["put a"]
    assert list(tmp_path.iterdir()) == []


def test_a_write_in_which_a_process_dies_is_half_done(tmp_path: Path) -> None:
    counting = Plan()
    FolderBlobs(tmp_path / "counted", FaultyDisk(counting)).put("a", DATA)
    at = next(n for n, step in enumerate(counting.steps) if step.startswith("write"))
    with pytest.raises(Kill):
        FolderBlobs(tmp_path / "torn", FaultyDisk(Plan(at))).put("a", DATA)
    sizes = [p.stat().st_size for p in (tmp_path / "torn").rglob("*") if p.name != "lock"]
    assert any(0 < size < len(DATA) and size % 4096 == 0 for size in sizes)


def test_a_killed_process_holds_no_lock_and_no_descriptor(tmp_path: Path) -> None:
    for at in range(12):
        with dying():
            FolderBlobs(tmp_path / str(at), FaultyDisk(Plan(at))).put("a", DATA)
        for lock in (tmp_path / str(at)).rglob("lock"):
            with lock.open("rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert [
        each.path for each in psutil.Process().open_files() if str(tmp_path) in each.path
    ] == []


def test_an_error_of_ones_own_is_raised_as_often_as_is_asked(tmp_path: Path) -> None:
    slow_down = Unreachable("SlowDown")
    blobs = FaultyBlobs(FolderBlobs(tmp_path), Plan(1, How.FAIL, error=slow_down, times=2))
    blobs.put("a", b"1")
    for _ in range(2):
        with pytest.raises(Unreachable, match="SlowDown"):
            blobs.put("a", b"2")
    blobs.put("a", b"3")
    assert blobs.get("a") == b"3"


def test_a_lost_answer_is_an_error_after_the_fact(tmp_path: Path) -> None:
    blobs = FaultyBlobs(FolderBlobs(tmp_path), Plan(0, How.LOST))
    with pytest.raises(Unreachable, match="did not answer"):
        blobs.put("a", b"1")
    assert blobs.get("a") == b"1"


def test_the_commits_of_a_store_can_be_steps_of_the_same_plan() -> None:
    plan = Plan(1, How.FAIL, error=StoreError("full"))
    store = stepwise(MemoryStore(), plan, "commit")
    store.commit()
    with pytest.raises(StoreError, match="full"):
        store.commit()
    assert plan.steps == ["commit", "commit"]
    plan.killed = True
    with pytest.raises(Kill):
        store.newest_cursor()
