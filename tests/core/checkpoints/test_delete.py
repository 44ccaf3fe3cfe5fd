"""Removing and pinning: refusals, idempotence, and what remains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.removal.delete import delete, finish, pin, restorable, sweep, unpin
from burst.core.checkpoints.verify import read, verify
from burst.core.errors import Fenced, NotFound, Refused, Unreachable
from burst.core.model import Checkpoint, Copy, Model, Trial
from burst.core.states import Reason, TrialState, advance
from burst.core.store import update
from burst.core.store.port import Fence, Put
from burst.core.testing.examples import checkpoint
from tests.harness.checkpoints.support import Fault, Lab, request


def save(lab: Lab, *numbers: int) -> list[Checkpoint]:
    engine = lab.engine()
    for number in numbers:
        engine.save(request({"models": [{"w": torch.full((9,), float(number))}]}, None, number))
        lab.clock.advance(60)
    return lab.records()


def test_a_deleted_checkpoint_is_gone_and_its_record_says_when(lab: Lab) -> None:
    first, second = save(lab, 1, 2)
    freed = delete(lab.blobs, lab.store, first, clock=lab.clock)
    assert freed >= first.size - second.size
    assert lab.store.get(Checkpoint, first.id).deleted == lab.clock.now()
    assert [r.id for r in restorable(lab.records())] == [second.id]
    assert verify(lab.blobs, second).good
    assert not verify(lab.blobs, first).good
    assert lab.event_names()[-1] == "checkpoint.deleted"


def test_of_several_at_the_same_batch_the_one_written_last_comes_first() -> None:
    ids = ["ckpt-1m3k9zq4zzz", "ckpt-1m3k9zq4www", "ckpt-1m3k9zq4000"]  # of one millisecond
    written = [checkpoint(id=id, created=7 + n / 10_000) for n, id in enumerate(ids)]
    assert [r.id for r in restorable(written)] == ids[::-1]
    assert [r.id for r in restorable(written[::-1])] == ids[::-1]
    beyond = checkpoint(id="ckpt-1m3k9zq4aaa", batches=101, created=0)
    assert restorable([*written, beyond])[0] == beyond
    again = checkpoint(
        id="ckpt-1m3k9zq4bbb", attempt=2, created=0
    )  # on a node whose clock is slow
    assert restorable([*written, beyond, again])[0] == again


def test_deleting_again_changes_nothing(lab: Lab) -> None:
    first, _ = save(lab, 1, 2)
    delete(lab.blobs, lab.store, first, clock=lab.clock)
    before = (lab.records(), lab.stored(), lab.event_names())
    lab.clock.advance(60)
    assert delete(lab.blobs, lab.store, first, clock=lab.clock) == 0
    assert (lab.records(), lab.stored(), lab.event_names()) == before


def test_a_pinned_checkpoint_is_not_deleted_until_it_is_unpinned(lab: Lab) -> None:
    first, _ = save(lab, 1, 2)
    assert pin(lab.store, first.id, "the paper").pinned
    pin(lab.store, first.id, "the paper")
    assert lab.store.get(Checkpoint, first.id).version == first.version + 1
    with pytest.raises(Refused, match="pinned") as caught:
        delete(lab.blobs, lab.store, first, clock=lab.clock)
    assert caught.value.why == "the paper"
    assert not unpin(lab.store, first.id).pinned
    assert unpin(lab.store, first.id).pin_reason == ""
    delete(lab.blobs, lab.store, first, clock=lab.clock)


def test_a_deleted_or_unknown_checkpoint_cannot_be_pinned(lab: Lab) -> None:
    first, _ = save(lab, 1, 2)
    delete(lab.blobs, lab.store, first, clock=lab.clock)
    with pytest.raises(Refused, match="deleted"):
        pin(lab.store, first.id)
    with pytest.raises(NotFound):
        pin(lab.store, "ckpt-00000000000")


def test_what_a_trial_would_continue_from_is_kept_while_it_is_not_over(lab: Lab) -> None:
    _, second = save(lab, 1, 2)
    with pytest.raises(Refused, match="would continue from"):
        delete(lab.blobs, lab.store, second, clock=lab.clock)
    assert verify(lab.blobs, second).good
    update(
        lab.store,
        Trial,
        lab.trial,
        lambda t: advance(t, TrialState.CANCELLED, Reason(code="test"), 0.0)[0],
    )
    for record in lab.records():
        delete(lab.blobs, lab.store, record, clock=lab.clock)
    assert lab.stored() == set()


def test_the_one_before_a_damaged_one_counts_as_what_a_trial_would_continue_from(
    lab: Lab,
) -> None:
    first, second = save(lab, 1, 2)
    update(
        lab.store, Checkpoint, second.id, lambda r: r.model_copy(update={"damaged": "for a test"})
    )
    with pytest.raises(Refused):
        delete(lab.blobs, lab.store, first, clock=lab.clock)
    delete(lab.blobs, lab.store, second, clock=lab.clock)
    assert verify(lab.blobs, first).good


def test_nothing_shared_is_removed_while_a_manifest_cannot_be_read(lab: Lab) -> None:
    first, second, third = save(lab, 1, 2, 3)
    lab.blobs.put(third.manifest, b"{}")
    assert delete(lab.blobs, lab.store, first, clock=lab.clock) == 0
    update(
        lab.store, Checkpoint, third.id, lambda r: r.model_copy(update={"damaged": "for a test"})
    )
    assert delete(lab.blobs, lab.store, first, clock=lab.clock) > 0
    assert verify(lab.blobs, second).good


def test_a_sweep_takes_what_has_no_record_and_nothing_else(lab: Lab) -> None:
    save(lab, 1, 2)
    before = lab.stored()
    left = f"checkpoints/{lab.trial}/ckpt-00000000000/left.json"
    other = f"checkpoints/{lab.experiment}.t0009/ckpt-00000000000/other.json"
    lab.blobs.put(left, b"12345")
    lab.blobs.put(other, b"1")
    assert sweep(lab.blobs, lab.store, Fence(lab.trial, 1)) == 5
    assert lab.stored() == before | {other}


def test_a_sweep_under_an_older_token_takes_nothing(lab: Lab) -> None:
    left = f"checkpoints/{lab.trial}/ckpt-00000000000/left.json"
    lab.blobs.put(left, b"a newer attempt is writing this")
    lab.next_attempt()
    with pytest.raises(Fenced):
        sweep(lab.blobs, lab.store, Fence(lab.trial, 1))
    assert lab.stored() == {left}


def test_a_registered_checkpoint_is_not_deleted(lab: Lab) -> None:
    first, second = save(lab, 1, 2)
    lab.store.commit(Put(Model(id="digits", created=0.0, versions=(second.id, first.id))))
    with pytest.raises(Refused, match="registered") as caught:
        delete(lab.blobs, lab.store, first, clock=lab.clock)
    assert "version 2 of model digits" in caught.value.why
    assert verify(lab.blobs, first).good


def test_the_newest_that_outlives_nodes_is_kept_beside_a_newer_one_on_a_nodes_disk(
    lab: Lab,
) -> None:
    first, second, third = save(lab, 1, 2, 3)
    local = (Copy(url=lab.blobs.url, at=0.0, node="node-1"),)
    update(lab.store, Checkpoint, third.id, lambda r: r.model_copy(update={"copies": local}))
    for needed in (second, third):
        with pytest.raises(Refused, match="would continue from"):
            delete(lab.blobs, lab.store, needed, clock=lab.clock)
    delete(lab.blobs, lab.store, first, clock=lab.clock)


def _end(lab: Lab) -> None:
    over = Reason(code="test")
    update(lab.store, Trial, lab.trial, lambda t: advance(t, TrialState.CANCELLED, over, 0.0)[0])


def _spread(lab: Lab, record: Checkpoint, tier: Blobs, node: str = "") -> None:
    """Let another tier hold a checkpoint too."""
    for blob in list(lab.blobs.list(f"checkpoints/{record.trial}/{record.id}/")):
        tier.put(blob.key, lab.blobs.get(blob.key))
    copies = (
        Copy(url=lab.blobs.url, at=0.0),
        Copy(url=tier.url, at=0.0, node=node),
    )
    update(lab.store, Checkpoint, record.id, lambda r: r.model_copy(update={"copies": copies}))


def test_all_tiers_that_outlive_their_node_are_cleared_without_being_named(
    lab: Lab, tmp_path: Path
) -> None:
    first, second = save(lab, 1, 2)
    shared = open_blobs(f"file://{tmp_path / 'shared'}")
    _spread(lab, first, shared)
    delete(lab.blobs, lab.store, first, clock=lab.clock)
    left = {blob.key for blob in shared.list("checkpoints/")}
    assert left == {key for key in _named(lab, second) if first.id in key}  # it may get there yet
    _end(lab)
    delete(lab.blobs, lab.store, second, clock=lab.clock)
    assert list(shared.list("checkpoints/")) == []


def test_another_nodes_disk_is_left_to_that_node(lab: Lab, tmp_path: Path) -> None:
    first, second = save(lab, 1, 2)
    disk = open_blobs(f"file://{tmp_path / 'disk'}")
    _spread(lab, first, disk, node="node-1")
    _end(lab)
    for record in (first, second):
        delete(lab.blobs, lab.store, record, clock=lab.clock)
    assert list(disk.list("checkpoints/")) != []
    assert finish(lab.store, lab.trial, [disk]) > 0
    assert list(disk.list("checkpoints/")) == []
    assert finish(lab.store, lab.trial, [disk]) == 0


def test_a_tier_that_does_not_answer_keeps_nothing_from_being_finished_later(
    lab: Lab, tmp_path: Path
) -> None:
    first, second = save(lab, 1, 2)
    shared = open_blobs(f"file://{tmp_path / 'shared'}")
    _spread(lab, first, shared)
    away = Fault(0).around(shared)
    with pytest.raises(Unreachable):
        delete(lab.blobs, lab.store, first, tiers=[away], clock=lab.clock)
    assert lab.store.get(Checkpoint, first.id).deleted is not None
    delete(lab.blobs, lab.store, first, tiers=[shared], clock=lab.clock)
    for there in (lab.stored(), {blob.key for blob in shared.list("checkpoints/")}):
        assert {key for key in there if first.id in key} <= _named(lab, second)


def _named(lab: Lab, record: Checkpoint) -> set[str]:
    return {entry.key for entry in read(lab.blobs, record).files}
