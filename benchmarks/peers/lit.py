"""Lightning: `ModelCheckpoint` every 5 steps, resumed with `ckpt_path`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from benchmarks.peers.problem import BATCH, LEARNING_RATE, SEED, STEPS, Network, Samples, digest


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = Network()

    def training_step(self, batch: dict[str, torch.Tensor], index: int) -> torch.Tensor:
        loss: torch.Tensor = self.network(**batch)["loss"]
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=LEARNING_RATE)


def run(folder: Path, *, augment: bool, workers: int, resume_at: int | None) -> str:
    lightning.seed_everything(SEED, workers=True, verbose=False)
    module = Module()
    loader = DataLoader(Samples(augment), batch_size=BATCH, shuffle=True, num_workers=workers)
    saver = ModelCheckpoint(
        folder,
        filename="{step}",
        every_n_train_steps=5,
        save_top_k=-1,
        save_on_train_epoch_end=False,
    )
    trainer = lightning.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        callbacks=[saver],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    checkpoint = str(folder / f"step={resume_at}.ckpt") if resume_at else None
    trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=False)
    return digest(module.network)
