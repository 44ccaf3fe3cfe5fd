"""Small whole records, one function a kind; every argument overrides a field."""

from __future__ import annotations

from typing import Any

from burst.core.ids import trial_id
from burst.core.model import (
    Allocation,
    Checkpoint,
    Code,
    Event,
    Experiment,
    Family,
    Key,
    Lease,
    MetricChunk,
    MetricRow,
    Model,
    Node,
    Record,
    Refusal,
    RefusalKind,
    Share,
    Slot,
    Supply,
    Trial,
)

NOW = 1_800_000_000.0
EXPERIMENT = "exp-1m3k9zq4w7c"
TRIAL = trial_id(EXPERIMENT, 0)


def experiment(**fields: Any) -> Experiment:
    given = {
        "id": EXPERIMENT,
        "name": "digits",
        "owner": "ada",
        "created": NOW,
        "state_since": NOW,
        "config": {"name": "digits"},
        "code": Code(digest="ab" * 32, size=1234),
    }
    return Experiment(**{**given, **fields})


def trial(number: int = 0, **fields: Any) -> Trial:
    of = fields.get("experiment", EXPERIMENT)
    given = {
        "id": trial_id(of, number),
        "experiment": of,
        "number": number,
        "seed": 42,
        "slots": 1,
        "pools": ("local",),
        "created": NOW,
        "queued": NOW,
        "state_since": NOW,
    }
    return Trial(**{**given, **fields})


def allocation(**fields: Any) -> Allocation:
    given = {
        "id": "alloc-1m3k9zq4w7c",
        "trial": TRIAL,
        "experiment": EXPERIMENT,
        "pool": "local",
        "attempt": 1,
        "token": 1,
        "shares": (Share(node="node-1m3k9zq4w7c", slots=(0,)),),
        "created": NOW,
        "state_since": NOW,
    }
    return Allocation(**{**given, **fields})


def node(**fields: Any) -> Node:
    given = {
        "id": "node-1m3k9zq4w7c",
        "pool": "local",
        "expected_slots": 1,
        "slots": (Slot(index=0),),
        "requested": NOW,
    }
    return Node(**{**given, **fields})


def lease(**fields: Any) -> Lease:
    return Lease(**{"id": "node-1m3k9zq4w7c", **fields})


def supply(**fields: Any) -> Supply:
    refusal = Refusal(
        kind=RefusalKind.CAPACITY, code="InsufficientInstanceCapacity", text="", at=NOW, until=NOW
    )
    given = {"id": "spot", "refusals": {"spot/us-east-1a/p5.48xlarge": refusal}}
    return Supply(**{**given, **fields})


def checkpoint(**fields: Any) -> Checkpoint:
    given = {
        "id": "ckpt-1m3k9zq4w7c",
        "trial": TRIAL,
        "experiment": EXPERIMENT,
        "attempt": 1,
        "batches": 100,
        "created": NOW,
        "url": "file:///blobs",
        "manifest": f"checkpoints/{TRIAL}/ckpt-1m3k9zq4w7c/manifest.json",
        "size": 4096,
    }
    return Checkpoint(**{**given, **fields})


def model(**fields: Any) -> Model:
    return Model(**{"id": "digits", "created": NOW, **fields})


def family(**fields: Any) -> Family:
    return Family(**{"id": "family-0", "trials": (TRIAL,), **fields})


def key(**fields: Any) -> Key:
    return Key(**{"id": Key.id_of("nightly"), "experiment": EXPERIMENT, **fields})


def records() -> tuple[Record, ...]:
    """One of each kind."""
    of_trials = (experiment(), trial(), allocation(), node(), lease(), checkpoint())
    return (*of_trials, supply(), model(), family(), key())


def event(name: str = "trial.running", **fields: Any) -> Event:
    given = {"subject": TRIAL, "experiment": EXPERIMENT, "name": name, "at": NOW}
    return Event(**{**given, **fields})


def chunk(seq: int = 0, **fields: Any) -> MetricChunk:
    given = {
        "trial": TRIAL,
        "attempt": 1,
        "group": "training",
        "seq": seq,
        "rows": (MetricRow(batches=seq + 1, at=NOW, metrics={"loss": 0.5}),),
    }
    return MetricChunk(**{**given, **fields})
