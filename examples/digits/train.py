"""Handwritten digits: a small CNN, random shifts as augmentation, a one-cycle learning rate."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from burst.harness import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext

PIXELS = 8


def digits(split: str) -> datasets.Dataset:
    """The 1,797 images, every sixth held out for validation: `image` (64 floats), `label`."""
    raw = load_digits()
    held_out = np.arange(len(raw.target)) % 6 == 0
    chosen = held_out if split == "validation" else ~held_out
    columns = {
        "image": (raw.data[chosen] / 16.0).astype(np.float32),
        "label": raw.target[chosen].astype(np.int64),
    }
    return datasets.Dataset.from_dict(columns).with_format("numpy")


def shift(images: torch.Tensor) -> torch.Tensor:
    """Moves each image of a (batch, 1, 8, 8) tensor by up to one pixel in both directions."""
    padded = functional.pad(images, (1, 1, 1, 1))
    moved = [
        padded[i, :, y : y + PIXELS, x : x + PIXELS]
        for i, (y, x) in enumerate(torch.randint(0, 3, (len(images), 2)).tolist())
    ]
    return torch.stack(moved)


class Network(nn.Module):
    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(2 * channels * 16, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(images)
        return scores


class DigitsTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        hp = context.get_hparams()
        self.model = context.wrap_model(Network(hp["channels"], hp["dropout"]))
        self.optimizer = context.wrap_optimizer(
            torch.optim.AdamW(self.model.parameters(), lr=hp["lr"])
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=552)
        context.wrap_lr_scheduler(schedule, LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP)

    def build_training_data_loader(self) -> DataLoader:
        size = self.context.get_per_slot_batch_size()
        return DataLoader(digits("training"), batch_size=size, shuffle=True, drop_last=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(digits("validation"), batch_size=100)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        images = shift(batch["image"].view(-1, 1, PIXELS, PIXELS))
        loss = functional.cross_entropy(self.model(images), batch["label"])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, torch.Tensor]:
        scores = self.model(batch["image"].view(-1, 1, PIXELS, PIXELS))
        return {
            "validation_loss": functional.cross_entropy(scores, batch["label"]),
            "accuracy": (scores.argmax(dim=1) == batch["label"]).float().mean(),
        }
