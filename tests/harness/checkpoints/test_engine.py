"""Saving and restoring through the engine: exact, verified, falling back, and never half."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import torch

from burst.core.checkpoints.removal.delete import delete
from burst.core.checkpoints.verify import verify
from burst.core.errors import BurstError, Fenced, NotFound, Unreachable
from burst.core.model import Checkpoint, Trial
from burst.core.states import Reason, TrialState, advance
from burst.core.store import update
from burst.harness.checkpoints.saving import packs
from burst.harness.collective import Collective
from tests.harness.checkpoints.support import Fault, Gang, Lab, request, same


def state(number: int) -> dict[str, Any]:
    """A small state with a part that never changes."""
    return {
        "models": [{"frozen": torch.arange(2000.0), "head": torch.full((7,), float(number))}],
        "optimizers": [{"state": {0: {"step": torch.tensor(float(number))}}, "lr": 0.1 / number}],
        "batches": number,
    }


def save(lab: Lab, *numbers: int) -> None:
    engine = lab.engine()
    engine.restore()
    for number in numbers:
        engine.save(request(state(number), {"rng": [number]}, number))
        lab.clock.advance(60)
    assert engine.poll() == []
    assert engine.wait()


def restored(lab: Lab, **options: Any) -> int:
    """The batch that a new attempt restores, checked to be exactly what was saved there."""
    lab.next_attempt()
    found = lab.engine(**options).restore()
    if found is None:
        return 0
    assert same(found.shared, state(found.done.batches))
    assert found.own == {"rng": [found.done.batches]}
    return found.done.batches


def test_a_trial_without_checkpoints_restores_nothing(lab: Lab) -> None:
    assert lab.engine().restore() is None


def test_the_newest_checkpoint_comes_back_with_all_that_belongs_to_it(lab: Lab) -> None:
    engine = lab.engine()
    engine.save(request(state(1), None, 1))
    lab.clock.advance(60)
    more = {"metrics": {"loss": 0.5}, "envelope": {"torch": torch.__version__}}
    engine.save(request(state(2), None, 2, **more))
    found = lab.engine().restore()
    assert found is not None
    assert (found.done.batches, found.ranks, found.warm) == (2, 1, False)
    assert found.envelope == {"torch": torch.__version__}
    newest = lab.records()[-1]
    assert newest.metrics == {"loss": 0.5}
    assert found.checkpoint == newest.id


def test_the_newest_counts_by_batches_though_the_clock_went_back(lab: Lab) -> None:
    save(lab, 5)
    lab.clock.advance(-3600)
    lab.next_attempt()
    engine = lab.engine()
    engine.restore()
    engine.save(request(state(6), {"rng": [6]}, 6))
    assert restored(lab) == 6


def test_a_save_sets_the_trials_newest_checkpoint_and_nothing_else_of_it(lab: Lab) -> None:
    before = lab.store.get(Trial, lab.trial)
    save(lab, 1)
    after = lab.store.get(Trial, lab.trial)
    (record,) = lab.records()
    latest = {"checkpoint": record.id, "checkpoint_at": record.created}
    assert after == before.model_copy(update={**latest, "version": after.version})
    assert lab.event_names() == ["checkpoint.saved"]
    assert record.size == sum(
        blob.size
        for blob in lab.blobs.list("checkpoints/")
        if not blob.key.endswith("manifest.json")
    )


def test_files_are_readable_as_the_umask_says(lab: Lab) -> None:
    save(lab, 1)
    modes = {stat.S_IMODE((lab.folder / key).stat().st_mode) for key in lab.stored()}
    probe = lab.folder / "probe"
    probe.touch()
    assert modes == {stat.S_IMODE(probe.stat().st_mode)}


def test_what_has_not_changed_is_not_written_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 4000)
    save(lab, 1, 2, 3)
    large = [key for key in lab.stored() if (lab.folder / key).stat().st_size > 8000]
    assert len(large) == 1
    assert all(verify(lab.blobs, record).good for record in lab.records())
    assert restored(lab) == 3


def test_a_restored_trial_borrows_from_the_checkpoint_it_was_restored_from(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 4000)
    save(lab, 1)
    lab.next_attempt()
    save(lab, 2)
    large = [key for key in lab.stored() if (lab.folder / key).stat().st_size > 8000]
    assert len(large) == 1


def test_a_large_tensor_is_spread_over_files_and_comes_back_whole(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "PACK_BYTES", 10_000)
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 1_000)
    value = [torch.rand(123, 77), torch.rand(50, 60).t(), torch.rand(10), torch.rand(11).half()]
    value += [
        torch.rand(3000, dtype=torch.complex128),
        torch.rand(60, 2, 2, 60).to(memory_format=torch.channels_last),
    ]
    lab.engine().save(request(value))
    sizes = [blob.size for blob in lab.blobs.list("checkpoints/") if "safetensors" in blob.key]
    assert max(sizes) < 10_500
    found = lab.engine().restore()
    assert found is not None
    assert same(found.shared, value)
    assert [t.stride() for t in found.shared] == [t.stride() for t in value]


def test_small_tensors_share_files_of_bounded_size(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "PACK_BYTES", 10_000)
    value = {"a": {str(n): torch.rand(300) for n in range(50)}, "b": torch.rand(3)}
    lab.engine().save(request(value))
    sizes = [blob.size for blob in lab.blobs.list("checkpoints/") if "safetensors" in blob.key]
    assert len(sizes) == 1 + 50 // 8 + 1
    assert max(sizes) < 12_000


# --- damage ------------------------------------------------------------------------------------


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [_truncate, _flip, _grow, _empty, Path.unlink])
def test_damage_to_any_file_makes_the_one_before_be_used(
    harm: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Lab(tmp_path / "count")
    save(first, 1, 2)
    count = sum(first.records()[-1].id in key for key in first.stored())
    first.close()
    assert count >= 5
    for number in range(count):
        lab = Lab(tmp_path / str(number))
        save(lab, 1, 2)
        newest = lab.records()[-1].id
        path = sorted(key for key in lab.stored() if newest in key)[number]
        harm(lab.folder / path)
        if harm is _grow and path.endswith("manifest.json"):
            lab.close()
            continue  # a blank after the manifest changes nothing that it says
        assert restored(lab) == 1
        assert lab.records()[-1].damaged
        assert "checkpoint.damaged" in lab.event_names()
        assert f"checkpoint {newest} at batch 2 is damaged" in capsys.readouterr().err
        assert restored(lab) == 1  # and is not tried again
        assert capsys.readouterr().err == ""
        lab.close()


def test_every_bit_of_a_manifest_is_guarded(lab: Lab) -> None:
    save(lab, 1)
    (record,) = lab.records()
    path = lab.folder / record.manifest
    good = path.read_bytes()
    table = json.loads(good)
    for position in range(0, len(good), 7):
        changed = bytearray(good)
        changed[position] ^= 1
        path.write_bytes(changed)
        report = verify(lab.blobs, record)
        assert not report.good or json.loads(changed) == table


def test_if_all_are_damaged_the_trial_starts_anew_and_says_so(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    save(lab, 1, 2)
    for key in lab.stored():
        _truncate(lab.folder / key)
    assert restored(lab) == 0
    assert capsys.readouterr().err.count("is damaged") == 2


def test_blobs_that_do_not_answer_are_no_damage(lab: Lab) -> None:
    save(lab, 1)
    for at in range(12):
        lab.next_attempt()
        fault = Fault(at)
        engine = lab.engine(blobs=fault.around(lab.blobs))
        if at < len(fault.calls):
            with pytest.raises(Unreachable):
                engine.restore()
    assert not lab.records()[0].damaged
    assert restored(lab) == 1


def test_a_checkpoint_of_a_newer_burst_is_named_and_not_damaged(lab: Lab) -> None:
    save(lab, 1)
    (record,) = lab.records()
    from burst.core.checkpoints.format import manifest

    newer = manifest.Manifest.decode(lab.blobs.get(record.manifest))
    lab.blobs.put(record.manifest, newer.model_copy(update={"format": 99}).encode())
    with pytest.raises(BurstError, match="format 99"):
        lab.engine().restore()
    assert not lab.records()[0].damaged


# --- failures ----------------------------------------------------------------------------------


class _FullDisk:
    """Blobs on a disk that is full from the `free`-th put on."""

    def __init__(self, blobs: Any, free: int) -> None:
        self._blobs = blobs
        self.free = free

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    def put(self, key: str, data: Any) -> None:
        self._use()
        self._blobs.put(key, data)

    def batch(self) -> _FullBatch:
        return _FullBatch(self._blobs.batch(), self._use)

    def _use(self) -> None:
        if self.free <= 0:
            raise OSError(28, "No space left on device")
        self.free -= 1


class _FullBatch:
    def __init__(self, batch: Any, use: Any) -> None:
        self._batch = batch
        self._use = use

    def put(self, key: str, data: Any, sha256: str) -> None:
        self._use()
        self._batch.put(key, data, sha256)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)


def test_a_full_disk_is_told_and_cleaned_up_and_the_next_save_works(lab: Lab) -> None:
    for free in range(6):
        disk = _FullDisk(lab.blobs, free)
        engine = lab.engine(blobs=disk)
        before = lab.stored()
        engine.save(request(state(9), {"rng": [9]}, 9))
        if engine.wait():
            break
        (warning,) = engine.poll()
        assert "batch 9 was not saved" in warning
        assert "No space left on device" in warning
        assert engine.poll() == []
        assert lab.stored() == before
        disk.free = 100
        engine.save(request(state(10 + free), {"rng": [10 + free]}, 10 + free))
        assert engine.wait()
        assert restored(lab) == 10 + free
    assert free > 3
    assert lab.event_names().count("checkpoint.failed") == free


def test_what_cannot_be_represented_is_raised_before_anything_is_written(lab: Lab) -> None:
    with pytest.raises(BurstError, match=r"own\.callbacks\[0\], a builtins\.object"):
        lab.engine().save(request({}, {"callbacks": [object()]}))
    assert lab.stored() == set()


def test_an_older_allocation_cannot_save_and_leaves_nothing(lab: Lab) -> None:
    engine = lab.engine()
    lab.next_attempt()
    with pytest.raises(Fenced):
        engine.save(request(state(1)))
    with pytest.raises(Fenced):
        engine.wait()
    assert lab.records() == []
    assert lab.stored() == set()
    with pytest.raises(Fenced):
        engine.restore()


def test_other_writers_of_the_trial_are_not_clobbered(lab: Lab) -> None:
    def meanwhile() -> None:
        update(
            lab.store,
            Trial,
            lab.trial,
            lambda t: t.model_copy(update={"validations": t.validations + 1}),
        )

    fault = Fault(mode="hook", hook=meanwhile)
    engine = lab.engine(store=fault.around(lab.store))
    engine.restore()
    fault.at = len(fault.calls) + 2
    engine.save(request(state(1)))
    assert engine.wait()
    trial = lab.store.get(Trial, lab.trial)
    # The sweep's fence, the conflict, the second try, and the one that joins the family.
    assert fault.calls.count("commit") == 4
    assert (trial.validations, trial.checkpoint) == (1, lab.records()[0].id)


def test_a_lender_that_is_deleted_meanwhile_is_not_borrowed_from(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 4000)
    engine = lab.engine()
    engine.save(request(state(1), {"rng": [1]}, 1))
    _end_trial(lab)
    delete(lab.blobs, lab.store, lab.records()[0], clock=lab.clock)
    lab.clock.advance(60)
    engine.save(request(state(2), {"rng": [2]}, 2))
    assert engine.poll() == []
    assert verify(lab.blobs, lab.records()[1]).good
    assert restored(lab) == 2


def _end_trial(lab: Lab) -> None:
    update(
        lab.store,
        Trial,
        lab.trial,
        lambda t: advance(t, TrialState.CANCELLED, Reason(code="test"), 0.0)[0],
    )


# --- warm start --------------------------------------------------------------------------------


def test_a_warm_start_is_used_only_while_the_trial_has_nothing_of_its_own(lab: Lab) -> None:
    save(lab, 7)
    source = lab.records()[0]
    lab.trial = lab.add_trial(1)
    engine = lab.engine(warm_start=source.id)
    found = engine.restore()
    assert found is not None
    assert (found.checkpoint, found.warm) == (source.id, True)
    assert same(found.shared, state(7))
    engine.save(request(state(1), {"rng": [1]}, 1))
    assert not any(lab.trial not in e for e in _keys_of(lab, lab.records()[0]))
    assert restored(lab, warm_start=source.id) == 1


def _keys_of(lab: Lab, record: Checkpoint) -> list[str]:
    from burst.core.checkpoints.verify import read

    return [entry.key for entry in read(lab.blobs, record).files]


def test_a_warm_start_that_is_not_there_or_damaged_is_an_error(lab: Lab) -> None:
    with pytest.raises(NotFound):
        lab.engine(warm_start="ckpt-00000000000").restore()
    save(lab, 7)
    (record,) = lab.records()
    for key in lab.stored():
        _truncate(lab.folder / key)
    lab.trial = lab.add_trial(1)
    with pytest.raises(BurstError, match="manifest"):
        lab.engine(warm_start=record.id).restore()


# --- several ranks -----------------------------------------------------------------------------


def own(rank: int, number: int) -> dict[str, Any]:
    return {"rank": rank, "x": torch.full((3,), float(rank + number))}


def _save_on(lab: Lab, ranks: int, number: int) -> None:
    def act(collective: Collective) -> bool:
        engine = lab.engine(collective)
        engine.restore()
        engine.save(request(state(number), own(collective.rank, number), number))
        lab.clock.advance(60)
        assert engine.poll() == []
        return engine.wait()

    assert Gang(ranks).run(act) == [True] * ranks


@pytest.mark.parametrize("resumed_on", [1, 2, 3])
def test_every_rank_gets_its_own_half_and_new_ranks_none(lab: Lab, resumed_on: int) -> None:
    _save_on(lab, 2, 4)
    found = Gang(resumed_on).run(lambda collective: lab.engine(collective).restore())
    for rank, one in enumerate(found):
        assert one.ranks == 2
        assert same(one.shared, state(4))
        if rank < 2:
            assert same(one.own, own(rank, 4))
        else:
            assert one.own is None


def test_shared_bytes_are_written_by_one_rank(lab: Lab) -> None:
    _save_on(lab, 3, 1)
    assert sum(b.size > 8000 for b in lab.blobs.list("checkpoints/")) == 1


def test_all_ranks_fail_alike_when_one_cannot_write(lab: Lab) -> None:
    def act(collective: Collective) -> Any:
        blobs = _FullDisk(lab.blobs, 0) if collective.rank == 1 else lab.blobs
        engine = lab.engine(collective, blobs=blobs)
        engine.save(request(state(1), collective.rank))
        return engine.wait(), engine.poll()

    results = Gang(2).run(act)
    assert [done for done, _ in results] == [False, False]
    assert all("No space left" in warnings[0] for _, warnings in results)
    assert "on rank 1" in results[0][1][0]
    assert (lab.records(), lab.stored()) == ([], set())


def test_all_ranks_raise_when_one_holds_what_cannot_be_represented(lab: Lab) -> None:
    def act(collective: Collective) -> Any:
        mine = object() if collective.rank == 1 else 0
        return lab.engine(collective).save(request(state(1), mine))

    errors = Gang(2).run(act)
    assert all(isinstance(error, BurstError) for error in errors)
    assert "on rank 1: a checkpoint cannot hold own" in errors[0].what


def test_all_ranks_are_fenced_together(lab: Lab) -> None:
    engines: dict[int, Any] = {}
    gang = Gang(2)
    gang.run(lambda collective: engines.update({collective.rank: lab.engine(collective)}))
    lab.next_attempt()
    errors = gang.run(lambda collective: engines[collective.rank].save(request(state(1))))
    assert [type(error) for error in errors] == [Fenced, Fenced]


def test_damage_that_only_one_rank_meets_makes_all_fall_back(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    _save_on(lab, 2, 1)
    lab.next_attempt()
    _save_on(lab, 2, 2)
    newest = lab.records()[-1]
    key = json.loads(lab.blobs.get(newest.manifest))["own"][1]["key"]
    _flip(lab.folder / key)
    lab.next_attempt()
    found = Gang(2).run(lambda collective: lab.engine(collective).restore())
    assert [one.done.batches for one in found] == [1, 1]
    assert "on rank 1" in lab.records()[-1].damaged
    assert capsys.readouterr().err.count("warning") == 1


def test_a_start_from_the_weights_alone_reads_no_more_than_these(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 1000)
    weights = torch.rand(2000)
    given = {"models": [{"w": weights, "tied": weights}], "moments": torch.rand(4000)}
    lab.engine().save(request(given, {"rng": [1]}, 1))
    (source,) = lab.records()
    lab.trial = lab.add_trial(1)
    read: list[int] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(lab.blobs, name)

        def read_into(self, key: str, buffer: memoryview) -> int:
            size = lab.blobs.read_into(key, buffer)
            read.append(size)
            return size

    found = lab.engine(
        blobs=Counting(),
        warm_start=source.id,
        weights_only=True,
    ).restore()
    assert found is not None
    assert same(found.shared, {"models": given["models"]})
    assert found.own is None
    assert sum(read) < 8000 + 4000
