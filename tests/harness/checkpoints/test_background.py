"""Saving while training goes on: what is saved is the state at the moment of the call."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from burst.core.errors import Fenced, Unreachable
from burst.core.model import Trial
from burst.core.testing.faults import FaultyBlobs, How, Plan
from burst.harness.checkpoints.engine import BlobCheckpointEngine
from burst.harness.checkpoints.saving import packs, snapshot
from burst.harness.checkpoints.saving.samples import Samples
from burst.harness.checkpoints.saving.save import Gates
from burst.harness.leaving import leave_badly
from burst.harness.session import Session
from tests.harness.checkpoints.support import Lab, request, same


class Model:
    """Something that trains: parameters, buffers that forward changes, lazily made moments."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(40, 300), torch.nn.BatchNorm1d(300), torch.nn.Linear(300, 40)
        )
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.01, fused=True)
        self.forward()
        self.step()

    def forward(self) -> None:
        self.net(torch.randn(8, 40)).pow(2).mean().backward()

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state(self) -> dict[str, Any]:
        return {"models": [self.net.state_dict()], "optimizers": [self.optimizer.state_dict()]}

    def copy(self) -> dict[str, Any]:
        """The state as it is now, whatever happens to it later."""
        return copy.deepcopy(self.state())


@pytest.fixture(autouse=True)
def _many_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 1000)
    monkeypatch.setattr(packs, "PACK_BYTES", 20_000)


@pytest.fixture
def model() -> Model:
    return Model()


class Held:
    """Lets nothing be copied in the background until it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.in_training = 0
        """Regions that the training thread has copied."""
        work, main = snapshot.Snapshot.work, threading.main_thread()

        def held(of: snapshot.Snapshot) -> bool:
            if threading.current_thread() is not main:
                self.go.wait(30)
                return work(of)
            copied = work(of)
            self.in_training += copied
            return copied

        monkeypatch.setattr(snapshot.Snapshot, "work", held)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    found = Held(monkeypatch)
    yield found
    found.go.set()


def save(engine: BlobCheckpointEngine, model: Model, batches: int) -> dict[str, Any]:
    """Save; returns what the state was then."""
    before = model.copy()
    engine.save(request(model.state(), None, batches, optimizers=[model.optimizer]))
    return before


def restored(lab: Lab) -> dict[str, Any]:
    lab.next_attempt()
    found = lab.engine().restore()
    assert found is not None
    shared: dict[str, Any] = found.shared
    return shared


def test_what_is_saved_is_what_was_there_though_training_goes_on_at_once(
    lab: Lab, model: Model, held: Held
) -> None:
    engine = lab.engine(background=True)
    before = save(engine, model, 1)
    assert held.in_training == 0  # the call itself has copied no file
    model.forward()
    model.step()  # has to wait for, and so copies, all of it
    assert held.in_training > 5
    held.go.set()
    assert engine.wait()
    assert not same(model.copy(), before)
    assert same(restored(lab), before)


def test_without_the_gate_the_state_would_be_torn(
    lab: Lab, model: Model, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test before this one: it is the gate that holds the state together."""
    monkeypatch.setattr(Gates, "_before_step", lambda *_: None)
    monkeypatch.setattr(snapshot, "_version", lambda tensor: 0)  # nor may it be noticed
    monkeypatch.setattr(Samples, "changed", lambda _: None)
    engine = lab.engine(background=True)
    before = save(engine, model, 1)
    model.forward()
    model.step()
    held.go.set()
    assert engine.wait()
    assert not same(restored(lab), before)


def test_what_something_else_than_the_optimizer_changes_is_noticed(
    lab: Lab, model: Model, held: Held
) -> None:
    engine = lab.engine(background=True)
    save(engine, model, 1)
    with torch.no_grad():
        model.net[0].weight.clamp_(-0.01, 0.01)  # type: ignore[operator]
    held.go.set()
    assert not engine.wait()
    (warning,) = engine.poll()
    assert "models.0.0.weight" in warning
    assert "was changed while a checkpoint was taken of it" in warning
    before = save(engine, model, 2)  # from now on all is copied before training goes on
    with torch.no_grad():
        model.net[0].weight.clamp_(-0.001, 0.001)  # type: ignore[operator]
    assert engine.wait()
    assert same(restored(lab), before)


_PAST_ALL_COUNTS: list[Callable[[torch.Tensor], Any]] = [
    lambda weight: weight.data.mul_(0.5),
    lambda weight: weight.data.clamp_(-0.001, 0.001),
    lambda weight: weight.detach().numpy().__imul__(0.5),
]


