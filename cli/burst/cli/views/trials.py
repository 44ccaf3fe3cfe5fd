"""Trials: as rows of a table, as a live table, and what they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from burst.cli.encoding import progress_of
from burst.cli.reading import Picture, best_trial, metric_of, searcher_of
from burst.cli.views import text
from burst.cli.views.table import Column, table
from burst.core.checkpoints.assurance.age import alarm, checkpoint_age, is_late
from burst.core.checkpoints.assurance.causes import brief
from burst.core.model import Allocation, Lengths, MetricPoint, Node, Trial
from burst.core.states import TrialState, is_terminal
from burst.core.units import counted

BAR = 14
_HPARAMS = 48
"""Columns of the cell with hyperparameters."""


def short_id(trial: Trial) -> str:
    """A trial's number as it is called within its experiment: `t0003`."""
    return trial.id.rpartition(".")[2]


def trials_table(picture: Picture, width: int, most: int | None = None) -> Table:
    """One row a trial; above `most` rows those that matter most are kept."""
    metric = metric_of(picture.experiment)
    best = best_trial(picture.experiment, picture.trials)
    trials = picture.trials if most is None else worth_showing(picture, most)
    columns = [
        Column("TRIAL", [short_id(t) for t in trials]),
        Column("STATE", [_state(t) for t in trials]),
        Column("ON", [_where(t, picture) for t in trials], rank=5),
        Column("PROGRESS", [_progress(t) for t in trials], rank=3),
        Column("BATCHES", [_batches(t) for t in trials], justify="right"),
        Column("EPOCH", [_epoch(t.done) for t in trials], rank=6, justify="right"),
        Column("TRAINING", [_latest(t, "training", "loss") for t in trials], rank=8),
        Column("VALIDATION", [_validation(t, metric) for t in trials], rank=2),
        Column("BEST", [_best(t, metric, best) for t in trials], rank=1),
        Column("RATE", [text.rate(rate_of(t)) for t in trials], rank=9, justify="right"),
        Column("TRAINED", [_trained(t) for t in trials], rank=10, justify="right"),
        Column("LEFT", [_left(t) for t in trials], rank=4, justify="right"),
        Column("SAVED", [saved(t, picture.now) for t in trials], rank=11),
        Column("HYPERPARAMETERS", hparam_cells(trials), rank=7),
    ]
    return table(columns, width)


def worth_showing(picture: Picture, most: int) -> Sequence[Trial]:
    """At most `most` trials: what runs first, then what waits, the best and the newest."""
    best = best_trial(picture.experiment, picture.trials)
    order = {
        TrialState.RUNNING: 0,
        TrialState.STOPPING: 0,
        TrialState.FAILED: 2,
        TrialState.WAITING: 3,
        TrialState.PAUSED: 3,
    }

    def importance(trial: Trial) -> tuple[int, int]:
        if best is not None and trial.id == best.id:
            return 1, 0
        return order.get(trial.state, 4), -trial.number

    chosen = sorted(picture.trials, key=importance)[:most]
    return sorted(chosen, key=lambda trial: trial.number)


def live(picture: Picture, width: int, height: int = 24) -> RenderableType:
    """Everything `burst run` shows of an experiment while it goes on, renewed several times a
    second; `height` is the terminal's."""
    most = max(3, height - 9)
    hidden = len(picture.trials) - most
    parts: list[RenderableType] = [headline(picture), ""]
    if picture.trials:
        parts.append(trials_table(picture, width, most))
    if hidden > 0:
        parts.append(Text(f"… and {counted(hidden, 'more trial')}", style=text.FAINT))
    said = [*alarms(picture), *waits(picture)]
    parts += ["", *said] if said else []
    return Group(*parts)


def headline(picture: Picture) -> Text:
    """`● digits  exp-…  grid, 2 of 4 trials over  validation_loss, smaller is better  1m 20s`."""
    experiment = picture.experiment
    searcher = searcher_of(experiment)
    over = sum(is_terminal(trial.state) for trial in picture.trials)
    direction = "smaller" if searcher.get("smaller_is_better", True) else "larger"
    end = experiment.state_since if picture.over else picture.now
    line = Text()
    line.append_text(text.state(experiment.state)).append("  ")
    line.append(text.one_line(experiment.name), style="bold").append(f"  {experiment.id}  ")
    pieces = [
        f"{searcher.get('name', '')} search, {over} of {counted(len(picture.trials), 'trial')}"
        " over"
        if len(picture.trials) > 1
        else "",
        f"{metric_of(experiment)}, {direction} is better",
        text.seconds(end - experiment.created),
    ]
    return line.append("  ".join(piece for piece in pieces if piece), style=text.FAINT)


def waits(picture: Picture, most: int = 3) -> list[Text]:
    """What waits and why, one line a reason: `○ 3 trials wait: …; looked at again in 5s`."""
    reasons: Counter[str] = Counter()
    soonest: dict[str, float] = {}
    names: dict[str, str] = {}
    for trial in picture.trials:
        if trial.state is not TrialState.WAITING:
            continue
        words = text.one_line(str(trial.wait)) if trial.wait else "no plan has looked at it yet"
        reasons[words] += 1
        names.setdefault(words, short_id(trial))
        if trial.wait_until is not None:
            soonest[words] = min(trial.wait_until, soonest.get(words, trial.wait_until))
    lines = []
    for words, number in reasons.most_common(most):
        who = f"{names[words]} waits" if number == 1 else f"{number} trials wait"
        line = Text(f"○ {who}: ", style="yellow").append(words, style="default")
        lines.append(line.append(_again(soonest.get(words), picture.now), style=text.FAINT))
    return lines


