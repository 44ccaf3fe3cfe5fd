"""A trial's whole state, in the two halves that the checkpoint port knows.

Taken at a batch boundary, after the learning-rate schedulers have stepped. Gradients that are
accumulated but not yet applied are part of it, so that any boundary will do, also one in the
middle of an accumulation: a drain never has to wait for the end of one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from burst.harness.checkpoints.codec import rng
from burst.harness.checkpoints.shards import Like, is_sharded, shard_like
from burst.harness.errors import TrialError
from burst.harness.trial import optimizer_state
from burst.harness.trial.callbacks import PyTorchCallback
from burst.harness.trial.exports import export_of
from burst.harness.trial.held import Held, Position, Sums
from burst.harness.trial.model_state import (
    ModelState,
    look_at,
    set_buffers,
    set_gradients,
    set_modes,
)
from burst.harness.trial.structure import Structure, differences, misfit, structure_of


@dataclass
class TrialState:
    """The living parts that a checkpoint is taken from and put back into."""

    context: Held
    callbacks: Mapping[str, PyTorchCallback]
    metrics: Sums
    source: Position
    _exported: dict[str, Any] | None = None

    def look(self) -> list[ModelState]:
        """At the models, once for both halves. Tensors are the live ones."""
        beyond_first = self.context.distributed.rank > 0
        return [look_at(model, every_buffer=beyond_first) for model in self.context.models]

    def shared(self, models: Sequence[ModelState]) -> dict[str, Any]:
        """What every rank holds alike."""
        context = self.context
        return {
            "models": [model.saved for model in models],
            "modes": [model.modes for model in models],
            "gradients": [model.shared_gradients for model in models],
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

    def own(self, models: Sequence[ModelState]) -> dict[str, Any]:
        """What this rank alone holds. The random states are taken last."""
        return {
            "gradients": [model.own_gradients for model in models],
            "buffers": [model.buffers for model in models],
            "metrics": self.metrics.state(),
            "reducers": [wrapped.reducer.state_dict() for wrapped in self.context.reducers],
            "source": self.source.state(),
            "stop_requested": self.context.stop_requested,
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

    def structure(self) -> Structure:
        """What the trial is made of now."""
        context = self.context
        models = list(context.models)
        optimizers = [wrapped.optimizer for wrapped in context.optimizers]
        made = structure_of([model.state_dict(keep_vars=True) for model in models], optimizers)
        return replace(made, classes=(_classes(models), _classes(optimizers)))

    def load_shared(self, state: Mapping[str, Any]) -> None:
        """Put back the half that all ranks hold alike. What lies in the models' own tensors
        already, as `into` gave them, is not copied again; what is whole is sharded as they are.

        Raises:
            TrialError: if the trial is not made of what was saved, naming all that differs.
        """
        try:
            self._load_shared(state)
        except TrialError:
            saved = structure_of(state["models"], state["optimizers"])
            found = differences(saved, self.structure())
            if not found:
                raise
            raise misfit(found) from None

    def _load_shared(self, state: Mapping[str, Any]) -> None:
        context = self.context
        _same_number("optimizers", state["optimizers"], len(context.optimizers))
        _same_number("learning-rate schedulers", state["lr_schedulers"], len(context.schedulers))
        _same_number("gradient scalers", state["scalers"], len(context.scalers))
        self.load_models(state)
        for model, modes in zip(context.models, state["modes"], strict=True):
            set_modes(model, modes)
        for model, summed in zip(context.models, state.get("gradients", ()), strict=False):
            set_gradients(model, summed, sharded=True)
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
            set_buffers(model, buffers)
            if gradients:
                set_gradients(model, summed, sharded=False)
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


def _classes(objects: Sequence[Any]) -> tuple[str, ...]:
    return tuple(type(each).__name__ for each in objects)


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
