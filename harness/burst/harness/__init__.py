"""What runs inside a trial: the trial API, the training loop, data order and checkpoints.

    from burst.harness import PyTorchTrial, PyTorchTrialContext, DataLoader

A name is imported when it is first used, so `import burst.harness` costs next to nothing and a
plain script that never touches tensors never loads torch.
"""

from __future__ import annotations

# Every Python program that a trial's command starts imports this: `typing` alone would be most of
# what that costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from burst.harness.checkpoints.codec.state_types import register_state_type
    from burst.harness.core_api import CoreContext, init
    from burst.harness.data import DataLoader
    from burst.harness.distributed import DistributedContext
    from burst.harness.errors import InvalidHP
    from burst.harness.trial.callbacks import PyTorchCallback
    from burst.harness.trial.context import PyTorchTrialContext
    from burst.harness.trial.local import pytorch_init
    from burst.harness.trial.lr_scheduler import LRScheduler
    from burst.harness.trial.reducers import MetricReducer, Reducer
    from burst.harness.trial.trainer import Trainer
    from burst.harness.trial.trial import PyTorchTrial
    from burst.harness.trial.units import Batch, Epoch

_HOMES = {
    "Batch": "trial.units",
    "CoreContext": "core_api",
    "DataLoader": "data",
    "DistributedContext": "distributed",
    "Epoch": "trial.units",
    "InvalidHP": "errors",
    "LRScheduler": "trial.lr_scheduler",
    "MetricReducer": "trial.reducers",
    "PyTorchCallback": "trial.callbacks",
    "PyTorchTrial": "trial.trial",
    "PyTorchTrialContext": "trial.context",
    "Reducer": "trial.reducers",
    "Trainer": "trial.trainer",
    "init": "core_api",
    "pytorch_init": "trial.local",
    "register_state_type": "checkpoints.codec.state_types",
}

__all__ = [
    "Batch",
    "CoreContext",
    "DataLoader",
    "DistributedContext",
    "Epoch",
    "InvalidHP",
    "LRScheduler",
    "MetricReducer",
    "PyTorchCallback",
    "PyTorchTrial",
    "PyTorchTrialContext",
    "Reducer",
    "Trainer",
    "init",
    "pytorch_init",
    "register_state_type",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
