"""Trials that start from another's checkpoint: its weights, or all of it, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.importing import import_model
from burst.core.checkpoints.format.manifest import Manifest
from burst.core.checkpoints.rehearse import rehearse
from burst.core.checkpoints.removal.delete import delete, unpin
from burst.core.clock import SystemClock
from burst.core.config.experiment import WarmStart
from burst.core.metrics import merge
from burst.core.model import Trial
from burst.core.store import update
from burst.harness import PyTorchTrialContext
from burst.harness.errors import TrialError
from burst.harness.importing import open_torch
from burst.harness.trial.context import Setting
from burst.harness.trial.warm import fit, load_weights
from tests.harness.checkpoints.shard_support import mesh_of, world
from tests.harness.trial.bench import SOURCE, TARGET, Bench
from tests.harness.trial.lab import HPARAMS, TinyTrial


class Wider(TinyTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        layers: Any = self.model
        layers[0], layers[4] = nn.Linear(6, 8, bias=False), nn.Linear(8, 3)


@pytest.fixture
def place(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def weights(context: PyTorchTrialContext) -> dict[str, bytes]:
    (model,) = context.models
    return {name: value.numpy().tobytes() for name, value in model.state_dict().items()}


def moments(context: PyTorchTrialContext) -> list[bytes]:
    (wrapped,) = context.optimizers
    states = wrapped.optimizer.state.values()
    return [state["exp_avg"].numpy().tobytes() for state in states]


def test_everything_goes_on_to_the_bit_as_the_other_trial_would(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole, parts = Bench(tmp_path / "one"), Bench(tmp_path / "two")
    straight = whole.train(SOURCE, 4)
    parts.train(SOURCE, 2)
    start = WarmStart(checkpoint=parts.newest(SOURCE).id, what="everything")
    went_on = parts.train(TARGET, 4, start=start)
    assert weights(went_on) == weights(straight)
    assert moments(went_on) == moments(straight)
    assert went_on.batch == straight.batch == 24
    rows = merge(parts.store.metrics(TARGET, "training"))["training"]
    assert [row.batches for row in rows][-1] == 24
    assert min(row.batches for row in rows) > 12
    assert parts.store.get(Trial, TARGET).validations == 2
    assert parts.events() == [f"goes on from checkpoint {start.checkpoint}, batch 12"]


def test_everything_is_interrupted_and_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole, parts = Bench(tmp_path / "one"), Bench(tmp_path / "two")
    straight = whole.train(SOURCE, 4)
    parts.train(SOURCE, 2)
    start = WarmStart(checkpoint=parts.newest(SOURCE).id, what="everything")
    parts.train(TARGET, 4, start=start, stop=lambda context: context.batch == 15)
    assert parts.newest(TARGET).batches == 15
    went_on = parts.train(TARGET, 4, start=start)
    assert weights(went_on) == weights(straight)
    assert len(parts.events()) == 1


def test_weights_alone_start_from_batch_nothing_with_a_fresh_optimizer(place: Bench) -> None:
    source = place.train(SOURCE, 2)
    found: dict[str, Any] = {}

    class Looking(TinyTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 0:
                found["weights"] = weights(self.context)
                found["moments"] = len(self.optimizer.state)
            return super().train_batch(batch, epoch_idx, batch_idx)

    start = WarmStart(checkpoint=place.newest(SOURCE).id)
    context = place.train(TARGET, 1, start=start, seed=5, kind=Looking)
    assert found["weights"] == weights(source)
    assert found["moments"] == 0
    assert context.batch == 6
    assert place.events() == [
        f"starts from the weights of checkpoint {start.checkpoint}: 9 tensors"
    ]


def test_a_model_that_does_not_fit_is_told_by_the_names_that_do_not(place: Bench) -> None:
    place.train(SOURCE, 1)
    start = WarmStart(checkpoint=place.newest(SOURCE).id)
    with pytest.raises(TrialError) as caught:
        place.train(TARGET, 1, start=start, kind=Wider)
    assert "does not fit the model Sequential" in caught.value.what
    assert caught.value.why.splitlines() == [
        "1 not in this model: 0.bias",
        "2 of another shape: 4.weight (1×8 there, 3×8 here), 4.bias (1 there, 3 here)",
    ]
    assert "load the 6 that fit with `--partial`" in caught.value.mend
    assert place.store.get(Trial, TARGET).checkpoint == ""


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_partial_takes_what_fits_and_says_how_much(place: Bench) -> None:
    place.train(SOURCE, 1)
    start = WarmStart(checkpoint=place.newest(SOURCE).id, partial=True)
    place.train(TARGET, 1, start=start, kind=Wider)
    assert place.events()[0].endswith("6 of 8 tensors")


def test_an_imported_model_starts_a_trial_and_nothing_else(place: Bench, tmp_path: Path) -> None:
    context = PyTorchTrialContext(Setting(hparams=HPARAMS))
    TinyTrial(context)
    (model,) = context.models
    torch.save(model.state_dict(), tmp_path / "m.pt")
    foreign = open_torch(tmp_path / "m.pt")
    record = import_model(open_blobs(place.blobs_url), place.store, foreign, SystemClock())
    place.train(TARGET, 1, start=WarmStart(checkpoint=record.id))
    assert place.events()[0].endswith("9 tensors")
    update(place.store, Trial, TARGET, lambda t: t.model_copy(update={"checkpoint": ""}))
    everything = WarmStart(checkpoint=record.id, what="everything")
    with pytest.raises(TrialError, match="does not hold the state of a trial class"):
        place.train(SOURCE, 1, start=everything)


class Words(TinyTrial):
    """With a frozen embedding of 5 MB beside what is trained."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        context.wrap_model(nn.Embedding(1300, 1000).requires_grad_(False))
        super().__init__(context)


