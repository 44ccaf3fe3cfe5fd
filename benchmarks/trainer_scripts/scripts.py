"""A script's Trainer, as it is under burst and as transformers made it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
import transformers.trainer
from transformers import BertConfig, BertForSequenceClassification

from burst.core.clock import SystemClock
from burst.core.launch import StopFlag
from burst.harness.connect import folder_link, meet, open_engine, open_session
from burst.harness.session import Session
from burst.harness.transformers.script.ending import Ending
from burst.harness.transformers.trainer import connection, patching
from burst.harness.trial.goal import Goal

LENGTH = 32
VOCABULARY = 30522


class Tokens(torch.utils.data.Dataset[Any]):
    """Rows of token ids with a label, made beforehand."""

    def __init__(self, rows: int, vocabulary: int, length: int = LENGTH) -> None:
        generator = torch.Generator().manual_seed(0)
        self._ids = torch.randint(1, vocabulary, (rows, length), generator=generator)
        self._mask = torch.ones(length, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids = self._ids[index]
        return {"input_ids": ids, "attention_mask": self._mask, "labels": index % 2}


def bert_tiny() -> Any:
    """The smallest BERT that is in use, 4.4 million parameters: Turc et al., "Well-Read Students
    Learn Better", 2019."""
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    return BertForSequenceClassification(config)


def tiniest() -> Any:
    """One layer of width 8, whose step is the Trainer's loop and little else."""
    config = BertConfig(
        vocab_size=64,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=LENGTH,
    )
    return BertForSequenceClassification(config)


def arguments(folder: Path, **changes: Any) -> Any:
    given = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "save_strategy": "no",
        "logging_steps": 10,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        **changes,
    }
    return transformers.TrainingArguments(**given)


def trainer_of(*, alone: bool, **given: Any) -> Any:
    """A Trainer that says nothing; alone, with the methods that transformers gave it."""
    patching.patch(transformers.trainer)
    kind: Any = transformers.Trainer
    trainer = (_unreplaced(kind) if alone else kind)(**given)
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def _unreplaced(kind: Any) -> Any:
    methods = {
        name: method.__wrapped__
        for name, method in vars(kind).items()
        if name in patching._REPLACED
    }
    if len(methods) != len(patching._REPLACED):
        raise AssertionError(sorted(patching._REPLACED.keys() - methods.keys()))
    return type("Alone", (kind,), methods)


class Own(SystemClock):
    """Runs while it is its owner's turn."""

    def __init__(self) -> None:
        self.away = 0.0
        """Seconds for which it stood."""

    def monotonic(self) -> float:
        return super().monotonic() - self.away


@contextmanager
def connected(folder: Path, clock: SystemClock | None = None) -> Iterator[Session]:
    """This process's Trainers belong to a trial whose store and checkpoints are in `folder`, with
    all that an experiment's have: reports, a stop flag to look at, checkpoints at `auto`."""
    gang = meet("cpu")
    link = folder_link(folder, gang)
    flag = StopFlag(folder / "stop")
    session = open_session(link, gang, asked=lambda: flag.is_set, clock=clock)
    session.engine = open_engine(link, session)
    terms = connection.Terms(goal=Goal(metric=""))
    connection._made = connection.Connection(session, Ending(session, None), terms)
    try:
        yield session
    finally:
        connection._made = None
        session.close()
