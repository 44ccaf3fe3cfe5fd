"""Real text that is on every machine with `datasets`: what libraries say of their own functions.

The task: from the first paragraph of a docstring, tell which library it was written for.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from datasets import Dataset, DatasetDict
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

LIBRARIES = ("huggingface_hub", "networkx", "numpy")
DOCSTRING = re.compile(r':\n +r?"""(.+?)(?:\n *\n|""")', re.DOTALL)
HELD_OUT = 6
"""Every sixth paragraph is for validation."""


def paragraphs(library: str) -> list[str]:
    """The first paragraphs of a library's docstrings, each once and in order of the alphabet."""
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{library} is not installed")
    sources = [
        path.read_text(encoding="utf-8")
        for path in Path(spec.origin).parent.rglob("*.py")
        if "tests" not in path.parts
    ]
    found = {" ".join(first.split()) for text in sources for first in DOCSTRING.findall(text)}
    return sorted(paragraph for paragraph in found if len(paragraph) >= 30)


def docstrings() -> DatasetDict:
    """`train` and `validation`, with rows of `text` and `label`, the library's number."""
    rows = [
        {"text": text, "label": label}
        for label, library in enumerate(LIBRARIES)
        for text in paragraphs(library)
    ]
    training = [row for number, row in enumerate(rows) if number % HELD_OUT]
    return DatasetDict(
        train=Dataset.from_list(training), validation=Dataset.from_list(rows[::HELD_OUT])
    )


def tokenizer_of(texts: list[str], size: int = 2000) -> PreTrainedTokenizerFast:
    """Byte-pair encoding learned from texts: the same vocabulary each time, unlike a trained
    WordPiece's, whose pieces are numbered by chance."""
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel()
    pairs.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>"]
    pairs.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    pairs.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pairs,
        model_max_length=64,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
    )
