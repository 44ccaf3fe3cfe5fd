"""Handwritten digits once more, as small as a trial gets: one hidden layer, the whole validation
set in one go."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn import functional

from burst.harness import DataLoader, PyTorchTrial, PyTorchTrialContext

HELD_OUT = 300


class MlpTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        hidden = context.get_hparam("hidden")
        self.model = context.wrap_model(
            torch.nn.Sequential(
                torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10)
            )
        )
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("lr"), momentum=0.9)
        )
        raw = load_digits()
        columns = {"image": (raw.data / 16.0).astype(np.float32), "label": raw.target}
        rows = datasets.Dataset.from_dict(columns).with_format("torch")
        self.training = rows.select(range(HELD_OUT, len(rows)))
        self.held_out = rows.select(range(HELD_OUT))

    def build_training_data_loader(self) -> DataLoader:
        size = self.context.get_per_slot_batch_size()
        return DataLoader(self.training, batch_size=size, shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(self.held_out, batch_size=HELD_OUT)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> torch.Tensor:
        loss = functional.cross_entropy(self.model(batch["image"]), batch["label"])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_full_dataset(self, data_loader: DataLoader) -> dict[str, float]:
        (batch,) = data_loader
        scores = self.model(batch["image"])
        return {"accuracy": (scores.argmax(dim=1) == batch["label"]).float().mean().item()}
