"""Tells from a docstring which library it is of: a small DistilBERT from random weights.

A script for `transformers.Trainer` as it is anywhere; `python train.py` runs it without burst.
"""

from __future__ import annotations

import argparse

import numpy as np
from docstrings import LIBRARIES, docstrings, tokenizer_of
from transformers import (
    DataCollatorWithPadding,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)


def small_bert(tokenizer: PreTrainedTokenizerBase) -> DistilBertForSequenceClassification:
    return DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=len(tokenizer),
            dim=64,
            n_layers=2,
            n_heads=4,
            hidden_dim=128,
            initializer_range=0.06,
            max_position_embeddings=tokenizer.model_max_length,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            id2label=dict(enumerate(LIBRARIES)),
        )
    )


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    guessed = np.argmax(prediction.predictions, axis=-1)
    return {"accuracy": float((guessed == prediction.label_ids).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--output_dir", default="output")
    options = parser.parse_args()

    set_seed(42)
    texts = docstrings()
    tokenizer = tokenizer_of(texts["train"]["text"])
    rows = texts.map(
        lambda batch: tokenizer(batch["text"], truncation=True),
        batched=True,
        remove_columns=["text"],
    )
    trainer = Trainer(
        model=small_bert(tokenizer),
        args=TrainingArguments(
            output_dir=options.output_dir,
            learning_rate=options.learning_rate,
            num_train_epochs=options.epochs,
            warmup_steps=0.1,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=128,
            train_sampling_strategy="group_by_length",
            dataloader_num_workers=2,
            logging_steps=20,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=2,
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
            report_to="none",
        ),
        train_dataset=rows["train"],
        eval_dataset=rows["validation"],
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=accuracy,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )
    trainer.train()
    trainer.save_model()
    trainer.save_state()
    print(f"accuracy {trainer.evaluate()['eval_accuracy']:.3f}")


if __name__ == "__main__":
    main()
