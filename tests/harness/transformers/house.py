"""Trains with a Trainer in this process, as a script under burst or as one alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import datasets
import pytest
import torch
import transformers
import transformers.trainer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from burst.core.launch import LAUNCH_VARIABLE, LaunchSpec, Outcome
from burst.core.metrics import merge
from burst.core.model import Checkpoint
from burst.harness.transformers.script.ending import Ending
from burst.harness.transformers.trainer import connection, patching
from burst.harness.trial.run import connect
from tests.harness.launching import TRIAL, Site

TIMINGS = ("runtime", "per_second", "step_time")


class Rows(torch.utils.data.Dataset[Any]):
    """Token ids that depend on the row; `noisy` ones on the random generators, too."""

    def __init__(self, rows: int = 22, *, noisy: bool = False, ragged: bool = True) -> None:
        self.rows = rows
        self.noisy = noisy
        self.ragged = ragged
        self.read = 0

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index >= self.rows:
            raise IndexError(index)
        self.read += 1
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(1, 60, (4 + index % 3 * self.ragged,), generator=generator)
        if self.noisy:
            ids = (ids + torch.randint(0, 60, ids.shape)) % 60 + 1
        return {"input_ids": ids, "labels": int(ids[0] > 30)}


class Stream(torch.utils.data.IterableDataset[Any]):
    """Rows in their order, and no way to begin in the middle."""

    def __init__(self, *, noisy: bool = False, ragged: bool = True) -> None:
        self.rows = Rows(noisy=noisy, ragged=ragged)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self.rows[index] for index in range(len(self.rows)))


def hub_stream(*, noisy: bool = False, ragged: bool = True) -> Any:
    """A stream of Hugging Face's, of two shards, that tells its place."""
    rows = Rows(ragged=ragged)

    def read(shards: list[int]) -> Iterator[dict[str, Any]]:
        for shard in shards:
            for index in range(shard, len(rows), 2):
                yield {**rows[index], "input_ids": rows[index]["input_ids"].tolist()}

    def noise(row: dict[str, Any]) -> dict[str, Any]:
        ids = torch.as_tensor(row["input_ids"])
        return {"input_ids": ((ids + torch.randint(0, 60, ids.shape)) % 60 + 1).tolist()}

    stream = datasets.IterableDataset.from_generator(read, gen_kwargs={"shards": [0, 1]})
    return stream.map(noise if noisy else None)


