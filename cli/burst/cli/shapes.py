"""What `--json` prints. Names stay; a new one may be added; `null` is what is not known (yet).

Times are seconds since the Unix epoch. Not-a-number and infinities are the strings "NaN",
"Infinity" and "-Infinity", as in the store. `docs/cli.md` prints these shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypedDict

from burst.core.model import (
    Allocation,
    Checkpoint,
    Event,
    Experiment,
    Failure,
    Json,
    MetricPoint,
    MetricRow,
    Node,
    Trial,
)
from burst.core.states import Reason

Number = float | int | str | None
"""A number, or one of the strings that stand for those JSON has no name for."""


class ReasonJson(TypedDict):
    code: str
    text: str


class PointJson(TypedDict):
    batches: int
    metrics: dict[str, Number]
    at: float


class FailureJson(TypedDict):
    kind: str
    message: str
    traceback: str
    rank: int | None
    exit_code: int | None


class TrialJson(TypedDict):
    id: str
    experiment: str
    number: int
    state: str
    reason: ReasonJson
    state_since: float
    hparams: dict[str, Json]
    seed: int
    slots: int
    pools: list[str]
    pool: str | None
    created: float
    attempts: int
    restarts: int
    batches: int
    records: int
    epochs: float
    seconds: float
    target_batches: int | None
    progress: float | None
    validations: int
    latest: dict[str, PointJson]
    best: PointJson | None
    checkpoint: str | None
    checkpoint_at: float | None
    wait: ReasonJson | None
    wait_until: float | None
    failure: FailureJson | None


class ExperimentJson(TypedDict):
    id: str
    name: str
    state: str
    reason: ReasonJson
    state_since: float
    owner: str
    created: float
    labels: list[str]
    searcher: str
    metric: str
    smaller_is_better: bool
    code: str
    commit: str | None
    trials: int
    best_trial: str | None
    best: PointJson | None


class ExperimentWholeJson(ExperimentJson):
    """`burst show EXPERIMENT --json`: the experiment, its settings and its trials."""

    config: dict[str, Json]
    trial_records: list[TrialJson]


class AllocationJson(TypedDict):
    id: str
    trial: str
    attempt: int
    state: str
    reason: ReasonJson
    pool: str
    nodes: list[str]
    slots: int
    created: float
    started: float | None
    ended: float | None
    restored_from: str | None
    restored_batches: int
    drain: str | None
    exit: str | None


class CheckpointJson(TypedDict):
    id: str
    trial: str
    experiment: str
    attempt: int
    batches: int
    created: float
    url: str
    manifest: str
    size: int
    metrics: dict[str, Number]
    pinned: bool
    pin_reason: str | None
    deleted: float | None
    damaged: str | None


class TrialWholeJson(TrialJson):
    """`burst show TRIAL --json`: the trial, its attempts and its checkpoints."""

    allocations: list[AllocationJson]
    checkpoints: list[CheckpointJson]


class NodeJson(TypedDict):
    id: str
    pool: str
    host: str | None
    state: str
    slots: int
    used: int
    devices: list[str]
    requested: float
    ready: float | None
    gone: float | None
    gone_reason: ReasonJson | None
    idle_since: float | None
    facts: dict[str, Json]


class PoolJson(TypedDict):
    name: str
    kind: str
    slots_per_node: int | None
    max_nodes: int | None
    nodes: int
    slots: int
    used: int
    waiting: int


class MetricRowJson(TypedDict):
    group: str
    batches: int
    at: float
    metrics: dict[str, Number]


class EventJson(TypedDict):
    at: float
    name: str
    subject: str
    experiment: str
    text: str
    data: dict[str, Json]


class PlanJson(TypedDict):
    """The first line of `burst run --json`, and all of `burst run --dry-run --json`."""

    type: str
    name: str
    searcher: str
    trials: int
    at_once: int
    slots_per_trial: int
    length: str | None
    metric: str
    smaller_is_better: bool
    pools: list[str]
    entrypoint: str
    code: str
    code_size: int


class ExperimentLineJson(TypedDict):
    """The second line of `burst run --json`: the experiment that was started or attached to."""

    type: str
    attached: bool
    experiment: ExperimentJson


class EventLineJson(EventJson):
    """A line of `burst run --json`: an event of the experiment."""

    type: str


class ValidationLineJson(MetricRowJson):
    """A line of `burst run --json`: a validation."""

    type: str
    trial: str


class WaitLineJson(TypedDict):
    """A line of `burst run --json`: a trial waits, and why."""

    type: str
    trial: str
    reason: ReasonJson
    until: float | None


class LogLineJson(TypedDict):
    """A line of `burst logs --json`, and of `burst run --follow --json`.

    A rank of `null` is the launcher, or a set-up command.
    """

    type: str
    trial: str
    attempt: int
    rank: int | None
    at: float
    line: str


class ResultJson(TypedDict):
    """The last line of `burst run --json`, and what `burst wait --json` prints."""

    type: str
    exit_code: int
    experiment: ExperimentJson
    trials: list[TrialJson]
    checkpoint: CheckpointJson | None


class WhyJson(TypedDict):
    """`burst why --json`: an array of what waits."""

    id: str
    state: str
    reason: ReasonJson | None
    until: float | None
    pools: list[WhyPoolJson]


class WhyPoolJson(TypedDict):
    pool: str
    reason: str
    slots: int
    used: int


class CheckJson(TypedDict):
    """`burst doctor --json`: an array of what was checked."""

    name: str
    ok: bool
    found: str
    mend: str | None


def number(value: float | None) -> Number:
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def numbers(values: Mapping[str, float]) -> dict[str, Number]:
    return {name: number(value) for name, value in values.items()}


def plain(value: Json) -> Json:
    """`value` with every number JSON has no name for as its string."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def reason_json(reason: Reason) -> ReasonJson:
    return {"code": reason.code, "text": reason.text}


