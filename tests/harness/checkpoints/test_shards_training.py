"""One trial on changing numbers of ranks, as real processes: data, state and losses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from burst.core.model import ExitKind
from tests.harness.launching import Ended, Site

CODE = """
import hashlib

import torch
from torch import nn
from torch.utils.data import TensorDataset

from burst.harness import DataLoader, PyTorchCallback, PyTorchTrial

ROWS = 42


class Tell(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def on_checkpoint_save_start(self, checkpoint):
        self.trial.tell("saved")


def whole(value):
    return value.full_tensor() if hasattr(value, "full_tensor") else value


class Told(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 1))
        if context.get_hparam("sharded"):
            from torch.distributed.fsdp import fully_shard

            fully_shard(model[0])
            fully_shard(model)
        self.model = context.wrap_model(model)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.optimizer = context.wrap_optimizer(optimizer)
        self.begun = False

    def build_callbacks(self):
        return {"tell": Tell(self)}

    def tell(self, what):
        digest = hashlib.sha256()
        states = [self.model.state_dict(), *self.optimizer.state.values()]
        for value in (value for state in states for value in state.values()):
            digest.update(whole(value).numpy().tobytes())
        print(what, self.context.current_train_batch(), digest.hexdigest(), flush=True)

    def build_training_data_loader(self):
        x = torch.rand(ROWS, 6, generator=torch.Generator().manual_seed(5))
        size = self.context.get_per_slot_batch_size()
        rows = TensorDataset(torch.arange(ROWS), x)
        return DataLoader(rows, batch_size=size, shuffle=True, drop_last=True)

    def build_validation_data_loader(self):
        x = torch.rand(10, 6, generator=torch.Generator().manual_seed(6))
        return DataLoader(TensorDataset(torch.arange(10), x), batch_size=4)

    def loss(self, batch):
        return (self.model(batch[1]) - batch[1].sum(1, keepdim=True)).square().mean()

    def train_batch(self, batch, epoch_idx, batch_idx):
        if not self.begun:
            self.tell("begun")
        self.begun = True
        print("rows", batch_idx, *batch[0].tolist(), flush=True)
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(
            self.optimizer, clip_grads=lambda p: nn.utils.clip_grad_norm_(p, 1.0)
        )
        return {"loss": loss}

    def evaluate_batch(self, batch, batch_idx):
        return {"validation_loss": self.loss(batch)}
"""
RESUMED = {"fsdp": [(2, 5), (4, 9), (1, 12)], "ddp": [(2, 5), (1, 7), (4, 9), (2, 12)]}
"""Ranks, and the batch that they train to: always inside an accumulation of two."""


def told(log: str, what: str) -> dict[int, str]:
    """What a rank printed, by batch."""
    found = re.findall(rf"^{what} (\d+) (.*)$", log, re.MULTILINE)
    return {int(batch): text for batch, text in found}


def train(folder: Path, sharded: bool, attempts: Sequence[tuple[int, int]]) -> list[Ended]:
    """The trial, from attempt to attempt on other numbers of ranks."""
    folder.mkdir()
    site = Site(
        folder,
        CODE,
        "train:Told",
        hyperparameters={"sharded": sharded, "global_batch_size": 8},
        optimizations={"aggregation_frequency": 2},
        report_every="1ba",
        validate={"every": "4ba"},
    )
    ended = []
    for ranks, batches in attempts:
        raw = site.config.model_dump(mode="json")
        raw["searcher"]["max_length"] = f"{batches}ba"
        site.config = type(site.config).model_validate(raw)
        ended.append(site.run(ranks))
        assert ended[-1].outcome is not None, ended[-1].logs
        assert ended[-1].outcome.kind is ExitKind.COMPLETED
        assert len(ended[-1].logs) == ranks
    return ended


def samples(ended: Sequence[Ended]) -> dict[int, list[str]]:
    """The rows of every global batch, in the order of the ranks."""
    rows: dict[int, list[str]] = defaultdict(list)
    for attempt in ended:
        for _, log in sorted(attempt.logs.items()):
            for batch, text in told(log, "rows").items():
                rows[batch] += text.split()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fsdp", "ddp"])
def test_a_trial_of_two_ranks_goes_on_with_one_and_with_four(kind: str, tmp_path: Path) -> None:
    attempts = RESUMED[kind]
    changed = train(tmp_path / "changed", kind == "fsdp", attempts)
    alone = train(tmp_path / "alone", False, [(1, attempts[-1][1])])

    before = ""
    for (ranks, batches), ended in zip(attempts, changed, strict=True):
        begun = {text for log in ended.logs.values() for text in told(log, "begun").values()}
        saved = {told(log, "saved")[batches] for log in ended.logs.values()}
        assert len(begun) == len(saved) == 1, f"{ranks} ranks are not alike"
        assert before in ("", *begun), f"{ranks} ranks did not begin with what was saved"
        (before,) = saved
    assert samples(changed) == samples(alone)
    for group, name in (("training", "loss"), ("validation", "validation_loss")):
        expected = {batch: row[name] for batch, row in alone[-1].rows[group]}
        found: dict[int, Any] = {batch: row[name] for batch, row in changed[-1].rows[group]}
        assert expected == pytest.approx({batch: found[batch] for batch in expected}, rel=1e-5)
    (new,) = (ended for ended in changed if len(ended.logs) == 4)
    assert new.logs[0].count("to 3) start their random numbers from the seed") == 1
