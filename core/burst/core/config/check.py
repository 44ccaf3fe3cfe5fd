"""Compares a tree with a model, field by field, so that every mistake has its own place.

Pydantic holds the rules of a single value; what it would say of a whole file (unions tried one by
one, tags inside of paths) is no help to the person who wrote it. So the tree is walked beside the
model's fields here, and pydantic is asked about one value at a time.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from burst.core.config.document import FLOAT, Node, Report
from burst.core.config.experiment import Section
from burst.core.config.problems import listed, nearest
from burst.core.length import Length

Strangers = Callable[[Node, str, type[Section]], tuple[str, str]]
"""Given a mapping, a key that its model lacks and the model: the nearest name, and a hint."""


def fields_of(model: type[Section]) -> dict[str, FieldInfo]:
    """A model's fields by the names that files use."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def check_section(node: Node, model: type[Section], report: Report, strangers: Strangers) -> None:
    """Record every mistake of `node` against `model`; empty fields are removed from the tree."""
    _Checker(report, strangers).section(node, model)


class _Checker:
    def __init__(self, report: Report, strangers: Strangers) -> None:
        self._report = report
        self._strangers = strangers

    def section(self, node: Node, model: type[Section]) -> None:
        fields = fields_of(model)
        meant: list[str] = []
        if not isinstance(node.value, dict):
            names = ", ".join(list(fields)[:4]) + (", …" if len(fields) > 4 else "")
            self._report.wrong(node, f"{named(node)} is a mapping of {names}")
            return
        for name in list(node.value):
            child = node.value[name]
            if name not in fields:
                meant.append(self._stranger(node, child, name, model))
            elif child.value is None and not _takes_none(fields[name]):
                del node.value[name]
            else:
                field = fields[name]
                self.value(child, field.annotation, field.metadata, field.discriminator)
        for name, field in fields.items():
            if field.is_required() and name not in node.value and name not in meant:
                self._missing(node, name, field)

    def _missing(self, node: Node, name: str, field: FieldInfo) -> None:
        options = _options(field.annotation)
        path = f"{node.path}.{name}" if node.path else name
        hint = f"it is one of {listed(options)}" if options else f"add `{name}: …`"
        self._report.wrong(node, f"`{path}` is missing", hint=hint)

    def _stranger(self, node: Node, child: Node, name: str, model: type[Section]) -> str:
        near, hint = self._strangers(node, name, model)
        of = f"`{node.path}`" if node.path else "this file"
        self._report.wrong(
            child, f"`{child.path}` is not a field of {of}", nearest=near, hint=hint, at_key=True
        )
        return near

    def value(self, node: Node, annotation: Any, metadata: list[Any], tag: Any = None) -> None:
        annotation, metadata, tag = _unwrap(annotation, metadata, tag)
        members = _members(annotation)
        if node.value is None and type(None) in members:
            return
        members = [member for member in members if member is not type(None)]
        sections = [m for m in members if isinstance(m, type) and issubclass(m, Section)]
        if sections and tag:
            self._tagged(node, sections, str(tag))
        elif isinstance(node.value, list) and (many := _first(members, tuple)):
            for item in node.value:
                self.value(item, get_args(many)[0], [])
            if not any(part.bad for part in node.walk()):
                self._constraints(node, many, metadata)
        elif sections:
            self.section(node, sections[0])
        elif members and get_origin(members[0]) is dict:
            self._mapping(node, get_args(members[0])[1])
        elif members == [Any]:
            check_finite(node, self._report)
        else:
            self._leaf(node, annotation, members, metadata)

    def _tagged(self, node: Node, sections: list[type[Section]], tag: str) -> None:
        by_tag = {option: s for s in sections for option in _options(fields_of(s)[tag].annotation)}
        if not isinstance(node.value, dict):
            hint = f"write `{{{tag}: {node.value}}}`" if node.value in list(by_tag) else ""
            self._report.wrong(node, f"{named(node)} is a mapping with a `{tag}`", hint=hint)
            return
        chosen = node.value.get(tag)
        if chosen is None or chosen.value is None:
            hint = f"it is one of {listed(list(by_tag))}"
            self._report.wrong(node, f"`{_below(node, tag)}` is missing", hint=hint)
        elif not isinstance(chosen.value, str) or chosen.value not in by_tag:
            self._unlisted(chosen, list(by_tag))
        else:
            self.section(node, by_tag[chosen.value])

    def _mapping(self, node: Node, annotation: Any) -> None:
        if not isinstance(node.value, dict):
            self._report.wrong(node, f"{named(node)} is a mapping, not {kind_of(node.value)}")
            return
        for child in node.value.values():
            if child.value is None and annotation is not Any:
                self._report.wrong(child, f"{named(child)} is empty", at_key=True)
            else:
                self.value(child, annotation, [])

    def _unlisted(self, node: Node, options: list[str]) -> None:
        near = nearest(str(node.value), options, cutoff=0.5)
        shown = node.shown or kind_of(node.value)
        hint = "" if near and len(options) > 8 else f"it is one of {listed(options)}"
        self._report.wrong(
            node, f"{named(node)} cannot be {_quoted(shown)}", nearest=near, hint=hint
        )

    def _leaf(self, node: Node, annotation: Any, members: list[Any], metadata: list[Any]) -> None:
        options = [option for member in members for option in _options(member)]
        if options and Length not in members:
            if node.value not in options or not isinstance(node.value, str):
                self._unlisted(node, options)
            return
        wanted = _wanted_kind(node.value, members, metadata)
        if wanted:
            quote = isinstance(node.value, bool | int | float) and str in members
            hint = f'put it in quotes: "{node.shown}"' if quote else ""
            if {int, float} & set(members) and _is_number(node.value):
                hint = f"write it without quotes: {node.value}"
            if _first(members, tuple) and not quote and isinstance(node.value, str):
                hint = f"write `[{node.shown}]`"
            near = _boolean(node.value) if members == [bool] else ""
            said = f"{named(node)} is {wanted}, not {_quoted(node.shown) or kind_of(node.value)}"
            self._report.wrong(node, said, hint=hint, nearest=near)
            return
        self._constraints(node, annotation, metadata)

    def _constraints(self, node: Node, annotation: Any, metadata: list[Any]) -> None:
        value = node.plain()
        adapter: TypeAdapter[Any] = TypeAdapter(
            Annotated.__class_getitem__((annotation, *metadata)) if metadata else annotation  # type: ignore[attr-defined]
        )
        try:
            adapter.validate_python(value)
        except ValidationError as error:
            first = min(error.errors(), key=lambda e: e["type"] != "value_error")
            message, near = _explain(first, metadata)
            shown = _quoted(node.shown)
            said = f"{named(node)} {message}" + (f", not {shown}" if near and shown else "")
            self._report.wrong(node, said, nearest=near)


