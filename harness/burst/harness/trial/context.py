"""`PyTorchTrialContext`: what a trial is given, and where it hands over what burst manages."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from burst.core.config.experiment import Optimizations, WarmStart
from burst.harness.determinism import Mode
from burst.harness.errors import TrialError, did_you_mean
from burst.harness.interpolate import lookup
from burst.harness.precision import check_bfloat16, hardware_of
from burst.harness.session import Session
from burst.harness.trial import given
from burst.harness.trial.exports import tokenizer_files
from burst.harness.trial.lr_scheduler import LRScheduler, StepMode
from burst.harness.trial.models import Models, bare, distribute, to_device
from burst.harness.trial.optimizers import ClipGrads, Optimizers, WrappedOptimizer
from burst.harness.trial.reducers import FunctionReducer, MetricReducer, WrappedReducer
from burst.harness.trial.scaling import LEAST, ScaleGuard


@dataclass(frozen=True)
class Setting:
    """What surrounds a trial."""

    hparams: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """The normalised experiment file; empty outside an experiment."""
    experiment: str = ""
    trial: str = ""
    seed: int = 0
    device: str = "cpu"
    mode: Mode = "seeded"
    optimizations: Optimizations = field(default_factory=Optimizations)
    start: WarmStart | None = None
    """What to take of another trial's checkpoint, while this one has none."""