def test_a_layer_that_stays_as_it_was_imported_is_not_written_again(
    place: Bench, tmp_path: Path
) -> None:
    torch.save(nn.Embedding(1300, 1000).state_dict(), tmp_path / "words.pt")
    blobs = open_blobs(place.blobs_url)
    record = import_model(blobs, place.store, open_torch(tmp_path / "words.pt"), SystemClock())
    place.train(TARGET, 1, start=WarmStart(checkpoint=record.id, partial=True), kind=Words)
    manifest = Manifest.decode(blobs.get(place.newest(TARGET).manifest))
    borrowed = [entry for entry in manifest.tensors if "/imports/" in entry.key]
    assert [entry.size > 5_000_000 for entry in borrowed] == [True]
    assert sum(e.size for e in manifest.tensors if e not in borrowed) < 100_000
    delete(blobs, place.store, unpin(place.store, record.id))
    assert rehearse(blobs, place.newest(TARGET)).good
    assert blobs.info(record.manifest) is None


# --- models alone ------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.norm = nn.BatchNorm1d(4)


def test_a_tensor_that_is_tied_to_one_that_is_there_is_not_missing() -> None:
    saved = {n: v for n, v in Tied().state_dict().items() if n != "head.weight"}
    live = Tied()
    assert fit(live, saved).whole
    load_weights([live], {"models": [saved]}, checkpoint="c")
    assert torch.equal(live.head.weight, saved["embed.weight"])
    assert live.head.weight is live.embed.weight


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of its compiler
@pytest.mark.parametrize("compiled_there", [True, False])
def test_compiling_a_model_does_not_change_what_fits(compiled_there: bool) -> None:
    plain, other = Tied(), Tied()
    compiled: Any = torch.compile(other)
    source, target = (compiled, plain) if compiled_there else (plain, compiled)
    load_weights([target], {"models": [source.state_dict()]}, checkpoint="c")
    assert torch.equal(plain.embed.weight, other.embed.weight)


def test_lazy_modules_take_the_shapes_of_the_weights() -> None:
    source: Any = nn.Sequential(nn.Linear(3, 2))
    live: Any = nn.Sequential(nn.LazyLinear(2))
    load_weights([live], {"models": [source.state_dict()]}, checkpoint="c")
    assert torch.equal(live[0].weight, source[0].weight)


def test_a_misfit_changes_nothing() -> None:
    live = nn.ModuleList([nn.Linear(3, 2), nn.Linear(2, 2)])
    before = {name: value.clone() for name, value in live.state_dict().items()}
    saved = nn.ModuleList([nn.Linear(3, 2), nn.Linear(2, 9)]).state_dict()
    with pytest.raises(TrialError):
        load_weights([live], {"models": [saved]}, checkpoint="c")
    assert all(torch.equal(before[name], value) for name, value in live.state_dict().items())


