"""Trainers that others derive from transformers' are kept as theirs are."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import datasets
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    set_seed,
)

from tests.harness.transformers.house import House, Make, alone, differing, everything


def tokenizer() -> Any:
    words = {word: number for number, word in enumerate(["<pad>", "<end>", *"abcdefgh"])}
    made = Tokenizer(models.WordLevel(words, unk_token="a"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<end>")


def arguments(folder: Path) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": 2,
        "max_steps": 12,
        "logging_steps": 4,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
    }


def supervised(folder: Path, more: list[TrainerCallback]) -> Trainer:
    """A language model, tuned by trl."""
    trl: Any = importlib.import_module("trl")

    set_seed(7)
    config = GPT2Config(vocab_size=10, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    texts = [
        " ".join("abcdefgh"[(row + at) % 8] for at in range(3 + row % 4)) for row in range(20)
    ]
    made: Trainer = trl.SFTTrainer(
        model=GPT2LMHeadModel(config),
        args=trl.SFTConfig(
            output_dir=str(folder),
            per_device_train_batch_size=2,
            max_steps=12,
            logging_steps=4,
            eval_strategy="steps",
            eval_steps=5,
            save_strategy="no",
            max_length=16,
            report_to="none",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        ),
        processing_class=tokenizer(),
        train_dataset=datasets.Dataset.from_dict({"text": texts}),
        eval_dataset=datasets.Dataset.from_dict({"text": texts[:6]}),
        callbacks=more,
    )
    return made


def reinforced(folder: Path, more: list[TrainerCallback]) -> Trainer:
    """The same, rewarded for what it says; it says something for four steps at a time."""
    trl: Any = importlib.import_module("trl")

    set_seed(7)
    config = GPT2Config(vocab_size=10, n_positions=16, n_embd=8, n_layer=1, n_head=2)

    def reward(completions: list[str], **kwargs: Any) -> list[float]:
        return [float(each.count("c")) for each in completions]

    made: Trainer = trl.GRPOTrainer(
        model=GPT2LMHeadModel(config),
        args=trl.GRPOConfig(
            **arguments(folder), num_generations=2, max_completion_length=4, steps_per_generation=4
        ),
        reward_funcs=reward,
        processing_class=tokenizer(),
        train_dataset=datasets.Dataset.from_dict({"prompt": list("abcdefgh")}),
        callbacks=more,
    )
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [supervised, reinforced])
def test_a_trainer_of_trl_that_was_left_ends_as_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    expected = everything(alone(make, tmp_path / "alone"))
    house = House(tmp_path, monkeypatch)
    assert differing(everything(house.through(make, [2, 7, 10])), expected) == []
