"""Every call of the protocol fails, loses its answer, or is the last that the process makes.

The calls are counted in a run without faults and then harmed one by one, so nothing rests on
timing. After each: the newest checkpoint that counts comes back equal, nothing it needs is gone,
and what nothing needs is swept away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from burst.core.checkpoints.removal.delete import delete
from burst.core.checkpoints.verify import read, verify
from burst.core.errors import BurstError, Refused
from burst.core.model import Checkpoint, Trial
from burst.core.states import Reason, TrialState, advance
from burst.core.store import update
from burst.harness.checkpoints.engine import BlobCheckpointEngine
from burst.harness.checkpoints.saving import packs, writing
from tests.harness.checkpoints.support import FAULTS, Died, Fault, Lab, each_fault, request, same


@pytest.fixture(autouse=True)
def _small_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 1000)
    monkeypatch.setattr(writing, "THREADS", 1)


def state(number: int) -> dict[str, Any]:
    frozen = torch.arange(300.0)
    return {"models": [{"frozen": frozen, "head": torch.full((3,), float(number))}], "n": number}


def save(lab: Lab, engine: BlobCheckpointEngine, number: int) -> bool:
    lab.clock.advance(60)
    engine.save(request(state(number), [number], number))
    return engine.wait()


def check(lab: Lab, at_least: int) -> int:
    """A fresh attempt restores the newest that counts, equal, and the folder holds no more than
    what counts; returns its batch."""
    for record in lab.records():
        if record.deleted is None:
            assert verify(lab.blobs, record).problems == ()
    lab.next_attempt()
    found = lab.engine().restore()
    batches = found.done.batches if found else 0
    assert batches >= at_least
    live = [record for record in lab.records() if record.deleted is None]
    assert batches == max((record.batches for record in live), default=0)
    if found:
        assert same(found.shared, state(batches))
        assert found.own == [batches]
    needed = {e.key for r in live for e in read(lab.blobs, r).files} | {r.manifest for r in live}
    assert lab.stored() == needed
    return batches


def run_labs(tmp_path: Path, scenario: Callable[[Lab, Fault], Any]) -> Iterator[tuple[Lab, Fault]]:
    """A fresh lab for each fault, after the scenario has met it."""

    def count(fault: Fault) -> None:
        lab = Lab(tmp_path / "clean")
        scenario(lab, fault)
        lab.close()

    for number, fault in enumerate(each_fault(count, FAULTS)):
        lab = Lab(tmp_path / str(number))
        with contextlib.suppress(Died, BurstError):
            scenario(lab, fault)
        assert len(fault.calls) > fault.at
        yield lab, fault
        lab.close()


def test_a_fault_at_any_call_of_saving_loses_nothing_that_was_durable(tmp_path: Path) -> None:
    durable: dict[int, int] = {}

    def scenario(lab: Lab, fault: Fault) -> None:
        durable[id(lab)] = 0
        engine = lab.engine(store=fault.around(lab.store), blobs=fault.around(lab.blobs))
        for number in (1, 2, 3):
            if save(lab, engine, number):
                durable[id(lab)] = number
            elif fault.dead:
                raise Died
            else:
                assert "was not saved" in engine.poll()[0]

    faults = 0
    for lab, fault in run_labs(tmp_path, scenario):
        faults += 1
        newest = check(lab, durable[id(lab)])
        if not fault.dead:
            assert durable[id(lab)] >= 2  # one fault costs one save at the most
        if (fault.mode, fault.calls[fault.at]) == ("lose", "commit"):
            assert durable[id(lab)] == 3  # the record was there, whatever the answer
            assert "checkpoint.failed" not in lab.event_names()
        assert newest in (durable[id(lab)], durable[id(lab)] + 1)
        engine = lab.engine()
        engine.restore()
        assert save(lab, engine, newest + 1)
        assert check(lab, newest + 1) == newest + 1
    assert faults > 100


def test_a_fault_at_any_call_of_restoring_changes_nothing(tmp_path: Path) -> None:
    def scenario(lab: Lab, fault: Fault) -> None:
        engine = lab.engine()
        for number in (1, 2):
            save(lab, engine, number)
        lab.blobs.put(f"checkpoints/{lab.trial}/ckpt-00000000000/left.json", b"from a dead save")
        lab.next_attempt()
        lab.engine(store=fault.around(lab.store), blobs=fault.around(lab.blobs)).restore()

    for lab, _ in run_labs(tmp_path, scenario):
        assert check(lab, 2) == 2


def test_a_fault_at_any_call_of_setting_a_damaged_one_aside_leaves_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def scenario(lab: Lab, fault: Fault) -> None:
        engine = lab.engine()
        for number in (1, 2):
            save(lab, engine, number)
        lab.blobs.delete(lab.records()[-1].manifest)
        lab.next_attempt()
        lab.engine(store=fault.around(lab.store), blobs=fault.around(lab.blobs)).restore()

    for lab, _ in run_labs(tmp_path, scenario):
        lab.next_attempt()
        found = lab.engine().restore()
        assert found is not None
        assert found.done.batches == 1
        assert lab.records()[-1].damaged
    assert "is damaged" in capsys.readouterr().err


def test_a_fault_at_any_call_of_deleting_leaves_what_others_need(tmp_path: Path) -> None:
    def scenario(lab: Lab, fault: Fault) -> None:
        engine = lab.engine()
        for number in (1, 2, 3):
            save(lab, engine, number)
        store, blobs = fault.around(lab.store), fault.around(lab.blobs)
        first, second, _ = lab.records()
        delete(blobs, store, first, clock=lab.clock)
        delete(blobs, store, second, clock=lab.clock)

    for lab, _ in run_labs(tmp_path, scenario):
        assert check(lab, 3) == 3
        for record in lab.records()[:2]:
            delete(lab.blobs, lab.store, record, clock=lab.clock)
        assert check(lab, 3) == 3
        live = [record for record in lab.records() if record.deleted is None]
        assert len(live) == 1


def _interleavings(tmp_path: Path, scenario: Callable[[Lab, Fault], None]) -> Iterator[Lab]:
    clean = Fault()
    lab = Lab(tmp_path / "clean")
    scenario(lab, clean)
    lab.close()
    for at in range(len(clean.calls)):
        lab = Lab(tmp_path / str(at))
        scenario(lab, Fault(at, "hook"))
        yield lab
        lab.close()


def test_a_save_at_any_moment_of_a_deletion_keeps_all_it_names(tmp_path: Path) -> None:
    def scenario(lab: Lab, fault: Fault) -> None:
        engine = lab.engine()
        for number in (1, 2):
            save(lab, engine, number)
        fault.hook = lambda: save(lab, engine, 3)
        store, blobs = fault.around(lab.store), fault.around(lab.blobs)
        delete(blobs, store, lab.records()[0], clock=lab.clock)

    for lab in _interleavings(tmp_path, scenario):
        assert check(lab, 3) == 3


def test_a_deletion_at_any_moment_of_a_save_takes_nothing_that_it_names(tmp_path: Path) -> None:
    refused = 0

    def scenario(lab: Lab, fault: Fault) -> None:
        engine = lab.engine(store=fault.around(lab.store), blobs=fault.around(lab.blobs))
        for number in (1, 2):
            save(lab, engine, number)
        _end_trial(lab)  # so that even the checkpoint that is borrowed from may go
        before = lab.records()

        def remove() -> None:
            nonlocal refused
            for record in before:
                try:
                    delete(lab.blobs, lab.store, record, clock=lab.clock)
                except Refused:
                    refused += 1

        fault.at += len(fault.calls) if fault.mode == "hook" else 0
        fault.hook = remove
        assert save(lab, engine, 3)

    for lab in _interleavings(tmp_path, scenario):
        assert check(lab, 3) == 3
    assert refused == 0


def test_two_deletions_at_once_take_nothing_that_is_needed(tmp_path: Path) -> None:
    def scenario(lab: Lab, fault: Fault) -> None:
        engine = lab.engine()
        for number in (1, 2, 3):
            save(lab, engine, number)
        first, second, _ = lab.records()
        fault.hook = lambda: delete(lab.blobs, lab.store, second, clock=lab.clock)
        store, blobs = fault.around(lab.store), fault.around(lab.blobs)
        delete(blobs, store, first, clock=lab.clock)

    for lab in _interleavings(tmp_path, scenario):
        assert check(lab, 3) == 3


def test_while_the_store_is_away_saves_do_not_fill_the_disk(lab: Lab) -> None:
    fault = Fault()
    store = fault.around(lab.store)
    engine = lab.engine(store=store)
    assert save(lab, engine, 1)
    one = len(lab.stored())
    away = _Away(store)
    engine = lab.engine(store=away)
    for number in range(2, 8):
        assert not save(lab, engine, number)
        assert len(lab.stored()) <= 2 * one
    away.away = False
    assert save(lab, engine, 9)
    assert check(lab, 9) == 9


def test_a_checkpoint_whose_commit_nobody_can_ask_about_is_kept(lab: Lab) -> None:
    store = _LosesAnswers(lab.store)
    engine = lab.engine(store=store)
    store.losing = True
    assert not save(lab, engine, 1)
    assert "was not saved" in engine.poll()[0]
    assert check(lab, 1) == 1


class _LosesAnswers:
    """A store that commits and then answers nothing any more."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.losing = False
        self._committed = False

    def __getattr__(self, name: str) -> Any:
        if self.losing and self._committed:
            return Fault(0).around(self._store).__getattr__(name)
        if self.losing and name == "commit":
            self._committed = True
            return Fault(0, "lose").around(self._store).commit
        return getattr(self._store, name)


