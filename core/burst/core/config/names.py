"""What someone may have meant by a name that a section does not have."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin

from burst.core.config.check import fields_of
from burst.core.config.dialect import old_names
from burst.core.config.document import Node
from burst.core.config.experiment import ExperimentConfig, SearcherBase, Section
from burst.core.config.hparams import TYPES
from burst.core.config.problems import listed, nearest


def explain_stranger(node: Node, name: str, model: type[Section]) -> tuple[str, str]:
    """The nearest valid name in the section at `node`, and a hint where the name is known."""
    own = list(fields_of(model))
    if issubclass(model, SearcherBase) and (others := _searchers_with(name)):
        return "", f"it is a field of the searcher {listed(others)}"
    if model not in TYPES.values() and (places := _elsewhere().get(name)):
        return "", f"it is written {listed(sorted(places))}"
    old = old_names(node.path)
    near = nearest(name, [*own, *old])
    if near in old and near not in own:
        return old[near], f"Determined's `{near}` is written so"
    return near, "" if near or len(own) > 10 else f"its fields are {listed(own)}"


def explain_cluster_stranger(node: Node, name: str, model: type[Section]) -> tuple[str, str]:
    """The same for a cluster file, which has no history."""
    own = list(fields_of(model))
    near = nearest(name, own)
    return near, "" if near else f"its fields are {listed(own)}"


def sections_of(annotation: Any) -> Iterator[type[Section]]:
    """The sections that an annotation can hold directly, through unions but not containers."""
    if isinstance(annotation, type):
        if issubclass(annotation, Section):
            yield annotation
    elif get_origin(annotation) is Annotated:
        yield from sections_of(get_args(annotation)[0])
    elif get_origin(annotation) not in (dict, tuple, list):
        for member in get_args(annotation):
            yield from sections_of(member)


def _searchers_with(name: str) -> list[str]:
    found = sections_of(ExperimentConfig.model_fields["searcher"].annotation)
    return [
        str(searcher.model_fields["name"].default)
        for searcher in found
        if name in searcher.model_fields
    ]


@lru_cache(maxsize=1)
def _elsewhere() -> dict[str, set[str]]:
    """Every field's name to the dotted paths that it has."""
    places: dict[str, set[str]] = {}

    def visit(model: type[Section], prefix: str) -> None:
        for name, field in fields_of(model).items():
            places.setdefault(name, set()).add(prefix + name)
            for section in sections_of(field.annotation):
                visit(section, f"{prefix}{name}.")

    visit(ExperimentConfig, "")
    common = {"name", "type", "every", "path", "version"}  # too common to mean another section
    return {name: found for name, found in places.items() if name not in common}