@pytest.mark.parametrize("change", _PAST_ALL_COUNTS)
@pytest.mark.parametrize("copied", [False, True])
def test_what_changes_past_all_counts_before_the_step_is_noticed(
    lab: Lab, model: Model, held: Held, change: Callable[[torch.Tensor], Any], copied: bool
) -> None:
    """Torch counts neither changes through `.data` nor those of NumPy."""
    engine = lab.engine(background=True)
    save(engine, model, 1)
    if copied:
        held.go.set()
        engine._copier.submit(lambda: None).result()
    change(model.net[0].weight)  # type: ignore[arg-type]
    model.forward()
    model.step()
    held.go.set()
    assert not engine.wait()
    (warning,) = engine.poll()
    assert "was changed while a checkpoint was taken of it" in warning
    assert lab.records() == []
    before = save(engine, model, 2)
    change(model.net[0].weight)  # type: ignore[arg-type]
    model.forward()
    model.step()
    assert engine.wait()
    assert same(restored(lab), before)


def test_a_third_save_waits_for_the_first_and_each_is_what_was_there(
    lab: Lab, model: Model
) -> None:
    engine = lab.engine(background=True)
    states = {}
    for batches in range(1, 7):
        states[batches] = save(engine, model, batches)
        model.forward()
        model.step()
        assert len(engine._flying) <= 2
    assert engine.wait()
    assert sorted(record.batches for record in lab.records()) == [1, 2, 3, 4, 5, 6]
    assert same(restored(lab), states[6])


def test_a_save_that_need_not_be_is_left_out_where_two_are_under_way(
    lab: Lab, model: Model, held: Held
) -> None:
    engine = lab.engine(background=True)
    states = [save(engine, model, batches) for batches in (1, 2)]
    spare = request(model.state(), None, 3, optimizers=[model.optimizer], dispensable=True)
    assert not engine.save(spare)
    held.go.set()
    assert engine.wait()
    assert engine.save(spare)
    assert engine.wait()
    assert sorted(record.batches for record in lab.records()) == [1, 2, 3]
    assert same(restored(lab), states[1])


def frozen(number: int) -> dict[str, Any]:
    return {"models": [{"base": torch.arange(9000.0), "head": torch.full((3,), float(number))}]}


def test_saves_that_overlap_write_what_they_share_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = lab.engine(background=True)
    first = threading.Event()
    carry_out = engine._committer.carry_out

    def late(save: Any) -> Any:
        first.wait(30)
        return carry_out(save)

    monkeypatch.setattr(engine._committer, "carry_out", late)
    engine.save(request(frozen(1), None, 1))
    engine.save(request(frozen(2), None, 2))
    first.set()
    assert engine.wait()
    assert engine.poll() == []
    large = [b.size for b in lab.blobs.list("checkpoints/") if b.size > 10_000]
    assert sum(large) < 9000 * 4 + 4000
    assert same(restored(lab), frozen(2))


