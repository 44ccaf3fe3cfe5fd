"""The engine with several trials whose models share frozen weights: written once, removed last."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from burst.core.checkpoints.removal.delete import delete
from burst.core.checkpoints.verify import read, verify
from burst.core.model import Checkpoint, Trial
from burst.core.states import Reason, TrialState, advance
from burst.core.store import update
from burst.harness.checkpoints.saving import packs
from tests.harness.checkpoints.support import Fault, Lab, request, same

BASE_BYTES = 4 * 40_000


@pytest.fixture(autouse=True)
def _a_file_for_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 100_000)


def state(head: float, base: float = 1.0) -> dict[str, Any]:
    weights = {"base": torch.full((40_000,), base), "head": torch.full((300,), head)}
    return {"models": [weights], "n": head}


def save(lab: Lab, trial: str, head: float, *, base: float = 1.0, **more: Any) -> Checkpoint:
    """Saves one state, as a new attempt of the trial; returns the checkpoint's record."""
    lab.trial = trial
    lab.next_attempt()
    engine = lab.engine(**more)
    engine.restore()
    lab.clock.advance(60)
    engine.save(request(state(head, base), [head], int(head)))
    assert engine.poll() == []
    return lab.records()[-1]


def bytes_of(lab: Lab) -> int:
    return sum(blob.size for blob in lab.blobs.list("checkpoints/"))


def end(lab: Lab, trial: str) -> None:
    over = Reason(code="test")
    update(lab.store, Trial, trial, lambda t: advance(t, TrialState.CANCELLED, over, 0.0)[0])


def check(lab: Lab, trial: str, head: float) -> None:
    lab.trial = trial
    lab.next_attempt()
    found = lab.engine().restore()
    assert found is not None
    assert same(found.shared, state(head))


def test_a_second_trial_writes_what_is_its_own_and_nothing_of_the_base(lab: Lab) -> None:
    first, second = lab.trial, lab.add_trial(1)
    lender = save(lab, first, 1)
    before = bytes_of(lab)
    borrower = save(lab, second, 2)
    assert bytes_of(lab) - before < 20_000
    assert borrower.size > BASE_BYTES
    assert borrower.borrowed_from == (first,)
    assert lab.store.get(Checkpoint, lender.id).lent_to == (second,)
    check(lab, first, 1)
    check(lab, second, 2)


def test_a_later_checkpoint_of_the_borrower_says_too_whose_folder_it_names(lab: Lab) -> None:
    first, second = lab.trial, lab.add_trial(1)
    lender = save(lab, first, 1)
    earlier = save(lab, second, 2)
    later = save(lab, second, 3)
    assert later.borrowed_from == (first,)
    end(lab, first)
    end(lab, second)
    for record in (lender, earlier):
        delete(lab.blobs, lab.store, record, clock=lab.clock)
    assert verify(lab.blobs, later).good
    assert bytes_of(lab) > BASE_BYTES
    delete(lab.blobs, lab.store, later, clock=lab.clock)
    assert lab.stored() == set()


def test_a_warm_start_takes_its_sources_files_though_the_rest_of_the_model_differs(
    lab: Lab,
) -> None:
    source = save(lab, lab.trial, 1)
    before = bytes_of(lab)
    other = lab.add_trial(1)
    lab.trial = other
    engine = lab.engine(warm_start=source.id)
    engine.restore()
    tree = state(2)
    tree["models"][0]["adapter"] = torch.ones(5)
    engine.save(request(tree, [2], 2))
    assert bytes_of(lab) - before < 20_000
    assert lab.records()[0].borrowed_from == (source.trial,)


def test_a_lender_that_goes_at_any_call_of_a_save_costs_the_borrower_nothing(lab: Lab) -> None:
    """Its files are written anew where the lender goes before the commit."""
    first, second = lab.trial, lab.add_trial(1)
    base = 1.0
    borrowed: list[bool] = []

    def once(at: int) -> Fault:
        nonlocal base
        base += 1
        lender = save(lab, first, base, base=base)
        fault = Fault(at, "hook", lambda: delete(lab.blobs, lab.store, lender, clock=lab.clock))
        borrower = save(lab, second, base, base=base, store=fault.around(lab.store))
        delete(lab.blobs, lab.store, lender, clock=lab.clock)
        assert verify(lab.blobs, borrower).good
        borrowed.append(first in borrower.borrowed_from)
        return fault

    end(lab, first)
    calls = len(once(10**6).calls)
    assert calls > 10
    for at in range(calls):
        once(at)
    assert set(borrowed) == {True, False}


def test_rot_in_a_lent_file_is_told_of_all_that_need_it_and_not_passed_on(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = lab.trial, lab.add_trial(1), lab.add_trial(2)
    lender = save(lab, first, 1)
    save(lab, second, 2)
    (base,) = [e for e in read(lab.blobs, lender).files if e.size > BASE_BYTES]
    data = bytearray(lab.blobs.get(base.key))
    data[-1] ^= 1
    lab.blobs.put(base.key, data)
    lab.trial = second
    lab.next_attempt()
    engine = lab.engine()
    assert engine.restore() is None
    assert "is damaged" in capsys.readouterr().err
    records = [r for t in (first, second) for r in lab.store.children(Checkpoint, t)]
    assert all(base.key in record.damaged for record in records)
    engine.save(request(state(4), [4], 4))
    assert save(lab, third, 5).borrowed_from == (second,)
    check(lab, second, 4)
    check(lab, third, 5)
