"""Sharded models in a trial: how they are wrapped, and how their state goes out and in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from burst.harness.checkpoints import shards
from burst.harness.checkpoints.codec import tree
from burst.harness.distributed import DistributedContext, Place
from burst.harness.errors import TrialError
from burst.harness.session import Session
from burst.harness.trial import optimizer_state
from burst.harness.trial.callbacks import PyTorchCallback
from burst.harness.trial.context import PyTorchTrialContext, Setting
from burst.harness.trial.metrics import TrainingMetrics
from burst.harness.trial.models import Models, distribute
from burst.harness.trial.regrouping import take_over
from burst.harness.trial.state import TrialState
from burst.harness.trial.validation import Validation
from tests.harness.checkpoints.shard_support import Folder, Seat, mesh_of, save, world
from tests.harness.checkpoints.support import same

CPU = torch.device("cpu")


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))


def in_shards(ranks: int) -> nn.Module:
    model = layers()
    fully_shard(model, mesh=mesh_of((ranks,)))
    return model


@pytest.fixture
def second_of_two() -> Iterator[DistributedContext]:
    with world(1, 2):
        yield DistributedContext(Place(rank=1, size=2, local_rank=1, local_size=2))


def test_a_sharded_model_is_left_to_fsdp(second_of_two: DistributedContext) -> None:
    model = in_shards(2)
    wrapped = distribute(model, CPU, second_of_two)
    assert wrapped is model
    assert not isinstance(wrapped, DistributedDataParallel)
    models = Models()
    models.add(wrapped)
    assert models.sharded


def test_a_model_that_is_sharded_in_part_is_refused(second_of_two: DistributedContext) -> None:
    model = layers()
    fully_shard(model[0], mesh=mesh_of((2,)))
    with pytest.raises(TrialError, match=r"sharded in part: 1\.weight") as caught:
        distribute(model, CPU, second_of_two)
    assert "fully_shard on the model itself" in caught.value.mend
    for parameter in model[1:].parameters():
        parameter.requires_grad_(False)
    assert distribute(model, CPU, second_of_two) is model


def test_rank_0_alone_cannot_evaluate_a_sharded_model(second_of_two: DistributedContext) -> None:
    context = PyTorchTrialContext(Setting(), Session(distributed=second_of_two))
    context.models.add(in_shards(2))
    validation = Validation(None, context, [], by_batch=False)  # type: ignore[arg-type]
    with pytest.raises(TrialError, match="rank 0 alone"):
        validation._in_full()


def trained(ranks: int) -> tuple[PyTorchTrialContext, TrialState]:
    """A context in the middle of an accumulation, its model sharded as rank 0 of so many."""
    context = PyTorchTrialContext(Setting())
    model = in_shards(ranks) if ranks else layers()
    context.models.add(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    context.wrap_optimizer(optimizer)
    callbacks: dict[str, PyTorchCallback] = {}
    state = TrialState(context, callbacks, TrainingMetrics(), None)  # type: ignore[arg-type]
    return context, state


def step(context: PyTorchTrialContext) -> None:
    """One step, and a gradient that waits for the next; element by element, so that a shard does
    what the same elements of the whole do."""
    (wrapped,) = context.optimizers
    for parameter in wrapped.parameters():
        parameter.grad = parameter.detach().sin()
    wrapped.optimizer.step()
    for parameter in wrapped.parameters():
        parameter.grad = parameter.detach().cos()


def test_shards_of_parameters_and_moments_are_their_optimizers() -> None:
    with world(0, 2):
        context, state = trained(2)
        step(context)
        encoded = tree.encode(state.shared(state.look()), "shared")
        (wrapped,) = context.optimizers
        owned = {encoded.tensors[i].name for i in shards.owned_by([wrapped.optimizer], encoded)}
    every = {item.name for item in encoded.tensors}
    rest = {name for name in every if name.startswith("gradients") or ".1.running" in name}
    assert owned == every - rest - {"models.0.1.num_batches_tracked"}


def gradients_of(context: PyTorchTrialContext) -> dict[str, Any]:
    (model,) = context.models
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def test_a_state_saved_whole_goes_on_in_shards_in_the_live_memory() -> None:
    context, state = trained(0)
    step(context)
    folder = Folder()
    save(folder, {**state.shared(state.look()), "gradients": [gradients_of(context)]}, 1)
    step(context)
    (whole,) = (model.state_dict() for model in context.models)
    for rank in range(2):
        with world(rank, 2):
            resumed, other = trained(2)
            (model,) = resumed.models
            places = {name: memory(tensor) for name, tensor in model.state_dict().items()}
            back = folder.load(other.into())
            live = model.state_dict(keep_vars=True)
            assert all(back["models"][0][name] is live[name] for name in live)
            other.load_shared(back)
            step(resumed)
            now = model.state_dict()
            assert {name: memory(tensor) for name, tensor in now.items()} == places
            for name, tensor in now.items():
                sharded = shards.is_sharded(tensor)
                expected = shards.shard_like(whole[name], tensor) if sharded else whole[name]
                assert same(plain(tensor), plain(expected))


def memory(tensor: torch.Tensor) -> int:
    return shards.local_of(tensor).data_ptr()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    return shards.local_of(tensor).detach().clone()


def test_a_state_saved_in_shards_is_the_whole_one_gradients_and_moments_too() -> None:
    context, state = trained(0)
    step(context)
    whole = {**state.shared(state.look()), "gradients": [gradients_of(context)]}
    folder, parts = Folder(), Folder()
    save(folder, whole, 1)
    for rank in range(3):
        with world(rank, 3):
            resumed, sharded = trained(3)
            sharded.load_shared(folder.load(sharded.into()))
            assert all(shards.is_sharded(g) for g in gradients_of(resumed).values())
            encoded = tree.encode(sharded.shared(sharded.look()), "shared")
            parts.write(encoded, shards.divide(encoded, Seat(rank, 3)), rank)
    back = parts.load()
    assert same(dict(back["models"][0]), dict(whole["models"][0]))
    assert same(back["gradients"], whole["gradients"])
    assert same(back["optimizers"], whole["optimizers"])


def test_whole_moments_are_cut_to_the_shards_of_their_parameters() -> None:
    context, _ = trained(0)
    step(context)
    (wrapped,) = context.optimizers
    saved = optimizer_state.capture(wrapped.optimizer)
    with world(1, 2):
        resumed, _ = trained(2)
        (other,) = resumed.optimizers
        optimizer_state.restore(other.optimizer, saved)
        for values, whole in zip(
            other.optimizer.state.values(), wrapped.optimizer.state.values(), strict=True
        ):
            like = values["exp_avg"]
            assert shards.is_sharded(like)
            assert same(plain(like), plain(shards.shard_like(whole["exp_avg"], like)))
            assert not shards.is_sharded(values["step"])


# --- other numbers of ranks --------------------------------------------------------------------


def half(gradients: Any, loss: float, batches: int) -> dict[str, Any]:
    """What a rank had for itself."""
    metrics = TrainingMetrics()
    for batch in range(batches):
        metrics.add(batch, loss)
    return {"gradients": [gradients], "metrics": metrics.state()}


def test_what_ranks_that_are_gone_had_summed_up_is_averaged() -> None:
    context, _ = trained(0)
    (model,) = context.models
    names = [name for name, _ in model.named_parameters()]
    sums = [
        {name: torch.full_like(p, rank + 1.0) for name, p in model.named_parameters()}
        for rank in range(3)
    ]
    del sums[2][names[0]]  # a parameter that one rank's batches have not used
    halves = [half(each, loss=2.0 * rank, batches=2) for rank, each in enumerate(sums)]
    metrics = TrainingMetrics()
    metrics.load_state(halves[0]["metrics"])
    assert take_over(context, metrics, halves, before=3) == []
    found = gradients_of(context)
    assert (found.pop(names[0]) == 1.0).all()
    assert all((gradient == 2.0).all() for gradient in found.values())
    assert metrics.reduce(context.distributed)[0] == {"loss": 2.0}


def test_sparse_sums_and_custom_metrics_of_ranks_that_are_gone_are_said_to_be_left_out() -> None:
    context, _ = trained(0)
    context.wrap_reducer(max, name="largest")
    sparse = {"0.weight": {"indices": torch.zeros(1, 0)}}
    left_out = take_over(context, TrainingMetrics(), [half({}, 1, 1), half(sparse, 1, 1)], 2)
    assert [text.split()[0] for text in left_out] == ["sparse", "what"]
    assert not any(g is not None for g in gradients_of(context).values())
