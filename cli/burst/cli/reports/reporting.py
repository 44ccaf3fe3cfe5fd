"""What a report of an experiment says, read from the store; bounded, however large it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from burst.cli import reading
from burst.cli.encoding import checkpoint_json, experiment_json, number, trial_json
from burst.cli.pages import offered_checkpoint
from burst.cli.reading import Picture, metric_of, searcher_of
from burst.cli.reports.costing import Cost, cost_of
from burst.cli.session import Session
from burst.cli.shapes import ReportJson
from burst.core.config.experiment import ExperimentConfig
from burst.core.config.unacted import unacted
from burst.core.metrics import merge
from burst.core.model import Allocation, Checkpoint, Experiment, MetricRow, Node, Trial

MOST_TRIALS = 200
"""Trials of which the attempts are read; a larger search's cost is that of its first ones."""


@dataclass(frozen=True)
class Report:
    """An experiment as it stands, for people who were not there."""

    picture: Picture
    best: Trial | None
    """The trial with the best validation."""
    checkpoint: Checkpoint | None
    """The one to take: at the best validation of that trial, else its newest."""
    curve: Sequence[MetricRow]
    """Validations of the best trial, or of the only one."""
    allocations: Sequence[Allocation]
    cost: Cost
    uncounted: int
    """Trials that are not in the cost."""
    unacted: Sequence[str]
    """Fields of its file that nothing acts on yet."""

    @property
    def experiment(self) -> Experiment:
        return self.picture.experiment

    @property
    def shown(self) -> Trial | None:
        """The trial that the report is about: the best one, or else the only one."""
        only = self.picture.trials[0] if len(self.picture.trials) == 1 else None
        return self.best or only

    @property
    def pools(self) -> list[str]:
        """Where it ran, in the order in which it came there."""
        return list(dict.fromkeys(allocation.pool for allocation in self.allocations))


def report_of(session: Session, experiment: str) -> Report:
    """Read what there is of the experiment now.

    Raises:
        NotFound: there is no such experiment.
    """
    store, now = session.store, session.clock.now()
    picture = reading.picture(store, experiment, now)
    best = reading.best_trial(picture.experiment, picture.trials)
    only = picture.trials[0] if len(picture.trials) == 1 else None
    counted = picture.trials[:MOST_TRIALS]
    allocations = [a for trial in counted for a in reading.attempts_of(store, trial.id)]
    wanted = {share.node for allocation in allocations for share in allocation.shares}
    nodes = store.find_many(Node, sorted(wanted)) if wanted else {}
    return Report(
        picture,
        best,
        offered_checkpoint(session, best or only),
        _curve(session, best or only),
        allocations,
        cost_of(allocations, nodes, now),
        len(picture.trials) - len(counted),
        _unacted(picture.experiment),
    )


def value_of(report: Report) -> float | None:
    """The best validation by the searcher's metric."""
    if report.best is None or report.best.best is None:
        return None
    return report.best.best.metrics.get(metric_of(report.experiment))


def ranked(report: Report) -> list[Trial]:
    """The trials, the best validation first, and those without one by number."""
    metric = metric_of(report.experiment)
    sign = 1.0 if searcher_of(report.experiment).get("smaller_is_better", True) else -1.0

    def key(trial: Trial) -> tuple[float, int]:
        value = trial.best.metrics.get(metric) if trial.best else None
        known = value is not None and not math.isnan(value)
        return (sign * value if known and value is not None else math.inf), trial.number

    return sorted(report.picture.trials, key=key)


def report_json(report: Report) -> ReportJson:
    picture, cost = report.picture, report.cost
    return {
        "experiment": experiment_json(picture.experiment, report.best),
        "trials": [trial_json(trial, picture.now) for trial in picture.trials],
        "checkpoint": checkpoint_json(report.checkpoint) if report.checkpoint else None,
        "value": number(value_of(report)),
        "curve": [
            {"batches": row.batches, "value": number(row.metrics[metric])}
            for metric in [metric_of(picture.experiment)]
            for row in report.curve
            if metric in row.metrics
        ],
        "pools": report.pools,
        "usd": cost.usd,
        "node_hours": cost.hours,
        "unpriced_node_hours": cost.unpriced_hours,
        "uncounted_trials": report.uncounted,
        "unacted": list(report.unacted),
    }


def _curve(session: Session, trial: Trial | None) -> list[MetricRow]:
    if trial is None:
        return []
    return merge(session.store.metrics(trial.id, "validation")).get("validation", [])


def _unacted(experiment: Experiment) -> tuple[str, ...]:
    try:
        return unacted(ExperimentConfig.model_validate(experiment.config))
    except ValueError:  # an older burst wrote it, or a newer one
        return ()