def check_finite(node: Node, report: Report) -> None:
    """Not-a-number and infinities have no place in a file."""
    for part in node.walk():
        if isinstance(part.value, float) and not math.isfinite(part.value):
            report.wrong(part, f"{named(part)} is not a finite number")


def named(node: Node) -> str:
    return f"`{node.path}`" if node.path else "this file"


def kind_of(value: Any) -> str:
    """A value's kind as a person calls it."""
    kinds: Mapping[type, str] = {
        bool: "true or false", int: "a number", float: "a number", str: "text",
        list: "a list", dict: "a mapping", type(None): "nothing",
    }  # fmt: skip
    return kinds[type(value)]


def _below(node: Node, name: str) -> str:
    return f"{node.path}.{name}" if node.path else name


def _quoted(text: str) -> str:
    return f"`{text}`" if text else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and bool(FLOAT.match(value))


def _boolean(value: Any) -> str:
    meant = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
    return meant.get(str(value).lower(), nearest(str(value), ["true", "false"]))


def _unwrap(annotation: Any, metadata: list[Any], tag: Any) -> tuple[Any, list[Any], Any]:
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        for item in more:
            if isinstance(item, FieldInfo):
                tag = tag or item.discriminator
                metadata = [*metadata, *item.metadata]
            else:
                metadata = [*metadata, item]
    return annotation, metadata, tag


def _members(annotation: Any) -> list[Any]:
    """A union's members, with Annotated taken off and its marks lost; or the type alone."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for arg in get_args(annotation) for member in _members(arg)]
    if get_origin(annotation) is Annotated:
        marks = get_args(annotation)[1:]
        return [annotation] if marks else _members(get_args(annotation)[0])
    return [annotation]


def _first(members: list[Any], origin: type) -> Any:
    return next((member for member in members if get_origin(member) is origin), None)


def _options(annotation: Any) -> list[str]:
    return (
        [str(option) for option in get_args(annotation)]
        if get_origin(annotation) is Literal
        else []
    )


def _takes_none(field: FieldInfo) -> bool:
    return type(None) in _members(field.annotation) or field.annotation is Any


def _wanted_kind(value: Any, members: list[Any], metadata: list[Any]) -> str:
    """The kind that a value should have been of; empty where it may be right."""
    kinds = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    plain = [member for member in members if member in kinds or get_origin(member) is tuple]
    converted = any(hasattr(mark, "func") for mark in metadata)
    if len(plain) != len(members) or converted:
        return ""
    if any(_is_a(value, member) for member in plain):
        return ""
    return " or ".join(kinds.get(member, "a list") for member in plain)


def _is_a(value: Any, member: Any) -> bool:
    if member is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if member is int:
        whole = isinstance(value, float) and value.is_integer()
        return whole or (isinstance(value, int) and not isinstance(value, bool))
    if get_origin(member) is tuple:
        return isinstance(value, list)
    return isinstance(value, member)


_BOUNDS = {
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than_equal": ("must be at most {}", "le"),
    "greater_than": ("must be more than {}", "gt"),
    "less_than": ("must be less than {}", "lt"),
}


def _explain(error: Any, metadata: list[Any]) -> tuple[str, str]:
    """Words for one of pydantic's errors, and the nearest valid value where that is a number."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        low = next((m.ge for m in metadata if hasattr(m, "ge")), None)
        high = next((m.le for m in metadata if hasattr(m, "le")), None)
        words, bound = _BOUNDS[kind]
        if low is not None and high is not None:
            words = f"must be between {low} and {high}"
        near = f"{context[bound]:g}" if bound in ("ge", "le") else ""
        return words.format(f"{context[bound]:g}"), near
    if kind == "value_error":
        return f"cannot be read: {context['error']}", ""
    if kind == "too_short":
        return "needs at least one value", ""
    return f"is wrong: {error['msg'][0].lower()}{error['msg'][1:]}", ""
