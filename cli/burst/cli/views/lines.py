"""What happened, one line each, for a terminal that scrolls and for logs of CI."""

from __future__ import annotations

from rich.text import Text

from burst.cli.following import Happening
from burst.cli.views import text
from burst.core.checkpoints.assurance.causes import brief

_ALARMS = ("checkpoint.late", "checkpoint.failed", "checkpoint.unprovable", "checkpoint.damaged")


def happening(one: Happening, experiment: str, metric: str) -> Text:
    """`17:40:05  t0000  validation_loss 0.0931  accuracy 0.975  at batch 840`."""
    line = Text(text.clock_time(one.at), style=text.FAINT)
    line.append(f"  {_subject(one, experiment).ljust(5)}  ", style="default")
    if one.type == "validation":
        shown = text.metrics(_floats(one.data["metrics"]), metric, most=6)
        return line.append(shown, style="default").append(f"  at batch {one.data['batches']}")
    if one.type == "wait":
        return line.append("○ waits  ", style="yellow").append(
            text.one_line(one.text), style="default"
        )
    state = one.name.rpartition(".")[2]
    if one.name.startswith(("trial.", "experiment.")) and text.is_state(state):
        line.append_text(text.state(state))
    elif one.name in _ALARMS:
        return line.append(f"✘ {_alarm(one)}", style="red")
    else:
        return line.append(f"· {text.one_line(one.text) or one.name}")
    return line.append(f"  {text.one_line(one.text)}") if one.text else line


def _alarm(one: Happening) -> str:
    if one.name == "checkpoint.failed":
        return text.one_line(f"a checkpoint was not saved: {brief(one.text)}")
    return text.one_line(one.text)


def _subject(one: Happening, experiment: str) -> str:
    """The trial that it happened to, as it is called within its experiment."""
    trial = one.data.get("data", {}).get("trial") or one.subject
    return str(trial).removeprefix(experiment + ".")


def _floats(values: dict[str, float | int | str | None]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None}
