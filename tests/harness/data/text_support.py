"""Texts, and a tokenizer that is trained on them here: nothing comes from a hub."""

from __future__ import annotations

import functools
import inspect
import json
import string
from pathlib import Path
from typing import Any

import datasets

from burst.core.launch import LaunchSpec

VOCABULARY = 400


def documents(number: int = 40) -> list[str]:
    """Functions of the standard library, of several lengths; some are next to nothing."""
    found = [inspect.getsource(value) for value in vars(json.decoder).values()
             if inspect.isfunction(value)]  # fmt: skip
    found += [string.printable, "x", " "]
    return [found[index % len(found)][: 400 - index] for index in range(number)]


def rows(number: int = 40) -> datasets.Dataset:
    return datasets.Dataset.from_dict(
        {"text": documents(number), "label": [index % 3 for index in range(number)]}
    )


def raw_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    level = pre_tokenizers.ByteLevel
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = level(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<end>"],
        show_progress=False,
        initial_alphabet=level.alphabet(),
    )
    tokenizer.train_from_iterator(documents(), trainer)
    return tokenizer


@functools.cache
def tokenizer() -> Any:
    from transformers import PreTrainedTokenizerFast

    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=raw_tokenizer(), pad_token="<pad>", eos_token="<end>")


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def launch_in(folder: Path, blobs_url: str) -> LaunchSpec:
    """A launch whose attempt lies in `folder`, written there."""
    spec = LaunchSpec(
        folder=str(folder),
        store_url=f"sqlite://{folder}/store.db",
        blobs_url=blobs_url,
        checkpoints_url=blobs_url,
        experiment="exp-1m3k9zq4w7c",
        trial="exp-1m3k9zq4w7c.t0000",
        allocation="alloc-1m3k9zq4w7c",
        node="node-1m3k9zq4w7c",
        attempt=1,
        token=1,
        hparams={},
        seed=1,
        config={},
    )
    spec.write()
    return spec
