"""From records to the shapes that `--json` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from burst.cli.shapes import (
    AllocationJson,
    CheckpointJson,
    EventJson,
    ExperimentJson,
    ExperimentWholeJson,
    FailureJson,
    MetricRowJson,
    NodeJson,
    Number,
    PointJson,
    ReasonJson,
    TrialJson,
    TrialWholeJson,
)
from burst.core.checkpoints.assurance.age import checkpoint_age, is_late
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
        "node": failure.node or None,
        "exit_code": failure.exit_code,
    }


def progress_of(trial: Trial) -> float | None:
    """0 to 1; None where the length is not known yet."""
    if not trial.target_batches:
        return None
    return min(1.0, trial.done.batches / trial.target_batches)


def trial_json(trial: Trial, now: float) -> TrialJson:
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
        "checkpoint_age_s": checkpoint_age(trial, now),
        "checkpoint_interval_s": trial.checkpoint_interval,
        "checkpoint_late": is_late(trial, now),
        "checkpoint_problem": trial.checkpoint_problem or None,
        "proved": trial.proved or None,
        "unprovable": trial.unprovable or None,
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
    experiment: Experiment, trials: Sequence[Trial], best: Trial | None, now: float
) -> ExperimentWholeJson:
    return {
        **experiment_json(experiment, best),
        "config": plain(dict(experiment.config)),
        "trial_records": [trial_json(trial, now) for trial in trials],
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
    because = checkpoint.deleted_because
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
        "deleted_because": reason_json(because) if because is not None else None,
        "damaged": checkpoint.damaged or None,
    }


def trial_whole_json(
    trial: Trial,
    allocations: Sequence[Allocation],
    checkpoints: Sequence[Checkpoint],
    now: float,
) -> TrialWholeJson:
    return {
        **trial_json(trial, now),
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