def alarms(picture: Picture, most: int = 3) -> list[Text]:
    """What is wrong with the checkpoints of trials that run, one line a trial."""
    lines = []
    for trial in picture.trials:
        words = text.one_line(alarm(trial, picture.now))
        problem = brief(trial.checkpoint_problem) if trial.live else ""
        if words:
            lines.append(Text(f"✘ {short_id(trial)}: {words}", style="red bold"))
        elif problem:
            line = Text(f"! {short_id(trial)}: ", style="yellow")
            lines.append(
                line.append(f"the newest attempt to save it failed: {problem}", "default")
            )
    hidden = len(lines) - most
    return lines[:most] + ([Text(f"… and {hidden} more", style="red")] if hidden > 0 else [])


def saved(trial: Trial, now: float) -> Text:
    """How old the newest checkpoint of a trial that is not over is, and how often one is due:
    `2m ago (every ~5m)`; red where the next one is late."""
    age = checkpoint_age(trial, now)
    if age is None or not trial.live:
        return Text("–")
    since = text.ago(now - age, now)
    words = f"{since} ago" if trial.checkpoint else f"{since} of training"
    if trial.checkpoint_interval is not None and trial.state is TrialState.RUNNING:
        words += f" (every ~{text.ago(0.0, max(1.0, trial.checkpoint_interval))})"
    return Text(words, style="red bold" if is_late(trial, now) else "default")


def _again(at: float | None, now: float) -> str:
    if at is None:
        return ""
    return f"  looked at again in {text.seconds(at - now)}" if at > now else ""


def hparam_cells(trials: Sequence[Trial]) -> list[Text | str]:
    """For each trial the hyperparameters that differ between them; nothing for a single one."""
    flat = [text.flatten(trial.hparams) for trial in trials]
    names = sorted({name for one in flat for name in one})
    varying = [n for n in names if len({repr(one.get(n)) for one in flat}) > 1]
    cells: list[Text | str] = []
    for one in flat:
        pieces = [f"{name}={text.value(one[name])}" for name in varying if name in one]
        cell = Text("  ".join(pieces), style=text.FAINT)
        cell.truncate(_HPARAMS, overflow="ellipsis")
        cells.append(cell)
    return cells


def rate_of(trial: Trial) -> float | None:
    """Batches per second of training over the whole trial."""
    return trial.done.batches / trial.done.seconds if trial.done.seconds > 0 else None


def seconds_left(trial: Trial) -> float | None:
    """How long the rest of a running trial takes at its own rate so far."""
    rate = rate_of(trial)
    if trial.state is not TrialState.RUNNING or not trial.target_batches or not rate:
        return None
    return max(0.0, (trial.target_batches - trial.done.batches) / rate)


def own_stop(trial: Trial) -> str:
    """The word of a trial that ended itself early for why it did: `early_stopping`. Empty for any
    other, also where the searcher ended it."""
    of_others = ("", str(TrialState.STOPPED), "searcher")
    code = trial.reason.code
    return "" if trial.state is not TrialState.STOPPED or code in of_others else code


def _state(trial: Trial) -> Text:
    shown = text.state(trial.state)
    if own_stop(trial):
        shown.append(f"  {own_stop(trial)}", style=text.FAINT)
    if trial.wanted is not None and not is_terminal(trial.state):
        shown.append(f" → {trial.wanted}", style=text.FAINT)
    if trial.restarts:
        shown.append(f"  crashed {trial.restarts}×", style="yellow")
    return shown


def _where(trial: Trial, picture: Picture) -> str:
    allocation = picture.allocations.get(trial.id)
    if allocation is None:
        return ""
    return where(allocation, picture.nodes)


def where(allocation: Allocation, nodes: Mapping[str, Node]) -> str:
    """The pool, and the machines where it is not this one: `spot/ip-10-0-3-7 +1`."""
    hosts = [nodes[s.node].host for s in allocation.shares if s.node in nodes]
    if allocation.pool == "local" or not any(hosts):
        return allocation.pool
    more = f" +{len(hosts) - 1}" if len(hosts) > 1 else ""
    return f"{allocation.pool}/{hosts[0]}{more}"


def _progress(trial: Trial) -> Text:
    return text.bar(progress_of(trial), BAR, text.state_style(trial.state))


def _batches(trial: Trial) -> str:
    if not trial.target_batches:
        return str(trial.done.batches) if trial.done.batches else "–"
    return f"{trial.done.batches}/{trial.target_batches}"


def _epoch(done: Lengths) -> str:
    return f"{done.epochs:.1f}" if done.batches else "–"


def _latest(trial: Trial, group: str, first: str) -> str:
    point = trial.latest.get(group)
    return text.metrics(point.metrics, first, most=1) if point else "–"


def _validation(trial: Trial, metric: str) -> str:
    return _of(trial.latest.get("validation"), metric)


def _best(trial: Trial, metric: str, best: Trial | None) -> Text:
    mine = best is not None and best.id == trial.id
    shown = Text(_of(trial.best, metric))
    return shown.append(" ★", style="yellow") if mine and trial.best else shown


def _of(point: MetricPoint | None, metric: str) -> str:
    return text.metric(point.metrics.get(metric)) if point else "–"


def _trained(trial: Trial) -> str:
    return text.seconds(trial.done.seconds) if trial.done.seconds else "–"


def _left(trial: Trial) -> str:
    left = seconds_left(trial)
    return text.seconds(left) if left is not None else ""
