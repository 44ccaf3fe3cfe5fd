"""A byte-level GPT-2 from random weights on the sources of Python's standard library."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
import transformers

from burst.harness import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext

BYTES = 256
MODULES = ("argparse", "ast", "datetime", "inspect", "pathlib", "shutil", "tarfile", "typing")
HELD_OUT = ("heapq", "csv", "configparser")


def text(modules: tuple[str, ...], context: int) -> datasets.Dataset:
    """The modules' bytes in rows of `context` + 1: the last byte is only ever predicted."""
    library = Path(sysconfig.get_paths()["stdlib"])
    read = b"".join((library / f"{module}.py").read_bytes() for module in modules)
    rows = np.frombuffer(read, dtype=np.uint8)
    rows = rows[: len(rows) // (context + 1) * (context + 1)].reshape(-1, context + 1)
    return datasets.Dataset.from_dict({"bytes": rows}).with_format("torch")


class TinyGptTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        hp = context.get_hparams()
        config = transformers.GPT2Config(
            vocab_size=BYTES,
            n_positions=hp["context"],
            n_embd=hp["width"],
            n_layer=hp["layers"],
            n_head=4,
            bos_token_id=0,
            eos_token_id=0,
        )
        self.model = context.wrap_model(transformers.GPT2LMHeadModel(config))
        self.optimizer = context.wrap_optimizer(
            torch.optim.AdamW(self.model.parameters(), lr=hp["lr"], weight_decay=0.01)
        )
        schedule = transformers.get_cosine_schedule_with_warmup(self.optimizer, 10, 100)
        context.wrap_lr_scheduler(schedule, LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP)

    def build_training_data_loader(self) -> DataLoader:
        rows = text(MODULES, self.context.get_hparam("context"))
        size = self.context.get_per_slot_batch_size()
        return DataLoader(rows, batch_size=size, shuffle=True, drop_last=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(text(HELD_OUT, self.context.get_hparam("context")), batch_size=64)

    def loss(self, batch: Any) -> torch.Tensor:
        """Mean cross entropy, in nats a byte, of each byte given those before it in its row."""
        rows = batch["bytes"].long()
        scores = self.model(rows[:, :-1]).logits
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(
            self.optimizer,
            clip_grads=lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 1.0),
        )
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, torch.Tensor]:
        loss = self.loss(batch)
        return {"validation_loss": loss, "bits_per_byte": loss / np.log(2.0)}
