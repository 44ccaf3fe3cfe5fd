"""A report as `name=value` lines: what GitHub reads from `$GITHUB_OUTPUT`, and GitLab as a dotenv
report. Values are on one line; one that is not known is empty."""

from __future__ import annotations

import math
from collections.abc import Mapping

from burst.cli.reading import metric_of
from burst.cli.reports.reporting import Report, value_of
from burst.cli.views import text
from burst.core.states import ExperimentState, TrialState

MOST_LETTERS = 400
"""Of words that somebody wrote. GitLab takes 5 kB for all lines together, and a letter has up to
four bytes."""


def outputs(report: Report) -> Mapping[str, str]:
    """What the next step may want to know, by name."""
    experiment, checkpoint = report.experiment, report.checkpoint
    value = value_of(report)
    return {
        "experiment": experiment.id,
        "state": str(experiment.state),
        "reason": text.one_line(_reason(report), MOST_LETTERS),
        "metric": text.one_line(metric_of(experiment), MOST_LETTERS),
        "value": "" if value is None or not math.isfinite(value) else repr(value),
        "trial": report.best.id if report.best else "",
        "checkpoint": checkpoint.id if checkpoint else "",
        "checkpoint_url": _url(report),
        "usd": "" if report.cost.usd is None else f"{report.cost.usd:.4f}",
    }


def _reason(report: Report) -> str:
    """Why it stands as it does: of what failed, the first error."""
    if report.experiment.state is ExperimentState.FAILED:
        for trial in report.picture.trials:
            if trial.state is TrialState.FAILED and trial.failure is not None:
                return f"{trial.failure.kind}: {trial.failure.message}"
    return report.experiment.reason.text


def env_lines(report: Report) -> str:
    return "".join(f"{name}={value}\n" for name, value in outputs(report).items())


def _url(report: Report) -> str:
    """Where the checkpoint's manifest lies."""
    if report.checkpoint is None:
        return ""
    place = report.checkpoint.url.partition("?")[0].rstrip("/")
    return text.one_line(f"{place}/{report.checkpoint.manifest}")
