"""Prints a normalised experiment as a file that reads back as the same experiment."""

from __future__ import annotations

import re
from typing import Any

import yaml

from burst.core.config.document import add_scalars
from burst.core.config.experiment import ExperimentConfig, Section
from burst.core.config.hparams import is_leaf
from burst.core.length import Length
from burst.core.units import format_duration, format_size, parse_duration, parse_size

_WIDTH = 96
_LONGEST_IN_LINE = 8
_DURATIONS = ("burst_after", "deadline", "drain_grace")
_BREAKS = re.compile("[\x85\u2028\u2029\ufeff\r]")
_FIRST = ("name", "type")


class _InLine(dict[str, Any]):
    """A mapping that is printed in braces."""


class _Dumper(yaml.SafeDumper):
    """Quotes what any reader, of YAML 1.1 or 1.2, would take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_list(dumper: _Dumper, items: list[Any]) -> yaml.Node:
    short = len(items) <= _LONGEST_IN_LINE and not any(isinstance(i, dict | list) for i in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    """In double quotes where PyYAML would fold a line break that is not a newline."""
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_in_line(dumper: _Dumper, mapping: _InLine) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", mapping, flow_style=True)


add_scalars(_Dumper)
_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(_InLine, _represent_in_line)


def dump_experiment(config: ExperimentConfig) -> str:
    """The experiment in YAML, in the order of the model's fields.

    Defaults are written out, except for those that say nothing (null, an empty list or mapping).
    Loading the text gives an equal configuration.
    """
    text: str = yaml.dump(
        _section(config),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_WIDTH,
        default_flow_style=False,
    )
    return text


def _section(section: Section) -> dict[str, Any]:
    fields = type(section).model_fields
    names = [*(name for name in _FIRST if name in fields), *fields]
    written: dict[str, Any] = {}
    for name in dict.fromkeys(names):
        field, value = fields[name], getattr(section, name)
        shown = _value(value, name)
        empty = shown in (None, [], {}, "") and (
            field.is_required() is False and value == field.get_default(call_default_factory=True)
        )
        if not empty:
            written[field.alias or name] = shown
    return written


def _value(value: Any, name: str) -> Any:
    if isinstance(value, Section):
        return _section(value)
    if isinstance(value, Length):
        text = str(value)
        return text if Length.model_validate(text) == value else value.model_dump()
    if name in _DURATIONS and isinstance(value, float):
        text = format_duration(value)
        return text if parse_duration(text) == value else value
    if name == "shm_size" and isinstance(value, int):
        text = format_size(value)
        return text if parse_size(text) == value else value
    if isinstance(value, tuple):
        return [_value(item, "") for item in value]
    return _json(value)


def _json(value: Any) -> Any:
    """Free-form values; a hyperparameter goes on one line."""
    if isinstance(value, dict):
        kind = _InLine if is_leaf(value) else dict
        return kind({key: _json(item) for key, item in value.items()})
    return [_json(item) for item in value] if isinstance(value, list | tuple) else value
