"""`data.validate` of an experiment file: what rows may not be, and what to do with those that are.

    data:
      validate: {empty: drop, all_padding: fail, ids: quarantine, labels: {min: 0, max: 3}}

A rule is a word for what to do, or a mapping of its settings. What else lies in `data` is the
user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, ValidationError, model_validator
from pydantic.fields import FieldInfo

from burst.core.config.check import check_section, fields_of, named
from burst.core.config.document import Node, Report
from burst.core.config.experiment import Section
from burst.core.config.problems import listed, nearest
from burst.core.config.trees import good_value
from burst.core.errors import ConfigError

_BOUNDED = "`labels: {min: 0, max: 3, on: fail}`"
Action = Literal["drop", "fail", "quarantine"]
ACTIONS: tuple[str, ...] = get_args(Action)


class DataRule(Section):
    """What to do with the rows that a rule is about."""

    on: Action = "fail"
    column: str | None = None
    """The column to look at; None is the rule's usual one."""


class RangeRule(DataRule):
    min: int | None = None
    """Inclusive, as is `max`; None is no bound."""
    max: int | None = None

    @model_validator(mode="after")
    def _ordered(self) -> RangeRule:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"`min` is {self.min} and `max` is {self.max}, so nothing fits")
        return self


class LabelRule(RangeRule):
    ignore: int = -100
    """The label of what the loss leaves out, which fits always."""

    @model_validator(mode="after")
    def _bounded(self) -> LabelRule:
        if self.min is None and self.max is None:
            raise ValueError(f"it has neither `min` nor `max`: write {_BOUNDED}")
        return self


def _spelled_out(value: Any) -> Any:
    return {"on": value} if isinstance(value, str) else value


_Word = BeforeValidator(_spelled_out)


class DataRules(Section):
    """The rules of `data.validate`; those that are None are not asked for."""

    empty: Annotated[DataRule, _Word] | None = None
    """Rows without a token, or without text."""
    all_padding: Annotated[DataRule, _Word] | None = None
    """Rows whose attention mask has no 1."""
    ids: Annotated[RangeRule, _Word] | None = None
    """Token ids that the model has no embedding for."""
    labels: Annotated[LabelRule, _Word] | None = None
    """Labels that the model has no class for."""


def read_data_rules(value: Mapping[str, Any]) -> DataRules:
    """The rules that `data.validate` holds.

    Raises:
        ConfigError: with every mistake, and what was probably meant.
    """
    try:
        return DataRules.model_validate(value)
    except ValidationError as error:
        told = [_told(each["loc"], each["msg"]) for each in error.errors()]
        raise ConfigError(
            "the rules for data (`data.validate`) cannot be read",
            why="; ".join(dict.fromkeys(told)),
            mend=f"a rule is one of {listed(list(DataRules.model_fields))}, with one of "
            f"{listed(ACTIONS)}",
        ) from None


def data_rules(root: Node, report: Report) -> None:
    """Check `data.validate` in the tree of a file."""
    node = root.child("data", "validate")
    if node is None or node.bad or node.value is None:
        return
    if not isinstance(node.value, dict):
        report.wrong(node, f"{named(node)} is a mapping of rules", hint=f"write {_EXAMPLE}")
        return
    models = {name: _model_of(field) for name, field in fields_of(DataRules).items()}
    for name, rule in node.value.items():
        if name not in models:
            near = nearest(name, models)
            hint = "" if near else f"the rules are {listed(list(models))}"
            said = f"`{rule.path}` is no rule for data"
            report.wrong(rule, said, nearest=near, hint=hint, at_key=True)
        elif isinstance(rule.value, str):
            _word(rule, report)
        elif rule.value is not None:
            check_section(rule, models[name], report, _stranger)
            _range(rule, report)
        if name == "labels" and not rule.bad:
            _bounds(rule, report)


_EXAMPLE = "`{empty: drop}`"


def _word(rule: Node, report: Report) -> None:
    if rule.value not in ACTIONS:
        near = nearest(rule.value, ACTIONS)
        said, hint = f"{named(rule)} cannot be `{rule.value}`", f"it is one of {listed(ACTIONS)}"
        report.wrong(rule, said, nearest=near, hint=hint)


def _range(rule: Node, report: Report) -> None:
    low, high = good_value(rule, "min"), good_value(rule, "max")
    if low is not None and high is not None and low > high:
        at = rule.child("max") or rule
        report.wrong(at, f"{named(at)} is less than `min`, so nothing fits")


def _bounds(rule: Node, report: Report) -> None:
    if rule.value is None or any(part.bad for part in rule.walk()):
        return
    if not isinstance(rule.value, dict) or not {"min", "max"} & set(rule.value):
        said = f"{named(rule)} has neither `min` nor `max`"
        report.wrong(rule, said, hint=f"write {_BOUNDED}")


def _model_of(field: FieldInfo) -> type[Section]:
    """The section that a rule's settings are read as."""
    found: type[Section] = get_args(get_args(field.annotation)[0])[0]
    return found


def _stranger(node: Node, name: str, model: type[Section]) -> tuple[str, str]:
    own = list(fields_of(model))
    near = nearest(name, own)
    return near, "" if near else f"its fields are {listed(own)}"


def _told(place: tuple[int | str, ...], message: str) -> str:
    path = ".".join(str(part) for part in place)
    if message == "Extra inputs are not permitted":
        known = [*fields_of(DataRules)] if len(place) == 1 else [*fields_of(LabelRule)]
        near = nearest(str(place[-1]), known)
        return f"`{path}` is not known" + (f": did you mean `{near}`?" if near else "")
    return f"`{path}`: {message[:1].lower()}{message[1:]}"
