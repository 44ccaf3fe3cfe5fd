"""A report in Markdown, as GitHub and GitLab show it: in a job's summary, a comment, an issue.

Every name comes from files that somebody wrote, so none may become a link, a mention or a column:
names stand in code spans. What is shown is bounded, however large the search was.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Sequence

from burst.cli.reading import metric_of, searcher_of
from burst.cli.reports.reporting import Report, ranked, value_of
from burst.cli.views import text
from burst.cli.views.trials import hparam_cells, own_stop, short_id
from burst.core.model import Checkpoint, Failure, MetricRow, Trial
from burst.core.states import ExperimentState, TrialState, is_terminal
from burst.core.units import counted

MOST_ROWS, MOST_METRICS, MOST_POINTS = 20, 4, 16
_MOST_LETTERS, _MOST_LINES, _MOST_WIDTH = 120, 40, 300


def markdown(report: Report) -> str:
    """The whole report, ending in a line break."""
    experiment = report.experiment
    glyph = text.state(experiment.state).plain
    parts = [f"### {glyph}: {code(experiment.name)}", _verdict(report), _failures(report)]
    parts += [_facts(report), _chart(report), _trials(report), _next(report)]
    return "\n\n".join(part for part in parts if part) + "\n"


def code(words: str, most: int = _MOST_LETTERS) -> str:
    """Foreign words, such that nothing in them means anything."""
    cut = text.one_line(words, most).replace("`", "'")
    return f"`{cut}`" if cut else "–"


def _verdict(report: Report) -> str:
    experiment, trial = report.experiment, report.best
    metric = metric_of(experiment)
    if trial is None or trial.best is None:
        if experiment.state is ExperimentState.ACTIVE:
            return "No validation was reported yet."
        why = f": {code(experiment.reason.text)}" if experiment.reason.text else ""
        return f"No validation was reported{why}."
    direction = "smaller" if searcher_of(experiment).get("smaller_is_better", True) else "larger"
    value = text.metric(value_of(report))
    whole = f" of {trial.target_batches}" if trial.target_batches else ""
    return (
        f"{code(metric)} **{value}** ({direction} is better), "
        f"{code(short_id(trial))} at batch {trial.best.batches}{whole}"
    )


def _failures(report: Report) -> str:
    failed = [t for t in report.picture.trials if t.failure and t.state is TrialState.FAILED]
    if not failed:
        return ""
    first = failed[0].failure
    more = f", and {counted(len(failed) - 1, 'other trial')} failed too" if failed[1:] else ""
    told = f"{code(short_id(failed[0]))} failed{more}:"
    return f"{told}\n\n{_fenced(_words_of(first))}" if first else told


def _words_of(failure: Failure) -> str:
    return failure.traceback or f"{failure.kind}: {failure.message}"


def _fenced(words: str) -> str:
    lines = [text.cell(line) for line in words.splitlines()[-_MOST_LINES:]]
    cut = "\n".join(str(line)[:_MOST_WIDTH] for line in lines)
    longest = max((len(run) for run in re.findall(r"`+", cut)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{cut}\n{fence}"


def _facts(report: Report) -> str:
    experiment, now = report.experiment, report.picture.now
    end = experiment.state_since if report.picture.over else now
    commit = experiment.code.commit[:10]
    source = f", commit {code(commit)}{' with changes' if experiment.code.dirty else ''}"
    rows = [
        (
            "experiment",
            f"{code(experiment.id)} by {code(experiment.owner)}{source * bool(commit)}",
        ),
        ("took", text.seconds(end - experiment.created)),
        ("ran in", ", ".join(code(pool) for pool in report.pools) or "nothing has run yet"),
        ("cost", cost_words(report)),
        ("checkpoint", _handle(report.checkpoint)),
    ]
    if report.unacted:
        rows.append(("not acted on yet", ", ".join(code(name) for name in report.unacted)))
    return _table(["", ""], rows)


def cost_words(report: Report) -> str:
    """What it cost, or that it is not known, with what that is for."""
    cost = report.cost
    if not cost.seconds:
        return "nothing yet"
    if cost.usd is None:
        told = f"unknown: no price is known for {_node_hours(cost.hours)}"
    else:
        priced = cost.hours - cost.unpriced_hours
        told = f"{_dollars(cost.usd)} for {_node_hours(priced)}"
        if cost.unpriced:
            told += f"; unknown for {_node_hours(cost.unpriced_hours)} without a price"
    if report.uncounted:
        told += f"; without the last {counted(report.uncounted, 'trial')}"
    budget = (report.experiment.config.get("budget") or {}).get("usd")
    if budget is not None and "budget.usd" in report.unacted:
        told += f"; the budget of ${budget:g} is not enforced yet"
    return told


def _node_hours(hours: float) -> str:
    return f"{text.amount(hours)} node-hours" if hours >= 0.01 else "less than 0.01 node-hours"


def _dollars(usd: float) -> str:
    """Two figures of a cent's part: what cost something did not cost nothing."""
    return f"${usd:.2f}" if usd >= 0.005 or not usd else f"${usd:.2g}"


