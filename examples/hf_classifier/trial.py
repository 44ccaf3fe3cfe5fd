"""The task of train.py as a trial: text tokenised once and kept, padded in batches."""

from __future__ import annotations

from typing import Any

import torch
from docstrings import docstrings, tokenizer_of
from train import small_bert
from transformers import get_linear_schedule_with_warmup

from burst.harness import LRScheduler, PyTorchTrial, PyTorchTrialContext
from burst.harness.data import DataLoader, Padding, tokenized


class DocstringTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.texts = docstrings()
        self.tokenizer = context.register_tokenizer(tokenizer_of(self.texts["train"]["text"]))
        self.model = context.wrap_model(small_bert(self.tokenizer))
        self.optimizer = context.wrap_optimizer(
            torch.optim.AdamW(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )
        schedule = get_linear_schedule_with_warmup(self.optimizer, 35, 345)
        context.wrap_lr_scheduler(schedule, LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP)

    def loader(self, split: str, size: int) -> DataLoader:
        rows = tokenized(
            self.texts[split], self.tokenizer, max_length=self.tokenizer.model_max_length
        )
        return DataLoader(
            rows,
            batch_size=size,
            shuffle=split == "train",
            drop_last=split == "train",
            collate_fn=Padding.of(self.tokenizer),
        )

    def build_training_data_loader(self) -> DataLoader:
        return self.loader("train", self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self) -> DataLoader:
        return self.loader("validation", 128)

    def forward(self, batch: Any) -> Any:
        """The model's output, with its loss."""
        return self.model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            labels=batch["label"],
        )

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        loss = self.forward(batch).loss
        self.context.backward(loss)
        self.context.step_optimizer(
            self.optimizer,
            clip_grads=lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 1.0),
        )
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, torch.Tensor]:
        output = self.forward(batch)
        right = output.logits.argmax(dim=1) == batch["label"]
        return {"validation_loss": output.loss, "accuracy": right.float().mean()}
