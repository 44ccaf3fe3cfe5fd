"""The Hugging Face Trainer: checkpoints every 5 steps, resumed with `resume_from_checkpoint`."""

from __future__ import annotations

from pathlib import Path

import transformers

from benchmarks.peers.problem import BATCH, LEARNING_RATE, SEED, STEPS, Network, Samples, digest


def run(folder: Path, *, augment: bool, workers: int, resume_at: int | None) -> str:
    transformers.set_seed(SEED)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        learning_rate=LEARNING_RATE,
        dataloader_num_workers=workers,
        save_strategy="steps",
        save_steps=5,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=SEED,
        logging_strategy="no",
    )
    model = Network()
    trainer = transformers.Trainer(model, arguments, train_dataset=Samples(augment))
    checkpoint = str(folder / f"checkpoint-{resume_at}") if resume_at else None
    trainer.train(resume_from_checkpoint=checkpoint)
    return digest(model)