def test_nothing_that_fits_is_an_error_even_where_a_part_would_do() -> None:
    with pytest.raises(TrialError, match="does not fit") as caught:
        load_weights(
            [nn.Linear(3, 2)], {"models": [nn.Linear(9, 9).state_dict()]}, checkpoint="c",
            partial=True,
        )  # fmt: skip
    assert "nothing fits" in caught.value.mend


def test_another_number_of_models_is_told() -> None:
    saved = {"models": [nn.Linear(3, 2).state_dict()] * 2}
    with pytest.raises(TrialError, match="holds 2 models and this trial wraps 1"):
        load_weights([nn.Linear(3, 2)], saved, checkpoint="c")
    text = load_weights([nn.Linear(3, 2)], saved, checkpoint="c", partial=True)
    assert text == "2 tensors"


def test_a_checkpoint_without_a_model_is_told() -> None:
    with pytest.raises(TrialError, match="holds no model"):
        load_weights([nn.Linear(3, 2)], {"state": {"step": 1}}, checkpoint="c")


def test_whole_weights_start_a_sharded_model_with_its_own_part() -> None:
    source: Any = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    with world(1, 2):
        live: Any = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3))
        fully_shard(live, mesh=mesh_of((2,)))
        before = live[1].weight.to_local().clone()
        text = load_weights(
            [live], {"models": [source.state_dict()]}, checkpoint="c", partial=True
        )
        assert text == "2 of 4 tensors"
        assert torch.equal(live[0].weight.to_local(), source[0].weight[3:])
        assert torch.equal(live[1].weight.to_local(), before)


# --- scripts -----------------------------------------------------------------------------------


def test_a_script_starts_from_whatever_a_model_was_saved_by(place: Bench) -> None:
    model = nn.Linear(3, 2)
    writer = place.core(SOURCE)
    writer.save({"net": model.state_dict(), "step": 7}, batches=9)
    writer.close()
    reader = place.core(TARGET, place.newest(SOURCE).id)
    found = reader.restore()
    assert found is not None
    assert (found.warm, found.batches, found.state["step"]) == (True, 0, 7)
    live = nn.Linear(3, 2)
    assert found.load_weights(live) == "2 tensors"
    assert torch.equal(live.weight, model.weight)
    assert reader.saved_at is None
    reader.save({"net": live.state_dict()}, batches=1)
    reader.close()
    again = place.core(TARGET, place.newest(SOURCE).id)
    own = again.restore()
    assert own is not None
    assert (own.warm, own.batches) == (False, 1)
    again.close()


def test_a_script_goes_on_with_everything(place: Bench) -> None:
    writer = place.core(SOURCE)
    writer.save({"w": torch.ones(3)}, batches=9, own="mine")
    expected = torch.rand(4)
    writer.close()
    reader = place.core(TARGET, place.newest(SOURCE).id, everything=True)
    found = reader.restore()
    assert found is not None
    assert (found.warm, found.batches, found.own) == (True, 9, "mine")
    found.restore_random_state()
    assert torch.equal(torch.rand(4), expected)
    assert place.session.flush(60)
    assert place.events() == [f"goes on from checkpoint {place.newest(SOURCE).id}, batch 9"]
    reader.close()


def test_a_script_names_the_model_it_wants_where_there_are_several(place: Bench) -> None:
    one, two = nn.Linear(3, 2), nn.Linear(4, 2)
    writer = place.core(SOURCE)
    writer.save({"nets": {"g": one.state_dict(), "d": two.state_dict()}}, batches=1)
    writer.close()
    reader = place.core(TARGET, place.newest(SOURCE).id)
    found = reader.restore()
    assert found is not None
    with pytest.raises(Exception, match=r"holds several models") as caught:
        found.load_weights(nn.Linear(4, 2))
    assert "nets.g, nets.d" in str(caught.value)
    with pytest.raises(Exception, match="no model 'x'"):
        found.load_weights(nn.Linear(4, 2), name="x")
    live = nn.Linear(4, 2)
    found.load_weights(live, name="nets.d")
    assert torch.equal(live.weight, two.weight)
    reader.close()


def test_a_script_that_never_asks_for_its_start_is_told(place: Bench) -> None:
    writer = place.core(SOURCE)
    writer.save({"w": torch.ones(3)}, batches=1)
    writer.close()
    reader = place.core(TARGET, place.newest(SOURCE).id)
    reader.close()
    assert place.session.flush(60)
    assert place.events() == [
        f"this script did not start from {place.newest(SOURCE).id}, as it never calls "
        "context.checkpoint.restore()"
    ]