def padded(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    ids = torch.nn.utils.rnn.pad_sequence(
        [torch.as_tensor(r["input_ids"]) for r in rows], batch_first=True
    )
    labels = torch.tensor([int(r["labels"]) for r in rows])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


def classifier() -> Any:
    config = BertConfig(
        vocab_size=64,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    return BertForSequenceClassification(config)


def arguments(folder: Path, **changes: Any) -> TrainingArguments:
    given = {
        "output_dir": str(folder),
        "num_train_epochs": 3,
        "per_device_train_batch_size": 4,
        "eval_strategy": "epoch",
        "save_strategy": "no",
        "logging_steps": 2,
        "learning_rate": 0.01,
        "warmup_steps": 3,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        **changes,
    }
    return TrainingArguments(**given)


class StopAt(TrainerCallback):
    """Is asked to leave after a step; kills where it is to."""

    def __init__(self, step: int | None, *, kill: bool = False) -> None:
        self.step = step
        self.kill = kill
        self.asked = Event()
        """No plain value, as those of a script's callbacks go on with the next attempt."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            if self.kill:
                raise Killed
            self.asked.set()


class Killed(BaseException):
    """The process ended without a word."""


Make = Callable[[Path, list[TrainerCallback]], Trainer]


class House:
    """One trial, in as many attempts as it takes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **config: Any) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        config = {"searcher": {"name": "single", "metric": "eval_loss"}, **config}
        self.site = Site(folder, "", ["python", "train.py"], **config)
        self.spec: LaunchSpec | None = None
        patching.patch(transformers.trainer)

    def attempt(
        self, make: Make, stop: int | None = None, *, kill: bool = False, **train: Any
    ) -> Trainer:
        """Run a script that makes a Trainer and trains; it is asked to leave after step `stop`.

        Raises:
            SystemExit: it left, as it was asked to.
            Killed: `kill` has it end at that step, and what it had in memory is lost.
        """
        self.spec = spec = self.site.prepare()
        self._monkeypatch.setenv(LAUNCH_VARIABLE, str(spec.path / "spec.json"))
        stopper = StopAt(stop, kill=kill)
        session = connect(spec, self.site.config, stopper.asked.is_set)
        ending = Ending(session, spec)
        terms = connection.Terms.of(self.site.config)
        made = connection.Connection(session, ending, terms, spec.path)
        self._monkeypatch.setattr(connection, "_made", made)
        here = Path.cwd()
        os.chdir(spec.path / "code")
        try:
            trainer = make(Path("out"), [stopper])
            trainer.train(**train)
            ending._finish()
            return trainer
        except Killed:
            if session.engine is not None:
                session.engine.wait(60)
            session.close()
            raise
        finally:
            os.chdir(here)
            self._monkeypatch.setattr(connection, "_made", None)
            self._monkeypatch.delenv(LAUNCH_VARIABLE)

    def through(self, make: Make, stops: list[int], *, kill: bool = False) -> Trainer:
        """Run a script, left after each of these steps, to its end."""
        for step in stops:
            with pytest.raises(Killed if kill else SystemExit):
                self.attempt(make, step, kill=kill)
        return self.attempt(make)

    @property
    def outcome(self) -> Outcome | None:
        """What the last attempt said of its end."""
        return None if self.spec is None else Outcome.read(self.spec.path)

    def rows(self, group: str) -> list[tuple[int, dict[str, float]]]:
        """The trial's metrics without what the clock decides."""
        merged = merge(self.site.store.metrics(TRIAL))
        return [(row.batches, untimed(row.metrics)) for row in merged.get(group, [])]

    def checkpoints(self) -> list[Checkpoint]:
        return list(self.site.store.children(Checkpoint, TRIAL))


def alone(make: Make, folder: Path) -> Trainer:
    """The same script without burst."""
    folder.mkdir()
    here = Path.cwd()
    os.chdir(folder)
    try:
        trainer = make(Path("out"), [])
        trainer.train()
        return trainer
    finally:
        os.chdir(here)


def untimed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not name.endswith(TIMINGS)}


def everything(trainer: Trainer) -> dict[str, Any]:
    """All that has to be equal, in forms that compare."""
    state = trainer.state
    model: Any = trainer.model
    optimizer: Any = trainer.optimizer
    scheduler: Any = trainer.lr_scheduler
    flat: dict[str, Any] = {
        f"model.{name}": value.clone() for name, value in model.state_dict().items()
    }
    for number, values in optimizer.state_dict()["state"].items():
        flat |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
    flat["scheduler"] = scheduler.state_dict()
    flat["log"] = [untimed(row) for row in state.log_history]
    for name in ("epoch", "global_step", "best_metric", "best_global_step", "max_steps"):
        flat[name] = getattr(state, name)
    flat["flos"] = state.total_flos
    flat["random"] = torch.rand(3)
    return flat


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of what is not equal, to the bit."""
    names = sorted(one.keys() | other.keys())
    return [name for name in names if not _equal(one.get(name), other.get(name))]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)


def script(**changes: Any) -> Make:
    """A script that trains the classifier; `changes` are arguments, and what it is
    made of."""
    noisy, model = changes.pop("noisy", False), changes.pop("model", classifier)
    callbacks = changes.pop("callbacks", list)
    data, kind = changes.pop("data", Rows), changes.pop("trainer", Trainer)

    def make(folder: Path, more: list[TrainerCallback]) -> Trainer:
        set_seed(7)
        made: Trainer = kind(
            model=model(),
            args=arguments(folder, **changes),
            data_collator=padded,
            train_dataset=data(noisy=noisy),
            eval_dataset=Rows(9),
            callbacks=[*callbacks(), *more],
        )
        return made

    return make
