"""A trial's whole state, in the two halves that the checkpoint port knows.

Taken at a batch boundary, after the learning-rate schedulers have stepped. Gradients that are
accumulated but not yet applied are part of it, so that any boundary will do, also one in the
middle of an accumulation: a drain never has to wait for the end of one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from burst.harness.checkpoints.codec import rng
from burst.harness.checkpoints.shards import Like, is_sharded, shard_like
from burst.harness.data.port import BatchSource
from burst.harness.errors import TrialError
from burst.harness.trial import optimizer_state
from burst.harness.trial.callbacks import PyTorchCallback
from burst.harness.trial.context import PyTorchTrialContext
from burst.harness.trial.exports import export_of
from burst.harness.trial.metrics import TrainingMetrics


@dataclass
class TrialState:
    """The living parts that a checkpoint is taken from and put back into."""

    context: PyTorchTrialContext
    callbacks: Mapping[str, PyTorchCallback]
    metrics: TrainingMetrics
    source: BatchSource
    _exported: dict[str, Any] | None = None

    def shared(self) -> dict[str, Any]:
        """What every rank holds alike."""
        context = self.context
        return {
            "models": [model.state_dict() for model in context.models],
            "modes": [_modes(model) for model in context.models],
            "gradients": [_gradients(model, sharded=True) for model in context.models],
            "optimizers": [optimizer_state.capture(w.optimizer) for w in context.optimizers],
            "steps": [wrapped.steps for wrapped in context.optimizers],
            "lr_schedulers": [s.scheduler.state_dict() for s, _ in context.schedulers],
            "scalers": [scaler.state_dict() for scaler in context.scalers],
            "callbacks": {name: each.state_dict() for name, each in self.callbacks.items()},
            "batch": context.batch,
            "exports": self._exports(),
        }

    def _exports(self) -> dict[str, Any]:
        """What others need to load the models; looked at once, as training does not change it."""
        if self._exported is None:
            self._exported = {
                "models": [export_of(model) for model in self.context.models],
                "tokenizer": self.context.tokenizer_files,
            }
        return self._exported

    def own(self) -> dict[str, Any]:
        """What this rank alone holds. The random states are taken last."""
        context = self.context
        rank = context.distributed.rank
        return {
            "gradients": [_gradients(model, sharded=False) for model in context.models],
            "buffers": [_buffers(model, everything=rank > 0) for model in context.models],
            "metrics": self.metrics.state(),
            "reducers": [wrapped.reducer.state_dict() for wrapped in context.reducers],
            "source": self.source.state(),
            "stop_requested": context.stop_requested,
            "rng": rng.capture(),
        }

    def into(self) -> dict[str, Any]:
        """The tensors to restore into, in the shape of `shared`: models are filled where they
        are, and states that optimizers have not made yet are sharded as their parameters."""
        return {
            "models": [model.state_dict(keep_vars=True) for model in self.context.models],
            "gradients": [
                {name: Like(parameter) for name, parameter in model.named_parameters()}
                for model in self.context.models
            ],
            "optimizers": [
                {"state": optimizer_state.likenesses(wrapped.optimizer)}
                for wrapped in self.context.optimizers
            ],
        }

    def load_shared(self, state: Mapping[str, Any]) -> None:
        """Put back the half that all ranks hold alike. What lies in the models' own tensors
        already, as `into` gave them, is not copied again; what is whole is sharded as they are.

        Raises:
            TrialError: if the trial's code no longer makes what was saved.
        """
        context = self.context
        _same_number("optimizers", state["optimizers"], len(context.optimizers))
        _same_number("learning-rate schedulers", state["lr_schedulers"], len(context.schedulers))
        _same_number("gradient scalers", state["scalers"], len(context.scalers))
        self.load_models(state)
        for model, modes in zip(context.models, state["modes"], strict=True):
            _set_modes(model, modes)
        for model, summed in zip(context.models, state.get("gradients", ()), strict=False):
            _set_gradients(model, summed, sharded=True)
        for wrapped, saved, steps in zip(
            context.optimizers, state["optimizers"], state["steps"], strict=True
        ):
            optimizer_state.restore(wrapped.optimizer, saved)
            wrapped.steps = steps
        for (scheduler, _), saved in zip(context.schedulers, state["lr_schedulers"], strict=True):
            scheduler.scheduler.load_state_dict(saved)
        for scaler, saved in zip(context.scalers, state["scalers"], strict=True):
            if saved and scaler.is_enabled():
                scaler.load_state_dict(saved)
        for name, callback in self.callbacks.items():
            if name in state["callbacks"]:
                callback.load_state_dict(state["callbacks"][name])
        context.batch = context.initial_batch = state["batch"]

    def load_models(self, state: Mapping[str, Any]) -> None:
        """Put back parameters and buffers alone, as a warm start does."""
        context = self.context
        _same_number("models", state["models"], len(context.models))
        for model, saved in zip(context.models, state["models"], strict=True):
            load_model(model, saved)

    def load_own(self, state: Mapping[str, Any], *, gradients: bool = True) -> None:
        """Put back this rank's half, but for the random states, which come last of all.

        Args:
            gradients: whether accumulated gradients are of this very number of ranks.
        """
        context = self.context
        for model, summed, buffers in zip(
            context.models, state["gradients"], state["buffers"], strict=True
        ):
            _set_buffers(model, buffers)
            if gradients:
                _set_gradients(model, summed, sharded=False)
        self.metrics.load_state(state["metrics"])
        for wrapped, saved in zip(context.reducers, state["reducers"], strict=True):
            wrapped.reducer.load_state_dict(saved)
        context.stop_requested = state["stop_requested"]
        if state["source"] is not None:
            self.source.load_state(state["source"])


def load_model(model: nn.Module, saved: Mapping[str, Any]) -> None:
    """Put a model's parameters and buffers back.

    Raises:
        TrialError: if the model is another one than was saved.
    """
    try:
        model.load_state_dict(_sharded_as(model, saved), strict=True)
    except RuntimeError as error:
        raise TrialError(
            f"the checkpoint does not fit the model {type(model).__name__}",
            why=str(error),
            mend="the code or the hyperparameters changed: start a new trial",
        ) from None


def _sharded_as(model: nn.Module, saved: Mapping[str, Any]) -> Mapping[str, Any]:
    """A saved model with whole tensors cut to shards where the live ones are."""
    live = model.state_dict(keep_vars=True)
    cut = {
        name: shard_like(value, live[name])
        for name, value in saved.items()
        if isinstance(value, torch.Tensor)
        and not is_sharded(value)
        and is_sharded(live.get(name))
        and value.shape == live[name].shape
    }
    if not cut:
        return saved
    out = OrderedDict(saved, **cut)
    out._metadata = getattr(saved, "_metadata", None)  # type: ignore[attr-defined]
    return out


def _same_number(what: str, saved: list[Any], now: int) -> None:
    if len(saved) != now:
        raise TrialError(
            f"the checkpoint holds {len(saved)} {what} and the trial wrapped {now}",
            mend="the trial has to wrap the same as when the checkpoint was written",
        )


def _modes(model: nn.Module) -> dict[str, list[str]]:
    return {
        "evaluating": [name for name, module in model.named_modules() if not module.training],
        "frozen": [name for name, p in model.named_parameters() if not p.requires_grad],
    }


def _set_modes(model: nn.Module, modes: Mapping[str, list[str]]) -> None:
    evaluating, frozen = set(modes["evaluating"]), set(modes["frozen"])
    for name, module in model.named_modules():
        module.training = name not in evaluating
    for name, parameter in model.named_parameters():
        if parameter.requires_grad == (name in frozen):
            parameter.requires_grad_(name not in frozen)


def _gradients(model: nn.Module, *, sharded: bool) -> dict[str, Any]:
    """What is summed up so far. Gradients of a sharded model are averaged over the ranks at once,
    and so belong to all of them; others are each rank's own until an optimizer steps."""
    gradients = ((name, p.grad) for name, p in model.named_parameters())
    return {
        name: _parts_of(gradient) if gradient.is_sparse else gradient
        for name, gradient in gradients
        if gradient is not None and is_sharded(gradient) == sharded
    }


