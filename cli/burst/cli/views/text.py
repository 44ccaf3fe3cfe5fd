"""Numbers, times and states in as few characters as a person needs."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from enum import StrEnum

from rich.text import Text

_STATES: Mapping[str, tuple[str, str]] = {
    "waiting": ("○", "yellow"),
    "requested": ("○", "yellow"),
    "launched": ("○", "yellow"),
    "registered": ("○", "yellow"),
    "assigned": ("○", "yellow"),
    "starting": ("◐", "cyan"),
    "active": ("●", "cyan"),
    "running": ("●", "cyan"),
    "ready": ("●", "green"),
    "paused": ("‖", "magenta"),
    "stopping": ("◑", "cyan"),
    "draining": ("◑", "cyan"),
    "terminating": ("◑", "cyan"),
    "completed": ("✔", "green"),
    "released": ("✔", "green"),
    "stopped": ("✔", "green"),
    "cancelled": ("–", "bright_black"),
    "gone": ("–", "bright_black"),
    "lost": ("✘", "red"),
    "failed": ("✘", "red bold"),
}

FAINT = "bright_black"
_BREAK = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Those that turn the direction of what follows, too."""


def state(value: StrEnum | str) -> Text:
    """A state with its glyph and colour: `● running`."""
    glyph, style = _STATES.get(str(value), ("?", ""))
    return Text(f"{glyph} {value}", style=style)


def is_state(value: str) -> bool:
    return value in _STATES


def state_style(value: StrEnum | str) -> str:
    return _STATES.get(str(value), ("?", ""))[1]


def seconds(value: float) -> str:
    """A span of time in its two largest units: `4.2s`, `1m 20s`, `2h 05m`, `3d 4h`."""
    if math.isnan(value) or math.isinf(value):
        return "–"
    if value < 0:
        return "0s"
    if value < 9.95:
        return f"{value:.1f}s"
    whole = round(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def ago(at: float | None, now: float) -> str:
    """How long since `at`, in its largest unit: `5s`, `12m`, `3h`, `2d`; a dash for never."""
    if at is None:
        return "–"
    past = max(0, int(now - at))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if past >= length:
            return f"{past // length}{unit}"
    return f"{past}s"


def clock_time(at: float) -> str:
    """Local time of day: `17:40:02`."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def moment(at: float) -> str:
    """Local date and time: `2026-11-29 17:40:02`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


_PROGRESS = ("epoch", "total_flos", "num_input_tokens_seen")
_TIMES = ("_runtime", "_per_second")


def metric(value: float | None) -> str:
    """A metric in five characters or so: `0.0931`, `12.35`, `1.2e-07`, `NaN`."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.4g}"


def metrics(values: Mapping[str, float], first: str = "", most: int = 3) -> str:
    """Some metrics on a line, `first` first: `loss 0.0931  accuracy 0.975`."""
    names = in_order(values, first)
    shown = [f"{name} {metric(values[name])}" for name in names[:most]]
    return "  ".join(shown) + ("  …" if len(names) > most else "")


def in_order(names: Iterable[str], first: str = "") -> list[str]:
    """Names of metrics as people look for them: the one that counts, losses, the others, and last
    what tells of the clock and of progress, which is shown elsewhere."""
    return sorted(
        names, key=lambda name: (name != first, _is_aside(name), "loss" not in name, name)
    )


def _is_aside(name: str) -> bool:
    return name in _PROGRESS or name.endswith(_TIMES)


def size(value: float) -> str:
    """Bytes: `980 B`, `12 kB`, `3.4 MB`, `1.2 GB`."""
    if value < 1000:
        return f"{int(value)} B"
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5 or unit == "TB":
            return f"{value:.2g} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    raise AssertionError("unreachable")


def amount(value: float) -> str:
    """A count that may be a fraction: `5`, `5.25`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def rate(per_second: float | None) -> str:
    """Batches per second, or seconds a batch where that reads better."""
    if per_second is None or per_second <= 0:
        return "–"
    if per_second < 0.95:
        return f"{1 / per_second:.2g} s/ba"
    return f"{per_second:.3g} ba/s" if per_second < 1000 else f"{per_second / 1000:.2g}k ba/s"


def bar(fraction: float | None, width: int, style: str = "cyan") -> Text:
    """A progress bar of `width` columns; an unknown fraction is an empty one."""
    filled = 0 if fraction is None else round(max(0.0, min(1.0, fraction)) * width)
    text = Text("━" * filled, style=style)
    return text.append("─" * (width - filled), style=FAINT)


def value(item: object) -> str:
    """A hyperparameter: floats short, everything else as it is, on one line."""
    return f"{item:.6g}" if isinstance(item, float) else _flat(str(item))


def flatten(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested hyperparameters under dotted names, in sorted order."""
    flat: dict[str, object] = {}
    for key in sorted(tree):
        item = tree[key]
        if isinstance(item, Mapping) and item:
            flat |= flatten(item, f"{prefix}{key}.")
        else:
            flat[prefix + key] = item
    return flat


def one_line(words: str, most: int | None = None) -> str:
    """A text from outside, such as an exception's, without line breaks and control characters;
    cut where it has more than `most` characters."""
    flat = _CONTROL.sub("", " ".join(words.split()))
    return flat if most is None or len(flat) <= most else f"{flat[: most - 1]}…"


def cell(content: Text | str) -> Text | str:
    """What may stand in a row of a table: on one line, its spaces as they are."""
    if isinstance(content, str):
        return _flat(content)
    if not _BREAK.search(content.plain):
        return content
    return Text(" ").join(content.split("\n"))


def _flat(words: str) -> str:
    return _CONTROL.sub("", _BREAK.sub(" ", words))
