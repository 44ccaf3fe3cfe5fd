"""The Trainer's own folders, `checkpoint-N`: written only for those who read them.

What a training needs to go on lies in burst's checkpoints. But the model that
`load_best_model_at_end` loads is read from such a folder, on a machine that may not be the one
that wrote it. So it travels with the checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from burst.core.model import Checkpoint
from burst.harness.session import Session

_ALWAYS = "folders"
_BULKY = ("optimizer", "scheduler", "scaler", "rng_state", "training_args", "trainer_state")
"""Files that loading the best model does not read, by the beginning of their names."""


def needs_folders(trainer: Any) -> bool:
    """Whether somebody reads the folder of a checkpoint: the Trainer, the hub, a callback, or
    whoever has set BURST_TRANSFORMERS to `folders`."""
    args = trainer.args
    return bool(
        args.load_best_model_at_end
        or args.push_to_hub
        or os.environ.get("BURST_TRANSFORMERS", "").lower() == _ALWAYS
        or any(_hears_saves(each) for each in trainer.callback_handler.callbacks)
    )


def _hears_saves(callback: Any) -> bool:
    from transformers import TrainerCallback

    kind = type(callback)
    ours = kind.__module__.startswith("burst.")
    return kind.on_save is not TrainerCallback.on_save and not ours


def start_of(output_dir: str, given: Any, session: Session) -> Any:
    """What the Trainer is to resume from by itself, where the script gave `given`: nothing if
    burst has a checkpoint of the trial, which is newer. Collective.

    `resume_from_checkpoint=True` is an error of the Trainer's where there is no folder yet. A
    script that says so means that it can be started again, and its first start is one from the
    beginning.
    """
    kept = False
    if session.chief and session.store is not None:
        records = session.store.children(Checkpoint, session.trial)
        kept = any(record.deleted is None for record in records)
    if session.distributed.broadcast(kept) or not given:
        return None
    if given is True and _newest_folder(output_dir) is None:
        session.say("burst: there is no checkpoint to resume from yet; training begins")
        return None
    return given


def _newest_folder(output_dir: str) -> Any:
    """The newest folder of a checkpoint that the Trainer wrote there."""
    from transformers.trainer_utils import get_last_checkpoint

    last: Any = get_last_checkpoint
    return last(output_dir) if Path(output_dir).is_dir() else None


class BestFolder:
    """The folder of the best model so far, on the one rank that writes it."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._read: tuple[str, dict[str, torch.Tensor]] = ("", {})

    def state(self) -> dict[str, torch.Tensor]:
        """Its files as bytes, by their path in it; empty where there is none. The same tensors
        until there is a better one."""
        trainer = self._trainer
        path = trainer.state.best_model_checkpoint
        wanted = trainer.args.load_best_model_at_end and trainer.args.should_save
        if not wanted or not path or not Path(path).is_dir():
            return {}
        if self._read[0] != path:
            self._read = path, _read(Path(path))
        return self._read[1]

    def load_state(self, files: Mapping[str, torch.Tensor]) -> None:
        """Write it where the Trainer looks for it."""
        state = self._trainer.state
        if state.best_global_step is None or not self._trainer.args.load_best_model_at_end:
            return
        folder = Path(self._trainer.args.output_dir) / f"checkpoint-{state.best_global_step}"
        state.best_model_checkpoint = str(folder)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.numpy().tobytes())


def _read(folder: Path) -> dict[str, torch.Tensor]:
    return {
        path.relative_to(folder).as_posix(): torch.from_numpy(np.fromfile(path, dtype=np.uint8))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.stat().st_size and not path.name.startswith(_BULKY)
    }
