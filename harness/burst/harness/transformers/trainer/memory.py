"""What a Trainer itself remembers of its training: its `TrainerState`, what its callbacks keep,
where in the epoch it is, and what it has added up since it logged last.

A Trainer that resumes by itself forgets a part of that: the loss since the last log, what its
callbacks had counted, an evaluation at the end of an epoch that it was about to make.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from burst.harness.errors import TrialError
from burst.harness.transformers.trainer.standing import standing
from burst.harness.trial.callbacks import PyTorchCallback

_COUNTED = (
    "epoch",
    "global_step",
    "num_input_tokens_seen",
    "total_flos",
    "best_metric",
    "best_global_step",
    "best_model_checkpoint",
)
"""Of a TrainerState: what training changes. All else follows from the arguments."""
_CONTROL = (
    "should_training_stop",
    "should_epoch_stop",
    "should_save",
    "should_evaluate",
    "should_log",
)


@dataclass
class Place:
    """Where in the Trainer's loop a state is taken."""

    epoch: int = 0
    """The epoch that the loop is in, counted from 0."""
    consumed: int = 0
    """Batches of it that are trained, micro-batches where gradients are accumulated; 0 once there
    are no more."""
    exhausted: bool = False
    """Whether there are no more."""
    ended: bool = False
    """Whether its end was told to the callbacks."""
    pending: bool = False
    """Whether the logging, evaluation and saving that is due here is not done yet."""
    grad_norm: Any = None
    learning_rate: Any = None
    """Of the last step, as the Trainer logs them."""

    @property
    def is_beginning(self) -> bool:
        """Whether nothing of the epoch is trained yet."""
        return not self.consumed and not self.exhausted


class TrainerMemory(PyTorchCallback):
    """The half that all ranks hold alike."""

    def __init__(self, trainer: Any) -> None:
        self.place = Place()
        self.seconds = 0.0
        """Seconds of training before this process."""
        self._trainer = trainer
        self._lines: list[str] = []
        self._loaded: Mapping[str, Any] = {}
        self.frozen: dict[str, Any] | None = None
        """What `state_dict` was at the boundary to go on from, if that is not the present one."""

    def state_dict(self) -> dict[str, Any]:
        if self.frozen is not None:
            return self.frozen
        trainer = self._trainer
        return {
            "place": self._place(),
            "trainer": {name: getattr(trainer.state, name) for name in _COUNTED},
            "history": self._history(),
            "control": {name: getattr(trainer.control, name) for name in _CONTROL},
            "callbacks": [[_name(each), each.state()] for each in _stateful(trainer)],
            "sums": {
                "total_loss": trainer._total_loss_scalar,
                "last_logged": trainer._globalstep_last_logged,
                "first_step": trainer._initial_global_step,
                "first_tokens": trainer._initial_num_input_tokens_seen,
            },
            "ranks": int(trainer.args.world_size),
            "batch_size": trainer._train_batch_size,
            "standing": standing(trainer),
            "at_length": trainer.state.global_step >= trainer.state.max_steps,
        }

    def _place(self) -> dict[str, Any]:
        norm = self.place.grad_norm
        norm = norm.item() if isinstance(norm, torch.Tensor) else norm
        return {**vars(self.place), "grad_norm": norm}

    @property
    def restored(self) -> bool:
        """Whether it has taken a state on."""
        return bool(self._loaded)

    def check_batch_size(self) -> None:
        """Where the Trainer looks for a batch size that fits into memory, have it try on until it
        tries the one of the restored state: by the error that makes it look on.

        Raises:
            RuntimeError: it is larger than that.
        """
        trainer, found = self._trainer, self._loaded.get("batch_size")
        looking = trainer.args.auto_find_batch_size and found is not None
        if looking and trainer._train_batch_size > found:
            raise RuntimeError(
                f"training goes on with batches of {found}: larger are out of memory."
            )

    def stood(self, name: str) -> Any:
        """The generators of this evaluation loader, if its workers ran when the restored state was
        taken; else None."""
        return self._loaded.get("standing", {}).get(name)

    def _history(self) -> str:
        """The log, a line of JSON each; what was written once is not written again."""
        log = self._trainer.state.log_history
        if len(log) < len(self._lines):
            self._lines.clear()
        self._lines += [json.dumps(row, default=str) for row in log[len(self._lines) :]]
        return "\n".join(self._lines)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take it on, but for what the Trainer's loop sets anew before it begins: `put_back`.

        Raises:
            TrialError: it is of another number of ranks, which the Trainer would give other data.
        """
        trainer = self._trainer
        before, now = state_dict["ranks"], int(trainer.args.world_size)
        if before != now:
            raise TrialError(
                f"the Trainer trained over {before} ranks, and cannot go on over {now}",
                why="each of its batches would have other rows, and an epoch another length",
                mend=f"give the trial {before} slots, or start another from its weights: "
                "`burst run --from CHECKPOINT`",
            )
        self.place = Place(**state_dict["place"])
        for name, value in state_dict["trainer"].items():
            setattr(trainer.state, name, value)
        self._lines = state_dict["history"].splitlines()
        trainer.state.log_history = [json.loads(line) for line in self._lines]
        _load_callbacks(trainer, state_dict["callbacks"])
        self._loaded = state_dict

    def put_back(self) -> None:
        """The rest, once the Trainer's loop has begun."""
        trainer, loaded = self._trainer, self._loaded
        if not loaded:
            return
        sums = loaded["sums"]
        trainer._total_loss_scalar = sums["total_loss"]
        trainer._globalstep_last_logged = sums["last_logged"]
        trainer._initial_global_step = sums["first_step"]
        trainer._initial_num_input_tokens_seen = sums["first_tokens"]
        for name, value in loaded["control"].items():
            setattr(trainer.control, name, value)
        if loaded["at_length"]:  # which may be another by now
            over = trainer.state.global_step >= trainer.state.max_steps
            trainer.control.should_training_stop = over


class RankSums:
    """What each rank has added up on its own since the Trainer logged last: `burst.harness.trial.
    held.Sums`. The Trainer averages the loss over ranks."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._loaded: list[Mapping[str, Any]] = []

    def state(self) -> dict[str, Any]:
        trainer = self._trainer
        return {"loss": float(trainer._tr_loss), "flos": float(trainer.current_flos)}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self._loaded = [state]

    def add_state(self, state: Mapping[str, Any], /) -> None:
        self._loaded.append(state)

    def put_back(self) -> None:
        if not self._loaded:
            return
        trainer, loaded = self._trainer, self._loaded
        mean = sum(each["loss"] for each in loaded) / len(loaded)
        trainer._tr_loss = torch.tensor(mean, dtype=trainer._tr_loss.dtype).to(
            trainer._tr_loss.device
        )
        trainer.current_flos = sum(each["flos"] for each in loaded)


def _stateful(trainer: Any) -> list[Any]:
    from transformers.trainer_callback import ExportableState

    return [
        each for each in trainer.callback_handler.callbacks if isinstance(each, ExportableState)
    ]


def _name(callback: Any) -> str:
    return f"{type(callback).__module__}.{type(callback).__qualname__}"


def _load_callbacks(trainer: Any, saved: list[Any]) -> None:
    """Each callback takes on the state of the one of its class, in their order. Its attributes
    alone: what it was made with is the script's to say."""
    waiting = list(saved)
    for callback in _stateful(trainer):
        found = next((each for each in waiting if each[0] == _name(callback)), None)
        if found is not None:
            waiting.remove(found)
            for name, value in found[1].get("attributes", {}).items():
                setattr(callback, name, value)
