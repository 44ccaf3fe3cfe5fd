"""A small world of records, as the other parts would have written them."""

from __future__ import annotations

from typing import Any

from burst.core.model import (
    Allocation,
    Checkpoint,
    Code,
    Event,
    Exit,
    ExitKind,
    Experiment,
    Failure,
    Lengths,
    MetricChunk,
    MetricPoint,
    MetricRow,
    Node,
    Record,
    Share,
    Slot,
    Trial,
)
from burst.core.states import AllocationState, ExperimentState, Reason, TrialState
from burst.core.store.port import Append, AppendMetrics, Put, Store

NOW = 1_800_000_000.0
RUNNING = "exp-1m3k9zq4w01"
DONE = "exp-1m3k9zq4w02"
FAILED = "exp-1m3k9zq4w03"
NODE = "node-1m3k9zq4w04"

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 42, in train_batch
    raise ValueError("the learning rate is negative")
ValueError: the learning rate is negative
"""


def experiment(id: str = RUNNING, **changes: Any) -> Experiment:
    values: dict[str, Any] = {
        "id": id,
        "name": "digits",
        "owner": "ada",
        "created": NOW - 90,
        "state_since": NOW - 90,
        "config": {
            "entrypoint": "train:DigitsTrial",
            "searcher": {
                "name": "grid",
                "metric": "validation_loss",
                "smaller_is_better": True,
                "max_length": {"epochs": 5},
            },
        },
        "code": Code(digest="ab" * 32, size=12_000, commit="c0ffee" * 6, dirty=True),
        "trials": 1,
    }
    return Experiment(**values | changes)


def trial(number: int = 0, experiment: str = RUNNING, **changes: Any) -> Trial:
    values: dict[str, Any] = {
        "id": f"{experiment}.t{number:04d}",
        "experiment": experiment,
        "number": number,
        "state_since": NOW - 60,
        "seed": 42,
        "slots": 1,
        "pools": ("local",),
        "created": NOW - 90,
        "queued": NOW - 90,
        "hparams": {"lr": 0.01 * (number + 1), "net": {"hidden": 128}},
    }
    return Trial(**values | changes)


def training(number: int = 0, experiment: str = RUNNING, **changes: Any) -> Trial:
    """A trial in the middle of it."""
    values: dict[str, Any] = {
        "state": TrialState.RUNNING,
        "pool": "local",
        "attempts": 2,
        "done": Lengths(batches=840, records=26_880, epochs=3.0, seconds=9.0),
        "target_batches": 1400,
        "latest": {
            "training": MetricPoint(batches=840, metrics={"loss": 0.0812}, at=NOW - 1),
            "validation": MetricPoint(
                batches=840, metrics={"validation_loss": 0.0975, "accuracy": 0.97}, at=NOW - 1
            ),
        },
        "best": MetricPoint(
            batches=560, metrics={"validation_loss": 0.0931, "accuracy": 0.975}, at=NOW - 20
        ),
        "validations": 3,
        "checkpoint": f"ckpt-1m3k9zq4w{number}b",
        "checkpoint_at": NOW - 12,
    }
    return trial(number, experiment, **values | changes)


def allocation(of: Trial, attempt: int = 2, **changes: Any) -> Allocation:
    values: dict[str, Any] = {
        "id": f"alloc-1m3k9zq4{of.number}{attempt}a",
        "trial": of.id,
        "experiment": of.experiment,
        "pool": "local",
        "attempt": attempt,
        "token": attempt,
        "state": AllocationState.RUNNING,
        "state_since": NOW - 50,
        "shares": (Share(node=NODE, slots=(0,)),),
        "created": NOW - 60,
        "started": NOW - 50,
    }
    return Allocation(**values | changes)


def node(**changes: Any) -> Node:
    values: dict[str, Any] = {
        "id": NODE,
        "pool": "local",
        "host": "bench",
        "slots": (Slot(index=0, name="cpu"), Slot(index=1, name="cpu")),
        "expected_slots": 2,
        "requested": NOW - 80,
        "launched": NOW - 79,
        "registered": NOW - 78,
        "ready": NOW - 77,
        "facts": {"disk_free": 12_000_000_000, "versions": {"python": "3.11.2"}},
    }
    return Node(**values | changes)


def checkpoint(of: Trial, letter: str = "b", **changes: Any) -> Checkpoint:
    id = f"ckpt-1m3k9zq4w{of.number}{letter}"
    values: dict[str, Any] = {
        "id": id,
        "trial": of.id,
        "experiment": of.experiment,
        "attempt": 2,
        "batches": 840,
        "created": NOW - 12,
        "url": "file:///blobs",
        "manifest": f"checkpoints/{of.id}/{id}/manifest.json",
        "size": 3_400_000,
        "metrics": {"validation_loss": 0.0975},
    }
    return Checkpoint(**values | changes)


def event(name: str, subject: str, text: str = "", at: float = NOW, **data: Any) -> Event:
    experiment = subject.partition(".")[0] if subject.startswith("exp-") else RUNNING
    return Event(subject=subject, experiment=experiment, name=name, text=text, at=at, data=data)


def put(store: Store, *records: Record) -> None:
    for record in records:
        store.commit(Put(record))


def fill(store: Store) -> None:
    """Three experiments: one running with four trials, one completed, one failed."""
    _fill_running(store)
    done = training(
        0,
        DONE,
        state=TrialState.COMPLETED,
        done=Lengths(batches=1400, records=44_800, epochs=5.0, seconds=15.0),
        checkpoint="ckpt-1m3k9zq4wdc",
    )
    put(
        store,
        experiment(DONE, state=ExperimentState.COMPLETED, created=NOW - 4000,
                   state_since=NOW - 3970),
        done,
        checkpoint(done, "c", id="ckpt-1m3k9zq4wdc"),
    )  # fmt: skip
    failure = Failure(
        kind="ValueError",
        message="the learning rate is negative",
        traceback=TRACEBACK,
        rank=0,
        exit_code=1,
    )
    crashed = trial(0, FAILED, state=TrialState.FAILED, failure=failure, restarts=5, attempts=6)
    put(
        store,
        experiment(FAILED, name="negative", state=ExperimentState.FAILED),
        crashed,
        allocation(
            crashed,
            6,
            id="alloc-1m3k9zq4f6a",
            state=AllocationState.RELEASED,
            ended=NOW - 40,
            exit=Exit(kind=ExitKind.CRASHED, failure=failure),
        ),
    )
    store.commit(Append(event("trial.failed", crashed.id, "crashed 6 times")))


def _fill_running(store: Store) -> None:
    first, second = training(0), training(1, best=None, latest={}, validations=0)
    waiting = trial(
        2,
        wait=Reason(code="slots", text="local: 2 of 2 slots are held; 1 is needed"),
        wait_until=NOW + 5,
    )
    paused = training(3, state=TrialState.PAUSED, reason=Reason(code="user", text="by ada"))
    put(store, experiment(trials=4), first, second, waiting, paused, node())
    put(
        store,
        allocation(first, 1, state=AllocationState.RELEASED, ended=NOW - 52,
                   exit=Exit(kind=ExitKind.DRAINED)),
        allocation(first, restored_from="ckpt-1m3k9zq4w0a", restored_batches=280),
        allocation(second, shares=(Share(node=NODE, slots=(1,)),)),
        checkpoint(first, "a", batches=280, created=NOW - 50, deleted=NOW - 20),
        checkpoint(first, "b"),
    )  # fmt: skip
    rows = tuple(
        MetricRow(batches=b, at=NOW - 60 + b / 20, metrics={"validation_loss": 80 / b})
        for b in (280, 560, 840)
    )
    store.commit(
        AppendMetrics(
            MetricChunk(trial=first.id, attempt=1, group="validation", seq=0, rows=rows)
        ),
        Append(event("experiment.created", RUNNING, "by ada", NOW - 90)),
        Append(event("trial.running", first.id, "2 of 2 slots on local", NOW - 60)),
        Append(event("trial.paused", paused.id, "by ada", NOW - 30)),
    )
