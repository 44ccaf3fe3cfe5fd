"""Real text that is on every machine with Python: its language reference, and its own sources."""

from __future__ import annotations

import sysconfig
from itertools import chain
from pathlib import Path
from pydoc_data.topics import topics

from datasets import Dataset, DatasetDict
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

MODULES = ("csv", "datetime", "heapq", "pathlib")
HELD_OUT = 8
"""Every eighth text is for validation."""


def split(texts: list[str]) -> DatasetDict:
    training = [text for number, text in enumerate(texts, start=1) if number % HELD_OUT]
    return DatasetDict(
        train=Dataset.from_dict({"text": training}),
        validation=Dataset.from_dict({"text": texts[HELD_OUT - 1 :: HELD_OUT]}),
    )


def reference() -> DatasetDict:
    """What `help()` shows of the language, a topic a row."""
    return split([topics[name] for name in sorted(topics)])


def sources() -> DatasetDict:
    """Modules of the standard library, a function or class a row."""
    library = Path(sysconfig.get_paths()["stdlib"])
    read = [(library / f"{module}.py").read_text(encoding="utf-8") for module in MODULES]
    return split([part for text in read for part in text.split("\n\n\n")])


def tokenizer_of(texts: list[str], size: int = 1024) -> PreTrainedTokenizerFast:
    """GPT-2's byte-pair encoding, learned from texts."""
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    pairs.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pairs, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )


def blocks(texts: DatasetDict, tokenizer: PreTrainedTokenizerBase, length: int) -> DatasetDict:
    """The texts in blocks of `length` tokens, one after another, each with an end."""

    def tokenized(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        ends = [text + str(tokenizer.eos_token) for text in rows["text"]]
        return {"input_ids": tokenizer(ends, verbose=False)["input_ids"]}

    def packed(rows: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        tokens = list(chain.from_iterable(rows["input_ids"]))
        whole = range(0, len(tokens) - length + 1, length)
        ids = [tokens[start : start + length] for start in whole]
        return {"input_ids": ids, "labels": ids}

    tokens = texts.map(tokenized, batched=True, remove_columns=["text"])
    return tokens.map(packed, batched=True)
