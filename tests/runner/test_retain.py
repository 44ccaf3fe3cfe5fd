"""Retention as reconcile applies it: exemptions, what cannot be removed at once, and the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.core.blobs import open_blobs
from burst.core.checkpoints.format.manifest import FileEntry, Manifest, folder, manifest_key
from burst.core.checkpoints.removal.reasons import RETENTION
from burst.core.checkpoints.tiers.own_disk import local_folder
from burst.core.ids import new_id
from burst.core.model import Checkpoint, Copy, Experiment, Lengths, Model, Trial
from burst.core.states import is_terminal
from burst.core.store import update
from burst.core.store.port import Put
from burst.core.workspace import Workspace
from burst.runner.reconcile.context import Context, View, make_context
from burst.runner.reconcile.retain import reconcile_retention, retain_all
from tests.harness.checkpoints.support import Fault
from tests.runner.house import COMPLETED, House, forever


@pytest.fixture
def house(tmp_path: Path) -> House:
    """An experiment whose one trial runs and keeps its newest checkpoint alone."""
    made = House(tmp_path)
    made.script = forever
    made.submit(checkpoints={"keep": {"trial_best": 0, "trial_latest": 1}})
    made.run(until=lambda: bool(made.store.live(Trial)))
    return made


def trial(house: House) -> Trial:
    experiment = house.store.children(Experiment, "")[0]
    return house.store.children(Trial, experiment.id)[0]


def save(house: House, batches: int, **fields: Any) -> Checkpoint:
    """A checkpoint of one file."""
    mine = trial(house)
    house.clock.advance(1)
    id = new_id("ckpt", house.clock)
    data = b"%d" % batches
    entry = FileEntry(
        key=f"{folder(mine.id, id)}/state.json", size=len(data), sha256="0" * 64, role="state"
    )
    manifest = Manifest(
        id=id,
        trial=mine.id,
        experiment=mine.experiment,
        attempt=1,
        created=house.clock.now(),
        done=Lengths(batches=batches),
        ranks=1,
        shared=entry,
        own=(),
        tensors=(),
    )
    house.ws.blobs.put(entry.key, data)
    house.ws.blobs.put(manifest_key(mine.id, id), manifest.encode())
    given: dict[str, Any] = {
        "id": id,
        "trial": mine.id,
        "experiment": mine.experiment,
        "attempt": 1,
        "batches": batches,
        "created": house.clock.now(),
        "url": house.ws.blobs.url,
        "manifest": manifest_key(mine.id, id),
        "size": 1,
    }
    record = Checkpoint(**{**given, **fields})
    newest = {"checkpoint": id} if record.durable else {}
    house.store.commit(Put(record), Put(mine.model_copy(update=newest)))
    return record


def kept(house: House) -> list[int]:
    there = house.store.children(Checkpoint, trial(house).id)
    return [record.batches for record in there if record.deleted is None]


def context(house: House, fault: Fault | None = None) -> Context:
    blobs = fault.around(house.ws.blobs) if fault else house.ws.blobs
    ws = Workspace(house.ws.home, house.ws.cluster, house.store, blobs)
    return make_context(ws, house.clock, {})


def retain(ctx: Context) -> None:
    reconcile_retention(ctx, View.read(ctx.store, {}))


def test_a_registered_one_and_the_source_of_a_live_experiment_stay(house: House) -> None:
    first, second = save(house, 1), save(house, 2)
    user = house.submit()
    house.store.commit(Put(Model(id="digits", created=0.0, versions=(first.id,))))
    update(
        house.store, Checkpoint, second.id, lambda r: r.model_copy(update={"started": (user.id,)})
    )
    save(house, 3)
    save(house, 4)
    retain(context(house))
    assert kept(house) == [1, 2, 4]


def test_a_newer_one_on_a_nodes_disk_removes_none_that_outlives_nodes(house: House) -> None:
    save(house, 1)
    save(house, 2)
    save(house, 3, copies=(Copy(url=house.ws.blobs.url, at=0.0, node="node-1"),))
    retain(context(house))
    assert kept(house) == [2, 3]


def test_what_retention_removes_leaves_the_disk_of_this_machine_too_and_the_record_says_why(
    house: House,
) -> None:
    disk = open_blobs(f"file://{local_folder(house.ws.home)}")
    first = save(house, 1)
    for blob in list(house.ws.blobs.list(f"checkpoints/{first.trial}/{first.id}/")):
        disk.put(blob.key, house.ws.blobs.get(blob.key))
    copies = (Copy(url=disk.url, at=0.0, node="node-1"), Copy(url=house.ws.blobs.url, at=0.0))
    update(house.store, Checkpoint, first.id, lambda r: r.model_copy(update={"copies": copies}))
    save(house, 2)
    retain(context(house))
    assert list(disk.list("checkpoints/")) == []
    assert house.store.get(Checkpoint, first.id).deleted_because == RETENTION


def test_what_storage_did_not_let_go_is_tried_again(house: House) -> None:
    first, _ = save(house, 1), save(house, 2)
    ctx = context(house, Fault(0))
    retain(ctx)
    assert ctx.failed
    assert kept(house) == [2]
    assert house.ws.blobs.info(first.manifest) is not None
    ctx.failed = False
    retain(ctx)  # though no newer checkpoint has come
    assert not ctx.failed
    assert house.ws.blobs.info(first.manifest) is None
    assert len(list(house.ws.blobs.list("checkpoints/"))) == 2


def test_what_storage_keeps_refusing_is_tried_again_and_again(house: House) -> None:
    first, _ = save(house, 1), save(house, 2)
    ctx = context(house)
    for _ in range(3):
        away = context(house, Fault(0))
        away.unfinished = ctx.unfinished
        retain(away)
        assert away.failed
    assert house.ws.blobs.info(first.manifest) is not None
    retain(ctx)
    assert house.ws.blobs.info(first.manifest) is None
    assert ctx.unfinished == set()


def test_another_runner_finishes_what_one_could_not(house: House) -> None:
    first, _ = save(house, 1), save(house, 2)
    retain(context(house, Fault(0)))
    save(house, 3)
    again = context(house)
    retain(again)
    assert not again.failed
    assert house.ws.blobs.info(first.manifest) is None


def test_at_the_end_goes_what_could_not_be_told_to_be_needless_before(
    house: House, tmp_path: Path
) -> None:
    first = save(house, 1)
    second = save(house, 2)
    disk = open_blobs(f"file://{tmp_path / 'disk'}")  # of a node that only the trial sees
    local = save(house, 3, copies=(Copy(url=disk.url, at=0.0, node="node-1"),))
    house.ws.blobs.delete(local.manifest)
    retain(context(house))
    assert kept(house) == [2, 3]
    assert house.ws.blobs.info(first.manifest) is not None  # the newest may need its files
    house.script = lambda trial, allocation, ran: COMPLETED
    copies = (*local.copies, Copy(url=house.ws.blobs.url, at=1.0))
    manifest = Manifest.decode(house.ws.blobs.get(second.manifest)).model_copy(
        update={"id": local.id}
    )
    house.ws.blobs.put(local.manifest, manifest.encode())
    update(house.store, Checkpoint, local.id, lambda r: r.model_copy(update={"copies": copies}))
    house.run(until=lambda: is_terminal(trial(house).state))
    house.run(until=house.at_rest)
    assert house.ws.blobs.info(first.manifest) is None
    (experiment,) = house.store.children(Experiment, "")
    before = list(house.ws.blobs.list("checkpoints/"))
    retain_all(context(house), experiment)
    assert list(house.ws.blobs.list("checkpoints/")) == before
