"""Text through a loader: tokens a second from rows that are tokenised beforehand and packed or
padded, beside the way of transformers' Trainer over the same rows: torch's DataLoader, and a
collator that pads."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import datasets
import torch
import torch.utils.data as torch_data

from benchmarks.result import Result
from burst.harness.data import DataLoader, Padding, checked, pack, tokenized

ROWS = 40_000
LENGTH = 512
BATCH = 16
ROUNDS = 5


def measure() -> list[Result]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        try:
            return list(_measured(Path(folder)))
        finally:
            torch.set_num_threads(threads)


def _measured(folder: Path) -> Iterator[Result]:
    from transformers import DataCollatorWithPadding

    tokenizer = _tokenizer()
    texts = _texts()
    began = time.perf_counter()
    rows = tokenized(texts, tokenizer, max_length=LENGTH, cache=folder)
    making = time.perf_counter() - began
    began = time.perf_counter()
    tokenized(texts, tokenizer, max_length=LENGTH, cache=folder)
    finding = time.perf_counter() - began
    packed = pack(rows, LENGTH, cache=folder)
    masked = rows.map(lambda row: {"attention_mask": [1] * len(row["input_ids"])})
    collate = DataCollatorWithPadding(tokenizer)
    theirs, padded, whole = _paired(
        lambda: torch_data.DataLoader(masked, BATCH, shuffle=True, collate_fn=collate),
        lambda: _source(DataLoader(rows, BATCH, shuffle=True, collate_fn=Padding.of(tokenizer))),
        lambda: _source(DataLoader(packed, BATCH, shuffle=True)),
    )
    against = f"torch DataLoader + DataCollatorWithPadding: {theirs:,.0f} tokens/s"
    yield _faster("tokens of packed rows", whole, theirs, against, 12)
    yield _faster("tokens of padded rows", padded, theirs, against, 8)
    share = _share(lambda: DataLoader(rows, BATCH, shuffle=True, collate_fn=Padding.of(tokenizer)))
    yield Result(
        "places of a batch that hold a token, packed",
        "100 %",
        f"padded to the longest of {BATCH}: {share:.0%}",
        1 / share,
        "",
        None,
        note="what a model computes for padding is lost on top of what the loader costs",
    )
    yield Result(
        "tokenised rows found again, by every later trial",
        f"{finding:.2f} s",
        f"tokenising {ROWS:,} rows: {making:.1f} s",
        finding / making,
        "≤ 0.10×",
        finding <= 0.1 * making,
        note="every text is read to see that it is the same; rows that `load` gives are known "
        "by their files",
    )
    yield _looked_at(rows)


def _looked_at(rows: datasets.Dataset) -> Result:
    rules = {"empty": "fail", "ids": {"max": 10**6}}
    began = time.perf_counter()
    checked(rows, rules)
    ours = time.perf_counter() - began
    began = time.perf_counter()
    for row in rows:
        ids = row["input_ids"]
        if not ids or min(ids) < 0 or max(ids) > 10**6:
            raise AssertionError(row)
    loop = time.perf_counter() - began
    return Result(
        "looking at every row by two rules",
        f"{ours:.2f} s",
        f"a loop over the rows: {loop:.1f} s",
        ours / loop,
        "≤ 0.10×",
        ours <= 0.1 * loop,
    )


def _faster(what: str, ours: float, theirs: float, against: str, times: int) -> Result:
    ratio = ours / theirs
    return Result(what, f"{ours:,.0f} tokens/s", against, ratio, f"≥ {times}×", ratio >= times)


def _paired(*loaders: Callable[[], Iterable[Any]]) -> list[float]:
    """Tokens a second of each, by turns so that a noisy moment meets all of them."""
    rates: list[list[float]] = [[] for _ in loaders]
    for _ in range(ROUNDS):
        for loader, found in zip(loaders, rates, strict=True):
            found.append(_rate(iter(loader())))
    return [statistics.median(found) for found in rates]


def _rate(batches: Iterator[Any], seconds: float = 0.7) -> float:
    """Tokens that a model learns from; padding is none."""
    next(batches)
    taken, began = [], time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        batch = next(batches, None)
        if batch is None:
            break
        taken.append(batch.get("attention_mask", batch["input_ids"]))
    return sum(_tokens(each) for each in taken) / took


def _tokens(values: torch.Tensor) -> int:
    """A mask is summed; ids of packed rows are counted."""
    return int(values.sum()) if values.max() <= 1 else values.numel()


def _share(loader: Callable[[], DataLoader]) -> float:
    masks = [batch["attention_mask"] for batch in loader()]
    held = sum(int(mask.sum()) for mask in masks)
    return held / float(sum(mask.numel() for mask in masks))


def _source(loader: DataLoader) -> Iterator[Any]:
    return loader.training_source(seed=0, rank=0, ranks=1).batches(0)


def _texts() -> datasets.Dataset:
    """Pieces of the standard library's sources, from a line to a page."""
    folder = Path(inspect.getfile(json)).parent.parent
    whole = "".join(path.read_text(errors="ignore") for path in sorted(folder.glob("*.py")))
    ends = [0]
    for row in range(ROWS):
        ends.append(ends[-1] + 20 + (row * 7919) % 1500)
    texts = [whole[first % len(whole) :][: last - first]
             for first, last in itertools.pairwise(ends)]  # fmt: skip
    return datasets.Dataset.from_dict({"text": texts})


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    level = pre_tokenizers.ByteLevel
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = level(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=8000,
        special_tokens=["<pad>", "<end>"],
        show_progress=False,
        initial_alphabet=level.alphabet(),
    )
    bare.train([inspect.getfile(inspect), inspect.getfile(datasets.Dataset)], trainer)
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=bare, pad_token="<pad>", eos_token="<end>")