def _handle(checkpoint: Checkpoint | None) -> str:
    if checkpoint is None:
        return "none yet"
    where = f"{checkpoint.url.partition('?')[0].rstrip('/')}/{checkpoint.manifest}"
    return (
        f"{code(checkpoint.id)}, {text.size(checkpoint.size)} at batch {checkpoint.batches}, "
        f"{code(where, 300)}"
    )


def _chart(report: Report) -> str:
    """A line through the validations of the best trial, as Mermaid draws it."""
    metric, trial = metric_of(report.experiment), report.shown
    rows = [row for row in report.curve if math.isfinite(row.metrics.get(metric, math.nan))]
    if trial is None or len(rows) < 2:
        return ""
    points = _some(rows)
    values = [row.metrics[metric] for row in points]
    low, high = min(values), max(values)
    if low == high:
        most = sys.float_info.max
        low = max(low - (abs(low) or 1.0), -most)
        high = min(high + (abs(high) or 1.0), most)
    lines = [
        "```mermaid",
        "xychart-beta",
        f'    title "{_quoted(metric)} of {short_id(trial)}"',
        '    x-axis "batches" [' + ", ".join(f'"{row.batches}"' for row in points) + "]",
        f'    y-axis "{_quoted(metric)}" {_decimal(low)} --> {_decimal(high)}',
        "    line [" + ", ".join(_decimal(value) for value in values) + "]",
        "```",
    ]
    return "\n".join(lines)


def _some(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """At most so many as the chart has room for: the first, the last, and what lies evenly
    between."""
    if len(rows) <= MOST_POINTS:
        return list(rows)
    last = len(rows) - 1
    return [rows[round(index * last / (MOST_POINTS - 1))] for index in range(MOST_POINTS)]


def _quoted(words: str) -> str:
    return re.sub(r"[^\w .:/+-]", "_", text.one_line(words))[:60]


def _decimal(value: float) -> str:
    """Mermaid reads no exponents."""
    written = f"{float(f'{value:.6g}'):.12f}".rstrip("0").rstrip(".")
    return "0" if written in ("-0", "") else written


def _trials(report: Report) -> str:
    trials = ranked(report)
    if not trials:
        return ""
    shown, hidden = trials[:MOST_ROWS], len(trials) - MOST_ROWS
    names = _metrics_of(report, shown)
    hparams = [str(cell) for cell in hparam_cells(trials)]
    heads = ["trial", "state", *(code(name, 40) for name in names), "batch", "trained"]
    with_hparams = any(hparams)
    rows = []
    for trial, cell in zip(shown, hparams, strict=False):
        state = text.state(trial.state).plain
        own = f" {code(own_stop(trial))}" if own_stop(trial) else ""
        row = [code(short_id(trial)), state + own]
        row += [_metric(trial, name) for name in names]
        row += [_batches(trial), text.seconds(trial.done.seconds) if trial.done.seconds else "–"]
        rows.append([*row, code(cell)] if with_hparams else row)
    drawn = _table([*heads, "hyperparameters"] if with_hparams else heads, rows)
    return f"{drawn}\n\n… and {counted(hidden, 'more trial')}" if hidden > 0 else drawn


def _metrics_of(report: Report, trials: Iterable[Trial]) -> list[str]:
    """Names of what validations reported, the searcher's metric first."""
    metric = metric_of(report.experiment)
    found = {name for trial in trials if trial.best for name in trial.best.metrics}
    return text.in_order(found, metric)[:MOST_METRICS]


def _metric(trial: Trial, name: str) -> str:
    return text.metric(trial.best.metrics.get(name)) if trial.best else "–"


def _batches(trial: Trial) -> str:
    whole = f"/{trial.target_batches}" if trial.target_batches else ""
    return f"{trial.done.batches}{whole}"


def _next(report: Report) -> str:
    """The commands that go on from here."""
    experiment, shown = report.experiment, report.shown
    commands = [f"burst show {experiment.id}"]
    if not is_terminal(experiment.state):
        commands.append(f"burst wait {experiment.id}")
    if experiment.state is ExperimentState.PAUSED:
        commands[-1] = f"burst resume {experiment.id}"
    if report.checkpoint is not None:
        commands.append(f"burst checkpoint download {report.checkpoint.id}")
    if experiment.state is ExperimentState.FAILED and shown is not None and shown.checkpoint:
        commands.append(f"burst run exp.yaml --from {shown.id} --everything")
    return "\n".join(["```sh", *commands, "```"])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(each) for each in line)} |" for line in lines)


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
