"""What is accepted in a file and not acted on yet. Work that makes a field count removes its line.

A field is named only where it differs from its default: then something was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from burst.core.config.experiment import ExperimentConfig


def _set(_: Any) -> bool:
    return True


def _in_the_cloud(value: Any) -> bool:
    return any(not source.startswith("env:") for source in value.values())


UNACTED: Mapping[str, Callable[[Any], bool]] = {
    "bind_mounts": _set,
    "budget.deadline": _set,
    "budget.usd": _set,
    "environment.cuda": _set,
    "environment.secrets": _in_the_cloud,
    "integrations.pachyderm": _set,
    "integrations.webhooks": _set,
    "pbs": _set,
    "profiling": _set,
    "resources.devices": _set,
    "resources.shm_size": _set,
    "resources.weight": _set,
    "retention.log_days": _set,
    "slurm": _set,
}


def unacted(config: ExperimentConfig) -> tuple[str, ...]:
    """Dotted names of what this file asks for and nothing acts on yet, in the table's order."""
    found = tuple(path for path, matters in UNACTED.items() if _asked(config, path, matters))
    in_image = config.environment.image is not None
    return tuple(path for path in found if not (in_image and path == "bind_mounts"))


def _asked(config: ExperimentConfig, path: str, matters: Callable[[Any], bool]) -> bool:
    section: Any = config
    *above, last = path.split(".")
    for name in above:
        section = getattr(section, name)
    value = getattr(section, last)
    default = type(section).model_fields[last].get_default(call_default_factory=True)
    return bool(value != default) and matters(value)
