"""Trials that shard their model where there is one process and no launcher."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from burst.core.model import Code, Experiment, Trial
from burst.harness import Batch, Trainer, pytorch_init
from burst.harness.checkpoints import shards
from burst.harness.distributed import GANG_OF_ONE, gang_of_one
from burst.harness.entrypoint import resolve
from burst.harness.trial.metrics import TrainingMetrics
from burst.harness.trial.rebuilding import reload
from burst.harness.trial.state import TrialState
from tests.harness.checkpoints.shard_support import Folder, save

CODE = """
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import TensorDataset

from burst.harness import DataLoader, PyTorchTrial


class Sharded(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
        fully_shard(model)
        self.model = context.wrap_model(model)
        self.optimizer = context.wrap_optimizer(torch.optim.AdamW(self.model.parameters()))

    def build_training_data_loader(self):
        return DataLoader(TensorDataset(torch.rand(8, 4)), batch_size=2)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch[0]).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_batch(self, batch, batch_idx):
        return {"validation_loss": self.model(batch[0]).square().mean()}
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sharded_alone.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in GANG_OF_ONE:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def train(code: Path, batches: int) -> dict[str, Any]:
    """Train in a script's way, in a folder; returns the parameters, whole."""
    trial_class = resolve("sharded_alone:Sharded", code)
    with pytorch_init(seed=1, folder=code / "state") as context:
        trial = trial_class(context)
        Trainer(trial, context).fit(max_length=Batch(batches))
        (model,) = context.models
        assert all(shards.is_sharded(parameter) for parameter in model.parameters())
        return {name: shards.local_of(t).clone() for name, t in model.state_dict().items()}


def test_a_script_of_its_own_trains_and_goes_on_with_a_sharded_model(code: Path) -> None:
    uninterrupted = train(code, 6)
    (code / "state").rename(code / "other")
    train(code, 3)
    resumed = train(code, 6)
    assert all(torch.equal(resumed[name], uninterrupted[name]) for name in uninterrupted)
    assert not set(GANG_OF_ONE) & set(os.environ)
    assert not dist.is_initialized()


def test_a_launchers_word_is_left_as_it_is(code: Path) -> None:
    environ = {"RANK": "3", "MASTER_ADDR": "elsewhere"}
    with gang_of_one(environ):
        assert environ == {"RANK": "3", "MASTER_ADDR": "elsewhere"}


def test_a_rehearsal_with_the_code_builds_a_sharded_trial(code: Path) -> None:
    trial_class = resolve("sharded_alone:Sharded", code)
    folder = Folder()
    with pytorch_init(seed=1) as context:
        trial = trial_class(context)
        Trainer(trial, context).fit(max_length=Batch(2))
        state = TrialState(context, {}, TrainingMetrics(), None)  # type: ignore[arg-type]
        save(folder, state.shared(state.look()), 1)
    config = {
        "name": "x", "entrypoint": "sharded_alone:Sharded", "hyperparameters": {},
        "searcher": {"name": "single"}, "reproducibility": {"experiment_seed": 1},
    }  # fmt: skip
    experiment = Experiment(
        id="exp-1m3k9zq4w7c", name="x", owner="", created=0, state_since=0, config=config,
        code=Code(digest="", size=0),
    )  # fmt: skip
    record = Trial(
        id=f"{experiment.id}.t0000", experiment=experiment.id, number=0, seed=1, slots=1,
        pools=("local",), created=0, queued=0, state_since=0,
    )  # fmt: skip
    assert reload(experiment, record, code, folder.load()) == []
    assert not dist.is_initialized()