class PyTorchTrialContext:
    """A trial's way to burst. Wrap in `__init__`; use the rest anywhere."""

    def __init__(self, setting: Setting, session: Session | None = None) -> None:
        self.session = session or Session()
        self.distributed = self.session.distributed
        self.device = torch.device(setting.device)
        self.experimental = Experimental(self)
        self.models = Models()
        optimizations = setting.optimizations
        self.optimizers = Optimizers(
            optimizations.aggregation_frequency, optimizations.average_aggregated_gradients
        )
        self.schedulers: list[tuple[LRScheduler, WrappedOptimizer]] = []
        self.scalers: list[torch.amp.GradScaler] = []
        self._guards: list[ScaleGuard] = []
        self.reducers: list[WrappedReducer] = []
        self.tokenizer_files: dict[str, bytes] = {}
        """By name: kept in checkpoints for those who load the model elsewhere."""
        self.scale_epoch: int | None = None
        self.batch = 0
        """Batches trained so far: the index of the batch in progress."""
        self.initial_batch = 0
        self.stop_requested = False
        self.auto_to_device = True
        self.autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.setting = setting
        self._mixed(optimizations.mixed_precision)

    # --- wrapping ---------------------------------------------------------------------------

    def wrap_model(self, model: nn.Module) -> nn.Module:
        """Hand over a model; returns it on its device, and data-parallel over several ranks. Make
        optimizers from the parameters of what this returns."""
        takes = "`wrap_model` takes a torch.nn.Module"
        given.instance(model, nn.Module, takes, "self.model = context.wrap_model(Net())")
        if any(bare(model) is known for known in self.models):
            raise TrialError(
                f"this {type(model).__name__} is wrapped already",
                why="it would be saved twice, and its gradients averaged twice",
                mend="wrap it once, and use what `wrap_model` returns",
            )
        wrapped = distribute(model, self.device, self.distributed)
        self.models.add(wrapped)
        return wrapped

    def wrap_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        backward_passes_per_step: int = 1,
        fp16_compression: bool | None = None,
        average_aggregated_gradients: bool | None = None,
    ) -> torch.optim.Optimizer:
        """Hand over an optimizer.

        Args:
            backward_passes_per_step: calls of `backward` in one `train_batch` before its step;
                their gradients add up.
            fp16_compression: not supported; only None and False are taken.
            average_aggregated_gradients: divide by the number of batches accumulated
                (`optimizations.aggregation_frequency`); None is the experiment's setting.
        """
        if fp16_compression:
            raise TrialError(
                "fp16_compression is not supported",
                why="gradients rounded on their way make a run depend on its number of ranks",
                mend="leave it out",
            )
        return self.optimizers.add(
            optimizer, backward_passes_per_step, average_aggregated_gradients
        )

    def wrap_lr_scheduler(self, lr_scheduler: Any, step_mode: StepMode, frequency: int = 1) -> Any:
        """Hand over a scheduler of a wrapped optimizer; the loop steps it as `step_mode` says."""
        given.scheduler(lr_scheduler)
        on_metric = isinstance(lr_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
        if on_metric and step_mode is not StepMode.MANUAL_STEP:
            raise TrialError(
                "ReduceLROnPlateau steps on a metric",
                mend="use LRScheduler.StepMode.MANUAL_STEP and call its step(metric), for "
                "example in on_validation_end",
            )
        wrapped = self.optimizers.find(lr_scheduler.optimizer)
        self.schedulers.append((LRScheduler(lr_scheduler, step_mode, frequency), wrapped))
        return lr_scheduler

    def wrap_scaler(
        self, scaler: torch.amp.GradScaler, least_scale: float | None = LEAST
    ) -> torch.amp.GradScaler:
        """Hand over a GradScaler, so that it is saved, and its scale reported as `grad_scale`;
        give it to `step_optimizer` as well.

        Args:
            least_scale: where its scale stays when every batch overflows; None lets it fall.
        """
        takes, mend = "`wrap_scaler` takes a torch.amp.GradScaler", "make it with GradScaler()"
        given.instance(scaler, torch.amp.GradScaler, takes, mend)
        self.scalers.append(scaler)
        self._guards.append(ScaleGuard(least_scale))
        return scaler

    def wrap_reducer(
        self,
        reducer: Callable[[list[Any]], Any] | MetricReducer,
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> Any:
        """Hand over a MetricReducer, or a function of all values that are given to `.update()` of
        what this returns. Its metric is called `name` (needed for a function that returns one)."""
        given.reducer(reducer, name)
        if not isinstance(reducer, MetricReducer):
            reducer = FunctionReducer(reducer)
        reducer.reset()
        self.reducers.append(WrappedReducer(reducer, name, for_training, for_validation))
        return reducer

    def register_tokenizer(self, tokenizer: Any) -> Any:
        """Keep a tokenizer (or processor) of transformers in checkpoints, as it is now, so that
        `burst checkpoint download` writes it beside the model; returns it.

        Raises:
            TrialError: it does not write files, or too large ones.
        """
        self.tokenizer_files.update(tokenizer_files(tokenizer))
        return tokenizer

    # --- training ---------------------------------------------------------------------------

    def backward(self, loss: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        """`loss.backward`, scaled where `experimental.use_amp()` or fp16 is on."""
        given.loss(loss)
        scaler = self.experimental.scaler
        scaled: Any = loss if scaler is None else scaler.scale(loss)
        scaled.backward(*args, **kwargs)

    def step_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        clip_grads: ClipGrads | None = None,
        auto_zero_grads: bool = True,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        """Step, if this batch ends an accumulation; otherwise nothing. Gradients are averaged
        over the accumulated batches, then unscaled, then clipped.

        Args:
            clip_grads: is given the parameters, with their true gradients.
            auto_zero_grads: zero the gradients after the step.
            scaler: the one that scaled the loss, if you scale by hand; you then call its
                `update()` too.
        """
        wrapped = self.optimizers.find(optimizer)
        if clip_grads is not None and not callable(clip_grads):
            mend = "clip_grads=lambda parameters: clip_grad_norm_(parameters, 1.0)"
            raise given.refusal(clip_grads, "`clip_grads` is a function of the parameters", mend)
        if scaler is not None:
            takes, mend = "`scaler` is a torch.amp.GradScaler", "give what `wrap_scaler` returned"
            given.instance(scaler, torch.amp.GradScaler, takes, mend)
        if (self.batch + 1) % wrapped.frequency == 0:
            self._begin_scales()
            own = self.experimental.scaler
            wrapped.step(clip_grads, auto_zero_grads, scaler or own)
            self.experimental.scaled |= own is not None and scaler is None

    def guard_scales(self) -> None:
        """After a batch: keep the scales of gradients from collapsing, and say so where one does.
        Reads them where optimizers step, which do so as well."""
        if (self.batch + 1) % self.optimizers.frequency:
            return
        for scaler, guard in zip(self.scalers, self._guards, strict=True):
            notice = guard.observe(scaler, self.batch)
            if notice is not None:
                scale = {"since": notice.since, "scale": notice.scale}
                self.session.warn("trial.grad_scale", notice.text, **scale)

    def _begin_scales(self) -> None:
        """Before the first step: see what the scales were until then."""
        for scaler, guard in zip(self.scalers, self._guards, strict=True):
            if guard.fresh:
                guard.observe(scaler, self.batch)

    def scales(self) -> dict[str, float]:
        """The scales of gradients as metrics: `grad_scale`, of a second scaler `grad_scale_1`."""
        used = enumerate(self.scalers)
        return {
            f"grad_scale_{number}" if number else "grad_scale": float(scaler.get_scale())
            for number, scaler in used
            if scaler.is_enabled()
        }

    def autocast_forward_pass(self, model: nn.Module) -> nn.Module:
        """Run a model's forward under `torch.autocast`."""
        takes = "`autocast_forward_pass` takes a torch.nn.Module"
        given.instance(model, nn.Module, takes, "context.autocast_forward_pass(self.model)")
        kind = torch.float16 if self.device.type == "cuda" else torch.bfloat16
        model.forward = torch.autocast(self.device.type, dtype=kind)(model.forward)
        return model

    def to_device(self, data: Any) -> Any:
        """Every tensor in `data` on this rank's device."""
        return to_device(data, self.device)

    # --- asking -----------------------------------------------------------------------------

    def get_hparams(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self.setting.hparams))

    def get_hparam(self, name: str) -> Any:
        """A hyperparameter by name, or by dotted path into nested ones.

        Raises:
            ConfigError: if there is none, with the nearest names.
        """
        return lookup(name, self.setting.hparams)

    def get_global_batch_size(self) -> int:
        """The hyperparameter `global_batch_size`, or `batch_size`."""
        hparams = self.setting.hparams
        for name in ("global_batch_size", "batch_size"):
            if name in hparams:
                return given.batch_size(name, hparams[name])
        raise TrialError(
            "no hyperparameter says how large a batch is",
            mend=f"add global_batch_size to `hyperparameters`; "
            f"{did_you_mean('global_batch_size', hparams)}",
        )

    def get_per_slot_batch_size(self) -> int:
        """This rank's share of the global batch.

        Raises:
            TrialError: if the ranks cannot share it evenly.
        """
        size, ranks = self.get_global_batch_size(), self.distributed.size
        if size % ranks:
            near = max(ranks, size - size % ranks)
            raise TrialError(
                f"a global batch of {size} cannot be shared evenly by {ranks} ranks",
                mend=f"use {near} or {near + ranks}",
            )
        return size // ranks

    def get_data_config(self) -> dict[str, Any]:
        return dict(self.setting.config.get("data", {}))

    def get_experiment_config(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self.setting.config))

    def get_experiment_id(self) -> str:
        return self.setting.experiment

    def get_trial_id(self) -> str:
        return self.setting.trial

    def get_trial_seed(self) -> int:
        return self.setting.seed

    def get_initial_batch(self) -> int:
        """The batch that this process began with: 0, or where it was restored."""
        return self.initial_batch

    def current_train_batch(self) -> int:
        return self.batch

    def current_train_epoch(self) -> int:
        return self.batch // self.scale_epoch if self.scale_epoch else 0

    def is_epoch_start(self) -> bool:
        return bool(self.scale_epoch) and self.batch % int(self.scale_epoch or 1) == 0

    def is_epoch_end(self) -> bool:
        return bool(self.scale_epoch) and (self.batch + 1) % int(self.scale_epoch or 1) == 0

    def get_stop_requested(self) -> bool:
        return self.stop_requested

    def set_stop_requested(self, stop_requested: bool) -> None:
        """Ask for an early end. It comes after this batch, or the next over several ranks, with a
        last validation and checkpoint, and is a success. One rank asking is enough."""
        self.stop_requested = bool(stop_requested)

    def _mixed(self, precision: str) -> None:
        if precision != "off":
            self.experimental.use_amp(torch.float16 if precision == "fp16" else torch.bfloat16)


class Experimental:
    """Settings that a trial may change in `__init__`."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self._context = context
        self.scaler: torch.amp.GradScaler | None = None
        self.scaled = False
        """Whether the batch in progress has stepped with `scaler`."""

    def finish_batch(self) -> None:
        """Adapt the scale once, after all optimizers of a batch."""
        if self.scaled and self.scaler is not None:
            self.scaler.update()
            self.scaled = False
        self._context.guard_scales()

    def use_amp(self, dtype: torch.dtype | None = None, least_scale: float | None = LEAST) -> None:
        """Run `train_batch` and the evaluation under autocast. With float16 (the default on a
        GPU) losses are scaled by a GradScaler that burst keeps; bfloat16 needs none.

        Args:
            least_scale: as in `wrap_scaler`.

        Raises:
            TrialError: bfloat16 is asked for, and this GPU has none.
        """
        if dtype is not None:
            takes = "`use_amp` takes a torch.dtype"
            given.instance(dtype, torch.dtype, takes, "use_amp(torch.bfloat16)")
        context = self._context
        kind = context.device.type
        chosen = dtype or (torch.float16 if kind == "cuda" else torch.bfloat16)
        if chosen is torch.bfloat16:
            hardware = hardware_of(context.setting.device)
            check_bfloat16(hardware, "mixed_precision: bf16", "mixed_precision: fp16")
        context.autocast = lambda: torch.autocast(kind, dtype=chosen)
        if chosen is torch.float16 and self.scaler is None:
            self.scaler = context.wrap_scaler(torch.amp.GradScaler(kind), least_scale)

    def disable_auto_to_device(self) -> None:
        """Leave batches where the loader made them."""
        self._context.auto_to_device = False

    def disable_dataset_reproducibility_checks(self) -> None:
        """Nothing to disable: there is no check that would stand in the way."""
