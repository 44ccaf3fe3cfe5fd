"""One small problem for every library: a dropout network on 200 samples, 25 batches an epoch."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

BATCH = 8
SAMPLES = 200
STEPS_PER_EPOCH = SAMPLES // BATCH
STEPS = 40
MIDDLE, BOUNDARY = 15, 25
"""Where runs are interrupted: inside the first epoch, and at its end."""
LEARNING_RATE = 0.01
SEED = 7


class Samples(Dataset[dict[str, torch.Tensor]]):
    """Fixed samples; with `augment`, noise from torch's global generator is added to each."""

    def __init__(self, augment: bool) -> None:
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(SAMPLES, 16, generator=generator)
        self.labels = torch.randint(0, 4, (SAMPLES,), generator=generator)
        self.augment = augment

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        inputs = self.inputs[index]
        if self.augment:
            inputs = inputs + 0.1 * torch.randn(16)
        return {"inputs": inputs, "labels": self.labels[index]}


class Network(nn.Module):
    """Returns a dict with `loss`, which is what the Hugging Face Trainer wants of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4)
        )

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.layers(inputs)
        return {"loss": nn.functional.cross_entropy(scores, labels), "scores": scores}


def seed_everything() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)


def digest(model: nn.Module) -> str:
    """A name for the exact bits of a model's parameters."""
    seen = hashlib.sha256()
    for _, value in sorted(model.state_dict().items()):
        seen.update(value.detach().contiguous().numpy().tobytes())
    return seen.hexdigest()[:16]
