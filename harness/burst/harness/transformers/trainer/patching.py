"""Changes `transformers.Trainer`, so that every Trainer of a process is attached to burst: also
those of classes that derive from it.

A Trainer offers callbacks no way to take a state up or to say where in an epoch training goes on.
So a few of its methods are replaced by ones that call what they replace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from burst.harness.errors import TrialError
from burst.harness.transformers.trainer.attached import attached_to, training_of
from burst.harness.transformers.trainer.attaching import attach
from burst.harness.transformers.trainer.loading import followed_of
from burst.harness.transformers.trainer.training import RESUMED

_MARK = "_burst_replaced"


def patch(module: ModuleType) -> None:
    """Change `module.Trainer`. Again does nothing.

    Raises:
        TrialError: this version of transformers is one that burst does not know.
    """
    trainer = module.Trainer
    if hasattr(trainer, _MARK):
        return
    missing = [name for name in _REPLACED if not hasattr(trainer, name)]
    if missing or not hasattr(module, "skip_first_batches"):
        version = __import__("transformers").__version__
        raise TrialError(
            f"burst cannot keep a Trainer of transformers {version}",
            why=f"it has no {', '.join(missing) or 'skip_first_batches'}",
            mend="use transformers 5",
        )
    for name, replacement in _REPLACED.items():
        setattr(trainer, name, _replaced(getattr(trainer, name), replacement))
    setattr(module, "skip_first_batches", _skipping(module.skip_first_batches))  # noqa: B010
    setattr(trainer, _MARK, True)


def _replaced(original: Callable[..., Any], replacement: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return replacement(functools.partial(original, self), self, *args, **kwargs)

    return method


def _skipping(original: Callable[..., Any]) -> Callable[..., Any]:
    """A loader that burst follows goes on where it was by itself."""

    @functools.wraps(original)
    def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
        followed = followed_of(dataloader)
        if followed is not None:
            followed.skip(num_batches)
            return dataloader
        return original(dataloader, num_batches)

    return skip_first_batches


def _train(
    original: Callable[..., Any],
    trainer: Any,
    resume_from_checkpoint: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    attached = attach(trainer)
    if attached is None:
        return original(resume_from_checkpoint, *args, **kwargs)
    with attached.trains() as training:
        given = resume_from_checkpoint
        start = given if training is None else training.start_from(given)
        return original(start, *args, **kwargs)


def _set_initial_training_values(
    original: Callable[..., Any], trainer: Any, args: Any, dataloader: Any, *rest: Any
) -> Any:
    values = original(args, dataloader, *rest)
    training = training_of(trainer)
    if training is not None:
        training.loader = dataloader
    return values


def _init_training_state(
    original: Callable[..., Any],
    trainer: Any,
    max_steps: int,
    updates: int,
    epochs: int,
    resume_from_checkpoint: Any,
    trial: Any,
) -> Any:
    begun = original(max_steps, updates, epochs, resume_from_checkpoint, trial)
    training = training_of(trainer)
    if training is None:
        return begun
    training.prepared = None
    trainer._prepare_for_training(max_steps, training.loader, resume_from_checkpoint)
    return training.enter() or begun


def _prepare_for_training(
    original: Callable[..., Any], trainer: Any, max_steps: int, loader: Any, resume: Any
) -> Any:
    training = training_of(trainer)
    if training is None:
        return original(max_steps, loader, resume)
    if training.prepared is None:
        training.prepare(*original(max_steps, loader, resume))
    return training.prepared


def _run_epoch(original: Callable[..., Any], trainer: Any, **given: Any) -> None:
    training = training_of(trainer)
    if training is None:
        original(**given)
        return
    resumed = training.entering
    if training.begin_epoch(given):
        original(**{**given, "resume_from_checkpoint": RESUMED} if resumed else given)
        training.left_epoch()


def _maybe_log_save_evaluate(
    original: Callable[..., Any],
    trainer: Any,
    tr_loss: Any,
    grad_norm: Any,
    *args: Any,
    learning_rate: Any = None,
) -> None:
    def act() -> None:
        original(tr_loss, grad_norm, *args, learning_rate=learning_rate)

    attached = attached_to(trainer)
    if attached is not None and attached.training is not None:
        attached.training.at_boundary(act, grad_norm, learning_rate)
        return
    if attached is not None:
        attached.leave_if_asked()
    act()


def _save_checkpoint(original: Callable[..., Any], trainer: Any, model: Any, trial: Any) -> None:
    training = training_of(trainer)
    if training is None or training.wants_folder():
        original(model, trial)
    else:
        trainer.store_flos()
    if training is not None:
        training.save_is_due()


def _load_rng_state(original: Callable[..., Any], trainer: Any, checkpoint: Any) -> None:
    if checkpoint is not RESUMED:
        original(checkpoint)


def _evaluate_on_start(
    original: Callable[..., Any],
    trainer: Any,
    trial: Any,
    ignore_keys_for_eval: Any,
    skip_scheduler: bool = False,
) -> Any:
    training = training_of(trainer)
    if skip_scheduler and training is not None and training.entering:
        return {}  # it was evaluated when it started
    return original(trial, ignore_keys_for_eval, skip_scheduler)


def _evaluate(original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
    attached = attach(trainer)
    if attached is None:
        return original(*args, **kwargs)
    with attached.evaluates():
        return original(*args, **kwargs)


def _get_eval_dataloader(
    original: Callable[..., Any], trainer: Any, eval_dataset: Any = None
) -> Any:
    loader = original(eval_dataset)
    training = training_of(trainer)
    if training is not None:
        name = eval_dataset if isinstance(eval_dataset, str) else "eval"
        training.evaluates_with(name, loader)
    return loader


def _predict(original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
    attach(trainer)
    return original(*args, **kwargs)


def _finalize_training(
    original: Callable[..., Any], trainer: Any, trial: Any, samples: Any, start_time: float
) -> Any:
    training = training_of(trainer)
    if training is None:
        return original(trial, samples, start_time)
    training.ends()
    result = original(trial, samples, start_time - training.seconds_before)
    training.ended()
    return result


_REPLACED: dict[str, Callable[..., Any]] = {
    "train": _train,
    "set_initial_training_values": _set_initial_training_values,
    "_init_training_state": _init_training_state,
    "_prepare_for_training": _prepare_for_training,
    "_run_epoch": _run_epoch,
    "_maybe_log_save_evaluate": _maybe_log_save_evaluate,
    "_save_checkpoint": _save_checkpoint,
    "_load_rng_state": _load_rng_state,
    "_evaluate": _evaluate_on_start,
    "evaluate": _evaluate,
    "get_eval_dataloader": _get_eval_dataloader,
    "predict": _predict,
    "_finalize_training": _finalize_training,
}
"""By name: what is replaced. Each is given the original, bound, and the Trainer."""