def _set_gradients(model: nn.Module, gradients: Mapping[str, Any], *, sharded: bool) -> None:
    for name, parameter in model.named_parameters():
        if is_sharded(parameter) != sharded:
            continue
        gradient = gradients.get(name)
        if isinstance(gradient, Mapping):
            gradient = _sparse_of(gradient)
        elif gradient is not None and sharded and not is_sharded(gradient):
            gradient = shard_like(gradient, parameter)
        parameter.grad = None if gradient is None else gradient.to(parameter.device)


def _parts_of(sparse: torch.Tensor) -> dict[str, Any]:
    """A sparse gradient as dense tensors. Kept as it is, in the order and with the repetitions
    that it was summed with, since an optimizer's sums depend on them."""
    return {
        "indices": sparse._indices(),
        "values": sparse._values(),
        "size": list(sparse.shape),
        "coalesced": sparse.is_coalesced(),
    }


def _sparse_of(parts: Mapping[str, Any]) -> torch.Tensor:
    return torch.sparse_coo_tensor(
        parts["indices"],
        parts["values"],
        parts["size"],
        is_coalesced=parts["coalesced"],
        check_invariants=False,
    )


def _buffers(model: nn.Module, everything: bool) -> dict[str, torch.Tensor]:
    """Buffers that the model's own state leaves out; on ranks beyond the first, all of them,
    because theirs may differ from the saved rank 0's in the middle of an accumulation."""
    kept = set(model.state_dict(keep_vars=True))
    return {
        name: buffer for name, buffer in model.named_buffers() if everything or name not in kept
    }


def _set_buffers(model: nn.Module, buffers: Mapping[str, torch.Tensor]) -> None:
    for path, module in _owners(model, buffers):
        name = path.rpartition(".")[2]
        live = module._buffers.get(name)
        saved = buffers[path]
        if live is not None and live.shape == saved.shape and live.dtype == saved.dtype:
            with torch.no_grad():
                live.copy_(saved)
        else:
            module._buffers[name] = saved if live is None else saved.to(live.device)


def _owners(model: nn.Module, names: Mapping[str, Any]) -> Iterator[tuple[str, nn.Module]]:
    modules = dict(model.named_modules())
    for path in names:
        owner = modules.get(path.rpartition(".")[0])
        if owner is not None:
            yield path, owner
