"""What can be done next, as a small tree of commands."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from burst.cli.reading import Picture
from burst.cli.views import text
from burst.core.model import Experiment
from burst.core.states import ExperimentState, is_terminal


def commands(rows: Sequence[tuple[str, str]]) -> list[Text]:
    """One line a command, with what it does."""
    width = max(len(command) for command, _ in rows)
    lines = []
    for index, (command, what) in enumerate(rows):
        mark = "└─ " if index == len(rows) - 1 else "├─ "
        line = Text(mark, style=text.FAINT).append(command.ljust(width), style="default")
        lines.append(line.append(f"  {what}", style=text.FAINT))
    return lines


def background(experiment: str, what: str) -> RenderableType:
    """That an experiment goes on without its terminal, and how to follow and steer it."""
    rows = (
        (f"burst wait {experiment}", "watch it again, to its end"),
        (f"burst logs {experiment} -f", "what its ranks write"),
        (f"burst pause {experiment}", "checkpoint and give back the slots"),
        (f"burst cancel {experiment}", "end it for good"),
    )
    return _told(experiment, what, rows)


def left(experiment: str, asked: str) -> RenderableType:
    """What becomes of an experiment whose terminal is gone: `leave`, `pause` or `cancel`."""
    if asked == "leave":
        return background(experiment, "goes on in the background")
    if asked == "cancel":
        rows = [(f"burst show {experiment}", "what came of it")]
        return _told(experiment, "is cancelled: it ends with a last checkpoint", rows)
    rows = [
        (f"burst resume {experiment}", "go on from there"),
        (f"burst show {experiment}", "how far it has come"),
    ]
    return _told(experiment, "is paused: it checkpoints and gives back its slots", rows)


def held(picture: Picture) -> str:
    """That what was waited for is paused, as a whole or trial by trial, and how it goes on."""
    experiment = picture.experiment
    what = f"{experiment.id} is paused"
    if experiment.state is not ExperimentState.PAUSED:
        what = f"every trial of {experiment.id} that is not over is paused"
    return f"{what}; go on with: burst resume {experiment.id}"


def trial_held(picture: Picture, trial: str) -> str:
    """The same of one trial."""
    if picture.experiment.state is not ExperimentState.PAUSED:
        return f"{trial} is paused; go on with: burst resume {trial}"
    id = picture.experiment.id
    return f"{trial} is held, for {id} is paused; go on with: burst resume {id}"


def attached_to(experiment: Experiment, key: str) -> str:
    """That nothing new was started, and why; as it was found."""
    if not key:
        return f"attached to {experiment.id}, which is live already; --new starts another"
    if is_terminal(experiment.state):
        return f"{experiment.id} is {experiment.state} under this key; --new starts another"
    does = "resumed" if experiment.state is ExperimentState.PAUSED else "attached to"
    return f"{does} {experiment.id}, which was submitted under this key; --new starts another"


def under_key(found: Experiment | None, *, new: bool) -> str:
    """What submitting under a key would do, and to what."""
    from burst.runner.commands.meeting import counts

    if found is None:
        return "Nothing was submitted under this key yet."
    if new or not counts(found):
        does = "another would be submitted"
    elif found.state is ExperimentState.PAUSED:
        does = "it would be resumed"
    else:
        does = "it would be reported" if is_terminal(found.state) else "it would be followed"
    return f"{found.id} is {found.state} under this key; {does}."


def _told(experiment: str, what: str, rows: Sequence[tuple[str, str]]) -> RenderableType:
    line = Text("● ", style="cyan").append(experiment, style="bold default")
    return Group(line.append(f" {what}.", style="default"), *commands(rows))
