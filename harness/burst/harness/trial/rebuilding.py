"""A trial built from its code to see that a checkpoint fits it, and not to be trained."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from burst.core.config.experiment import ExperimentConfig
from burst.core.launch import names_class
from burst.core.model import Experiment, Trial
from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.restoring.decoding import flat_bytes
from burst.harness.checkpoints.shards import local_of
from burst.harness.distributed import gang_of_one
from burst.harness.entrypoint import resolve
from burst.harness.errors import TrialError
from burst.harness.trial.context import PyTorchTrialContext, Setting
from burst.harness.trial.metrics import TrainingMetrics
from burst.harness.trial.state import TrialState

_COMPARED = ("models", "modes", "optimizers", "steps", "lr_schedulers", "scalers", "batch")


def reload(experiment: Experiment, trial: Trial, code: Path, shared: Any) -> list[str]:
    """Build a trial on the CPU, load what its ranks held alike, take that again and compare.

    Args:
        code: the folder of the trial's code, which is run.
        shared: the tree that was restored.

    Returns:
        what did not come back as it was saved.

    Raises:
        TrialError: the entrypoint is no trial class, or the checkpoint does not fit the trial.
    """
    sys.path.insert(0, str(code.absolute()))
    config = ExperimentConfig.model_validate(experiment.config)
    if not names_class(config.entrypoint):
        raise TrialError(
            "the experiment's entrypoint is a command, not a trial class",
            mend="leave --code out: only a trial class can be built without training",
        )
    setting = Setting(
        hparams=trial.hparams,
        config=experiment.config,
        experiment=experiment.id,
        trial=trial.id,
        seed=trial.seed,
        mode=config.reproducibility.mode,
        optimizations=config.optimizations,
    )
    context = PyTorchTrialContext(setting)
    with gang_of_one():
        built = resolve(str(config.entrypoint), code)(context)
        state = TrialState(context, built.build_callbacks(), TrainingMetrics(), _Nothing())
        state.load_shared(shared)
        return list(_differences(shared, state.shared(state.look())))


class _Nothing:
    """Stands where the data would be."""

    batches_per_epoch = None
    records_per_batch = 0

    def batches(self, start: int) -> Iterator[Any]:
        return iter(())

    def state(self) -> Any:
        return None

    def load_state(self, state: Any) -> None:
        """Nothing."""

    def fingerprint(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing."""


def _differences(saved: Any, now: Any) -> Iterator[str]:
    for part in _COMPARED:
        one, other = tree.encode(saved[part], part), tree.encode(now[part], part)
        if one.skeleton != other.skeleton:
            yield f"`{part}` does not come back as it was saved"
            continue
        for before, after in zip(one.tensors, other.tensors, strict=True):
            if not np.array_equal(flat_bytes(before.tensor), flat_bytes(local_of(after.tensor))):
                yield f"{part}.{before.name} does not come back as it was saved"