def point_json(point: MetricPoint) -> PointJson:
    return {"batches": point.batches, "metrics": numbers(point.metrics), "at": point.at}


def failure_json(failure: Failure) -> FailureJson:
    return {
        "kind": failure.kind,
        "message": failure.message,
        "traceback": failure.traceback,
        "rank": failure.rank,
        "exit_code": failure.exit_code,
    }


def progress_of(trial: Trial) -> float | None:
    """0 to 1; None where the length is not known yet."""
    if not trial.target_batches:
        return None
    return min(1.0, trial.done.batches / trial.target_batches)


def trial_json(trial: Trial) -> TrialJson:
    return {
        "id": trial.id,
        "experiment": trial.experiment,
        "number": trial.number,
        "state": str(trial.state),
        "reason": reason_json(trial.reason),
        "state_since": trial.state_since,
        "hparams": plain(dict(trial.hparams)),
        "seed": trial.seed,
        "slots": trial.slots,
        "pools": list(trial.pools),
        "pool": trial.pool or None,
        "created": trial.created,
        "attempts": trial.attempts,
        "restarts": trial.restarts,
        "batches": trial.done.batches,
        "records": trial.done.records,
        "epochs": trial.done.epochs,
        "seconds": trial.done.seconds,
        "target_batches": trial.target_batches,
        "progress": progress_of(trial),
        "validations": trial.validations,
        "latest": {group: point_json(point) for group, point in trial.latest.items()},
        "best": point_json(trial.best) if trial.best else None,
        "checkpoint": trial.checkpoint or None,
        "checkpoint_at": trial.checkpoint_at,
        "wait": reason_json(trial.wait) if trial.wait else None,
        "wait_until": trial.wait_until,
        "failure": failure_json(trial.failure) if trial.failure else None,
    }


def experiment_json(experiment: Experiment, best: Trial | None) -> ExperimentJson:
    searcher = experiment.config.get("searcher", {})
    return {
        "id": experiment.id,
        "name": experiment.name,
        "state": str(experiment.state),
        "reason": reason_json(experiment.reason),
        "state_since": experiment.state_since,
        "owner": experiment.owner,
        "created": experiment.created,
        "labels": list(experiment.labels),
        "searcher": searcher.get("name", ""),
        "metric": searcher.get("metric", ""),
        "smaller_is_better": searcher.get("smaller_is_better", True),
        "code": experiment.code.digest,
        "commit": experiment.code.commit or None,
        "trials": experiment.trials,
        "best_trial": best.id if best else None,
        "best": point_json(best.best) if best and best.best else None,
    }


def experiment_whole_json(
    experiment: Experiment, trials: Sequence[Trial], best: Trial | None
) -> ExperimentWholeJson:
    return {
        **experiment_json(experiment, best),
        "config": plain(dict(experiment.config)),
        "trial_records": [trial_json(trial) for trial in trials],
    }


def allocation_json(allocation: Allocation) -> AllocationJson:
    return {
        "id": allocation.id,
        "trial": allocation.trial,
        "attempt": allocation.attempt,
        "state": str(allocation.state),
        "reason": reason_json(allocation.reason),
        "pool": allocation.pool,
        "nodes": [share.node for share in allocation.shares],
        "slots": sum(len(share.slots) for share in allocation.shares),
        "created": allocation.created,
        "started": allocation.started,
        "ended": allocation.ended,
        "restored_from": allocation.restored_from or None,
        "restored_batches": allocation.restored_batches,
        "drain": str(allocation.drain.cause) if allocation.drain else None,
        "exit": str(allocation.exit.kind) if allocation.exit else None,
    }


def checkpoint_json(checkpoint: Checkpoint) -> CheckpointJson:
    return {
        "id": checkpoint.id,
        "trial": checkpoint.trial,
        "experiment": checkpoint.experiment,
        "attempt": checkpoint.attempt,
        "batches": checkpoint.batches,
        "created": checkpoint.created,
        "url": checkpoint.url,
        "manifest": checkpoint.manifest,
        "size": checkpoint.size,
        "metrics": numbers(checkpoint.metrics),
        "pinned": checkpoint.pinned,
        "pin_reason": checkpoint.pin_reason or None,
        "deleted": checkpoint.deleted,
        "damaged": checkpoint.damaged or None,
    }


def trial_whole_json(
    trial: Trial, allocations: Sequence[Allocation], checkpoints: Sequence[Checkpoint]
) -> TrialWholeJson:
    return {
        **trial_json(trial),
        "allocations": [allocation_json(a) for a in allocations],
        "checkpoints": [checkpoint_json(c) for c in checkpoints],
    }


def node_json(node: Node, used: int) -> NodeJson:
    return {
        "id": node.id,
        "pool": node.pool,
        "host": node.host or None,
        "state": str(node.state),
        "slots": len(node.slots) or node.expected_slots,
        "used": used,
        "devices": [slot.name or slot.device for slot in node.slots],
        "requested": node.requested,
        "ready": node.ready,
        "gone": node.gone,
        "gone_reason": reason_json(node.gone_reason) if node.gone_reason else None,
        "idle_since": node.idle_since,
        "facts": plain(dict(node.facts)),
    }


def metric_row_json(group: str, row: MetricRow) -> MetricRowJson:
    return {
        "group": group,
        "batches": row.batches,
        "at": row.at,
        "metrics": numbers(row.metrics),
    }


def event_json(event: Event) -> EventJson:
    return {
        "at": event.at,
        "name": event.name,
        "subject": event.subject,
        "experiment": event.experiment,
        "text": event.text,
        "data": plain(dict(event.data)),
    }