class _Away:
    """A store that no longer answers."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.away = True

    def __getattr__(self, name: str) -> Any:
        if self.away:
            return Fault(0).around(self._store).__getattr__(name)
        return getattr(self._store, name)


def _end_trial(lab: Lab) -> None:
    update(
        lab.store,
        Trial,
        lab.trial,
        lambda t: advance(t, TrialState.CANCELLED, Reason(code="test"), 0.0)[0],
    )


def test_deleting_follows_the_records_and_never_the_folder(lab: Lab) -> None:
    engine = lab.engine()
    for number in (1, 2):
        save(lab, engine, number)
    first = lab.store.get(Checkpoint, lab.records()[0].id)
    assert delete(lab.blobs, lab.store, first, clock=lab.clock) > 0
    assert delete(lab.blobs, lab.store, first, clock=lab.clock) == 0
    assert lab.store.get(Checkpoint, first.id).deleted == lab.clock.now()


def test_of_two_who_write_one_checkpoint_the_second_is_told_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    first, second = lab.engine(), lab.engine()
    monkeypatch.setattr("burst.harness.checkpoints.engine.new_id", lambda *_: "ckpt-1m3k9zq4w7c")
    assert save(lab, first, 1)
    held = {key: lab.blobs.get(key) for key in lab.stored()}
    assert not save(lab, second, 1)
    problem = lab.store.get(Trial, lab.trial).checkpoint_problem
    assert "is there already with other bytes" in problem
    assert {key: lab.blobs.get(key) for key in lab.stored()} == held
    assert [record.batches for record in lab.records()] == [1]
    assert check(lab, 1) == 1
