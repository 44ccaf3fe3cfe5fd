"""The task of train.py as a trial: texts tokenised once and kept, then packed into rows without
padding. `LoraTrial` trains low-rank adapters on the sources of the standard library instead."""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, TaskType, get_peft_model
from texts import reference, sources, tokenizer_of
from train import ModelArguments, small_llama
from transformers import get_cosine_schedule_with_warmup

from burst.harness import LRScheduler, PyTorchTrial, PyTorchTrialContext
from burst.harness.data import DataLoader, pack, tokenized


class ReferenceTrial(PyTorchTrial):
    texts = staticmethod(reference)

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.tokenizer = context.register_tokenizer(tokenizer_of(reference()["train"]["text"]))
        self.model = context.wrap_model(self.build_model())
        trained = [each for each in self.model.parameters() if each.requires_grad]
        self.optimizer = context.wrap_optimizer(
            torch.optim.AdamW(trained, lr=context.get_hparam("learning_rate"))
        )
        schedule = get_cosine_schedule_with_warmup(self.optimizer, 20, 150)
        context.wrap_lr_scheduler(schedule, LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP)

    def build_model(self) -> Any:
        options = ModelArguments(width=self.context.get_hparam("width"))
        model = small_llama(self.tokenizer, options)
        model.config.use_cache = False  # with a cache, the documents of a row are not told apart
        return model

    def loader(self, split: str, size: int) -> DataLoader:
        rows = tokenized(self.texts()[split], self.tokenizer, end=True)
        packed = pack(rows, ModelArguments.context)
        training = split == "train"
        return DataLoader(packed, batch_size=size, shuffle=training, drop_last=training)

    def build_training_data_loader(self) -> DataLoader:
        return self.loader("train", self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self) -> DataLoader:
        return self.loader("validation", 32)

    def loss(self, batch: Any) -> torch.Tensor:
        """Mean cross entropy, in nats a token; `position_ids` keep documents of a row apart."""
        loss: torch.Tensor = self.model(
            input_ids=batch["input_ids"].long(),
            position_ids=batch["position_ids"].long(),
            labels=batch["labels"].long(),
        ).loss
        return loss

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
        return {"validation_loss": loss, "perplexity": loss.exp()}


class LoraTrial(ReferenceTrial):
    texts = staticmethod(sources)

    def build_model(self) -> Any:
        rank = self.context.get_hparam("rank")
        adapted = LoraConfig(
            task_type=TaskType.CAUSAL_LM,
            r=rank,
            lora_alpha=2 * rank,
            lora_dropout=0.05,
            target_modules="all-linear",
        )
        return get_peft_model(super().build_model(), adapted)
