"""What something waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from burst.cli.shapes import WhyJson
from burst.cli.views import text
from burst.core.model import Experiment, Trial
from burst.core.states import ExperimentState, TrialState, is_terminal


class Asked(NamedTuple):
    """What it was asked of."""

    experiment: Experiment | None
    """Where a whole experiment was asked for."""
    trials: Sequence[Trial]
    answers: Sequence[WhyJson]
    """In the order of `trials`."""


def why_page(asked: Sequence[Asked], now: float) -> RenderableType:
    """One paragraph a trial that is not over; the same words for many trials of one experiment are
    said once."""
    parts = [part for each in asked for part in _parts(*each, now)]
    return Group(*parts or [Text("Nothing waits: every trial runs or is over.")])


def _parts(
    experiment: Experiment | None,
    trials: Sequence[Trial],
    answers: Sequence[WhyJson],
    now: float,
) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if experiment is not None and (not trials or experiment.state is not ExperimentState.ACTIVE):
        parts.append(_subject(experiment))
    said: dict[str, list[Trial]] = {}
    first: dict[str, WhyJson] = {}
    for trial, answer in zip(trials, answers, strict=True):
        if experiment is not None and not _waits(trial) and not answer["alarm"]:
            continue
        words = text.one_line(answer["alarm"] or _words(trial))
        said.setdefault(words, []).append(trial)
        first.setdefault(words, answer)
    for words, mine in said.items():
        parts.append(_trial(mine, words, first[words], now))
    return parts


def _subject(experiment: Experiment) -> Text:
    line = Text(experiment.id, style="bold").append("  ")
    line.append_text(text.state(experiment.state))
    if experiment.reason.text:
        line.append(f"  {text.one_line(experiment.reason.text)}", style="default")
    if experiment.state is ExperimentState.PAUSED:
        line.append(f"  go on with: burst resume {experiment.id}", style="default")
    if experiment.state is ExperimentState.ACTIVE:
        line.append("  no runner has looked at it yet; start one: burst runner", style="default")
    return line


def _waits(trial: Trial) -> bool:
    runs = trial.state is TrialState.RUNNING and trial.wanted is None
    return not runs and not is_terminal(trial.state)


def _words(trial: Trial) -> str:
    if trial.state is TrialState.WAITING:
        return str(trial.wait) if trial.wait else (
            "no runner has looked at it yet; start one: burst runner"
        )  # fmt: skip
    if trial.state is TrialState.RUNNING and trial.wanted is None:
        return "it does not wait, it runs"
    return str(trial.reason)


def _trial(trials: list[Trial], words: str, answer: WhyJson, now: float) -> RenderableType:
    trial = trials[0]
    line = Text(trial.id, style="bold")
    if len(trials) > 1:
        line.append(f" and {len(trials) - 1} more", style="default")
    style = "red bold" if answer["alarm"] else "default"
    line.append("  ").append_text(text.state(trial.state)).append(f"  {words}", style=style)
    parts: list[RenderableType] = [line]
    if trial.state is TrialState.PAUSED:
        parts.append(Text(f"  go on with: burst resume {trial.id}"))
    if trial.state is not TrialState.WAITING:
        return Group(*parts)
    for pool in answer["pools"]:
        reason = text.one_line(pool["reason"])
        parts.append(Text(f"  {pool['pool']}: ", style="yellow").append(reason, "default"))
    parts.append(Text(f"  {_next(trial, now)}", style=text.FAINT))
    return Group(*parts)


def _next(trial: Trial, now: float) -> str:
    waits = f"waits for {text.seconds(now - trial.queued)}"
    if trial.wait_until is None or trial.wait_until <= now:
        return f"{waits}; looked at again when anything changes"
    return f"{waits}; looked at again in {text.seconds(trial.wait_until - now)}"