def test_a_save_that_rests_on_one_that_failed_is_written_anew(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        second.wait(30)
        raise Unreachable("the metrics are not stored")

    second = threading.Event()
    engine = lab.engine(background=True)
    engine.save(request(frozen(1), None, 1, ready=refuse))
    engine.save(request(frozen(2), None, 2))
    second.set()
    assert engine.wait()
    assert [record.batches for record in lab.records()] == [2]
    assert same(restored(lab), frozen(2))


def test_equal_tensors_are_written_once(lab: Lab) -> None:
    engine = lab.engine(background=True)
    state = {"models": [{str(n): torch.full((4000,), 1.0) for n in range(6)}]}
    engine.save(request(state, None, 1))
    assert engine.wait()
    assert same(restored(lab), state)


def test_a_save_that_fails_is_told_at_the_next_look_and_training_goes_on(
    lab: Lab, model: Model
) -> None:
    plan = Plan(0, How.FAIL, error=Unreachable("the disk is gone"), times=1000)
    engine = lab.engine(blobs=FaultyBlobs(lab.blobs, plan), background=True)
    save(engine, model, 1)
    model.forward()
    model.step()
    assert not engine.wait()
    (warning,) = engine.poll()
    assert "the checkpoint at batch 1 was not saved" in warning
    assert "the disk is gone" in warning
    assert engine.poll() == []
    assert "the disk is gone" in lab.store.get(Trial, lab.trial).checkpoint_problem
    assert lab.stored() == set()


def test_waiting_has_an_end_and_says_what_it_managed(lab: Lab, model: Model, held: Held) -> None:
    engine = lab.engine(background=True)
    save(engine, model, 1)
    assert engine.busy()
    assert not engine.wait(0.05)
    held.go.set()
    assert engine.wait()
    assert not engine.busy()


def test_who_lost_the_trial_hears_of_it_at_the_next_look(lab: Lab, model: Model) -> None:
    engine = lab.engine(background=True)
    lab.next_attempt()
    save(engine, model, 1)
    engine._gates.settle()
    engine._conductor.submit(lambda: None).result()  # all that was asked for is done
    for ask in (engine.poll, engine.wait, lambda: save(engine, model, 2)):
        with pytest.raises(Fenced):
            ask()
    assert lab.stored() == set()


def test_a_save_is_not_made_to_count_before_what_was_reported_is_durable(
    lab: Lab, model: Model
) -> None:
    def refuse() -> None:
        raise Unreachable("the metrics are not stored")

    engine = lab.engine(background=True)
    engine.save(request(model.state(), None, 1, ready=refuse))
    assert not engine.wait()
    assert "the metrics are not stored" in engine.poll()[0]
    assert lab.records() == []
    assert lab.stored() == set()


def test_memory_is_taken_once_and_used_again(lab: Lab, model: Model) -> None:
    engine = lab.engine(background=True)
    engine.prepare(request(model.state(), None, 0, optimizers=[model.optimizer]))
    assert engine._layout is not None
    arena = engine._layout[1].arena
    for batches in range(1, 4):
        save(engine, model, batches)
        assert engine.wait()
        assert engine._layout[1].arena is arena
    size = sum(t.nbytes for t in model.net.state_dict().values()) * 3
    assert arena.size < size * 1.1 + 4096 * 2 * len(engine._layout[1].images)


def test_a_state_of_another_shape_gets_other_memory(lab: Lab, model: Model) -> None:
    engine = lab.engine(background=True)
    save(engine, model, 1)
    model.net.append(torch.nn.Linear(40, 7))
    model.optimizer.add_param_group({"params": list(model.net[3].parameters())})
    before = save(engine, model, 2)
    assert engine.wait()
    assert same(restored(lab), before)


def test_gradients_that_come_and_go_cost_no_new_memory(lab: Lab, model: Model) -> None:
    """As between the batches that an optimizer's step sums up."""
    engine = lab.engine(background=True)

    def save_with(gradients: bool, batches: int) -> Any:
        state = model.state()
        if gradients:
            state["gradients"] = [p.detach() * 2 for p in model.net.parameters()]
        engine.save(request(state, None, batches, optimizers=[model.optimizer]))
        kept = copy.deepcopy(state)
        model.forward()
        model.step()
        assert engine._layout is not None
        return kept, engine._layout[1].arena.memory

    _, most = save_with(True, 1)
    for batches in range(2, 8):
        kept, memory = save_with(batches % 2 == 1, batches)
        assert memory is most
    assert engine.wait()
    assert same(restored(lab), kept)


_TORN: list[Callable[[Model], Any]] = [
    lambda model: model.net.state_dict()["1.running_mean"],
    lambda model: model.net.state_dict()["1.num_batches_tracked"],
]


@pytest.mark.parametrize("buffer", _TORN)
def test_what_forward_changes_is_copied_before_it_runs(
    lab: Lab, model: Model, held: Held, buffer: Callable[[Model], Any]
) -> None:
    engine = lab.engine(background=True)
    before = save(engine, model, 1)
    kept = buffer(model).clone()
    model.forward()
    assert not torch.equal(buffer(model), kept)
    held.go.set()
    assert engine.wait()
    assert same(restored(lab), before)


def test_what_is_saved_is_not_kept_alive(lab: Lab) -> None:
    """Gradients that are summed when a save comes are given back after the next step, as ever."""
    engine = lab.engine(background=True)
    gradient = torch.ones(100_000)
    gone = weakref.ref(gradient)
    engine.save(request({"models": []}, {"gradients": [gradient]}, 1))
    assert engine.wait()
    del gradient
    gc.collect()
    assert gone() is None


def test_a_save_counts_though_training_fails_before_the_next_step(lab: Lab, model: Model) -> None:
    engine = lab.engine(background=True)
    before = save(engine, model, 1)
    leave_badly(Session(engine=engine), None, ValueError("in the next batch"))
    engine._conductor.submit(lambda: None).result()  # as the end of the process waits for it
    assert [record.batches for record in lab.records()] == [1]
    assert same(restored(lab), before)
