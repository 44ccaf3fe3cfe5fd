"""`data.validate` is checked when an experiment is submitted; the rest of `data` is the user's."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.config import parse_experiment
from burst.core.config.data_rules import DataRule, DataRules, LabelRule, RangeRule, read_data_rules
from burst.core.errors import ConfigError

HEAD = "entrypoint: train:Texts\nsearcher: {name: single, max_length: 1ep}\n"


def mistakes(data: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_experiment(f"{HEAD}data: {data}\n", "exp.yaml")
    return str(caught.value)


def test_rules_are_taken_as_words_and_as_mappings() -> None:
    text = "{path: anything, validate: {empty: drop, labels: {min: 0, max: 3, on: quarantine}}}"
    config = parse_experiment(f"{HEAD}data: {text}\n", "exp.yaml").config
    assert config.data["path"] == "anything"
    assert read_data_rules(config.data["validate"]) == DataRules(
        empty=DataRule(on="drop"), labels=LabelRule(min=0, max=3, on="quarantine")
    )


def test_a_rule_that_is_empty_is_not_asked_for() -> None:
    parse_experiment(f"{HEAD}data: {{validate: {{empty: }}}}\n", "exp.yaml")
    parse_experiment(f"{HEAD}data: {{validate: }}\n", "exp.yaml")
    assert read_data_rules({"empty": None, "ids": {"max": 9}}) == DataRules(ids=RangeRule(max=9))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("{validate: {empti: drop}}", "`data.validate.empti` is no rule for data"),
        ("{validate: {empti: drop}}", "did you mean `empty`?"),
        ("{validate: {length: drop}}", "the rules are `empty`, `all_padding`, `ids` or `labels`"),
        ("{validate: {ids: drob}}", "`data.validate.ids` cannot be `drob`"),
        ("{validate: {ids: drob}}", "did you mean `drop`?"),
        ("{validate: {ids: {on: drob}}}", "`data.validate.ids.on` cannot be `drob`"),
        ("{validate: {ids: {mx: 3}}}", "`data.validate.ids.mx` is not a field"),
        ("{validate: {ids: {mx: 3}}}", "did you mean `max`?"),
        ("{validate: {ids: {max: many}}}", "`data.validate.ids.max` is a whole number"),
        ("{validate: {ids: {min: 4, max: 3}}}", "`data.validate.ids.max` is less than `min`"),
        ("{validate: {labels: fail}}", "`data.validate.labels` has neither `min` nor `max`"),
        ("{validate: {labels: {on: fail}}}", "write `labels: {min: 0, max: 3, on: fail}`"),
        ("{validate: drop}", "`data.validate` is a mapping of rules"),
        ("{validate: {empty: [drop]}}", "`data.validate.empty` is a mapping"),
    ],
)
def test_a_mistake_is_told_with_what_was_meant(data: str, told: str) -> None:
    assert told in mistakes(data)


@pytest.mark.parametrize(
    "value",
    [
        {"empti": "drop"},
        {"ids": "drob"},
        {"ids": {"mx": 3}},
        {"ids": {"min": 4, "max": 3}},
        {"labels": "fail"},
        {"empty": 3},
        [],
    ],
)
def test_a_script_is_told_the_same(value: Any) -> None:
    with pytest.raises(ConfigError, match="rules for data"):
        read_data_rules(value)
