"""SIGKILL at every single step by which a checkpoint comes to be: every file made, written,
flushed and renamed, every commit, every file that is removed.

The steps are counted in a run in which nothing happens and then made the last one by one, so
nothing rests on timing. A new process afterwards restores the newest checkpoint that counts,
equal, sweeps away what is left over, and saves again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from burst.core.blobs.folder import FolderBlobs
from burst.core.checkpoints.removal.delete import delete
from burst.core.checkpoints.verify import read, verify
from burst.core.errors import BurstError
from burst.core.testing.faults import FaultyBlobs, FaultyDisk, How, Plan, dying, plans, stepwise
from burst.harness.checkpoints.saving import packs, writing
from tests.harness.checkpoints.support import Lab, request, same


@pytest.fixture(autouse=True)
def _in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 1000)
    monkeypatch.setattr(writing, "THREADS", 1)


def state(number: int) -> dict[str, Any]:
    frozen = torch.arange(300.0)
    return {"models": [{"frozen": frozen, "head": torch.full((400,), float(number))}], "n": number}


def live(lab: Lab) -> dict[int, str]:
    """The checkpoints that count, by batch."""
    return {r.batches: r.id for r in lab.records() if r.deleted is None}


def train(lab: Lab, plan: Plan) -> None:
    """Two saves, after each of which the one before is removed, as retention does."""
    blobs = FaultyBlobs(FolderBlobs(lab.folder, FaultyDisk(plan)), plan)
    store = stepwise(lab.store, plan, "commit")
    engine = lab.engine(store=store, blobs=blobs)
    for number in (2, 3):
        lab.clock.advance(60)
        engine.save(request(state(number), [number], number))
        plan.check()
        for record in lab.records():
            if record.batches < number and number in live(lab):
                delete(blobs, store, record, clock=lab.clock)


def labs(tmp_path: Path, *hows: How) -> Iterator[tuple[Lab, Plan]]:
    """A trial with one good checkpoint, and another process that meets the plan's step."""

    def made(name: str) -> Lab:
        lab = Lab(tmp_path / name)
        engine = lab.engine()
        engine.save(request(state(1), [1], 1))
        lab.next_attempt()
        return lab

    def run(plan: Plan) -> None:
        lab = made("clean")
        train(lab, plan)
        lab.close()
        assert list(live(lab)) == [3]

    for number, plan in enumerate(plans(run, *hows)):
        lab = made(str(number))
        with dying(), suppress(BurstError):
            train(lab, plan)
        yield lab, plan
        _close(lab)


def _close(lab: Lab) -> None:
    with dying():
        lab.close()


def check(lab: Lab) -> None:
    """What a new process finds, and that it can go on."""
    for record in lab.records():
        if record.deleted is None:
            assert verify(lab.blobs, record).problems == ()
    newest = max(live(lab))
    lab.next_attempt()
    engine = lab.engine()
    found = engine.restore()
    assert found is not None
    assert found.done.batches == newest
    assert same(found.shared, state(newest))
    assert found.own == [newest]
    kept = [record for record in lab.records() if record.deleted is None]
    needed = {e.key for r in kept for e in read(lab.blobs, r).files} | {r.manifest for r in kept}
    assert lab.stored() == needed
    assert [p for p in lab.folder.rglob(".*") if p.is_file()] == []  # no partial file stays
    lab.clock.advance(60)
    engine.save(request(state(9), [9], 9))
    assert engine.wait()
    assert engine.poll() == []


def test_a_kill_at_any_step_leaves_the_newest_checkpoint_that_counts(tmp_path: Path) -> None:
    steps = set()
    for lab, plan in labs(tmp_path, How.KILL):
        assert plan.reached
        steps.add(plan.wrong.split()[0])
        check(lab)
    wanted = {"create", "write", "fsync", "rename", "unlink", "commit", "batch.put"}
    assert wanted <= steps


def test_a_step_that_fails_or_whose_answer_is_lost_costs_one_save_at_the_most(
    tmp_path: Path,
) -> None:
    for lab, plan in labs(tmp_path, How.FAIL, How.LOST):
        assert plan.reached
        assert max(live(lab)) >= 2
        check(lab)
