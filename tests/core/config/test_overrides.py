"""Settings of the command line."""

from __future__ import annotations

import pytest

from burst.core.config import ExperimentConfig, ExperimentFileError, Problem, parse_experiment

TEXT = """\
entrypoint: train:T
hyperparameters: {lr: {type: log, minval: -3, maxval: -1}, m: {h: 3, l: [1, 2]}}
searcher: {name: random, max_trials: 4, max_length: 5ep}
checkpoint_policy: best
"""


def load(*overrides: str, text: str = TEXT) -> ExperimentConfig:
    return parse_experiment(text, "exp.yaml", overrides).config


def only(*overrides: str) -> Problem:
    with pytest.raises(ExperimentFileError) as caught:
        load(*overrides)
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def test_values_are_read_as_yaml_and_the_last_one_wins() -> None:
    config = load("searcher.max_trials=3", "searcher.max_trials=7", "description=a=b")
    assert config.searcher.name == "random"
    assert config.searcher.max_trials == 7
    assert config.description == "a=b"


def test_hyperparameters_nest_and_lists_go_by_index() -> None:
    config = load(
        "hyperparameters.m.h=1e-3",
        "hyperparameters.m.l.1=9",
        "hyperparameters.m.l.2=x",
        "hyperparameters.lr.maxval=0",
        "hyperparameters.lr.count=4",
    )
    assert config.hyperparameters["m"] == {"h": 0.001, "l": [1, 9, "x"]}
    assert config.hyperparameters["lr"]["maxval"] == 0
    assert config.hyperparameters["lr"]["count"] == 4


def test_sections_that_the_file_lacks_are_made() -> None:
    config = load("resources.pools=[a, b]", "budget.deadline=2h", "environment.variables.X='1'")
    assert config.resources.pools == ("a", "b")
    assert config.budget.deadline == 7200
    assert config.environment.variables == {"X": "1"}


def test_the_command_line_wins_over_the_file_in_either_spelling() -> None:
    assert load("checkpoints.policy=all").checkpoints.policy == "all"
    assert load("checkpoint_policy=none").checkpoints.policy == "none"
    text = TEXT.replace("checkpoint_policy: best", "checkpoints: {policy: best}")
    assert load("checkpoint_policy=all", text=text).checkpoints.policy == "all"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("bogus", "write `--set a.b=value`"),
        ("=3", "write `--set a.b=value`"),
        ("a..b=3", "write `--set a.b=value`"),
        ("searcher.max_trails=3", "did you mean `max_trials`?"),
        ("searchr.max_trials=3", "did you mean `searcher`?"),
        ("searcher.max_trials=x", "is a whole number, not `x`"),
        ("searcher.max_trials=[1", "is not closed"),
        ("searcher.max_trials.x=1", "has nothing below it, it is `4`"),
        ("hyperparameters.lrr=1", "did you mean `lr`?"),
        ("hyperparameters.m.k=1", "there are `h` or `l`"),
        ("hyperparameters.m.l.7=1", "places are 0 to 2"),
        ("hyperparameters.m.l.x=1", "is no place in it"),
        ("hyperparameters.lr.maxvla=1", "did you mean `maxval`?"),
        ("resources.pools.0=a", "is a list, not a mapping"),
        ("entrypoint=", "is missing"),
    ],
)
def test_a_setting_that_means_nothing_is_told_with_its_own_line(override: str, words: str) -> None:
    said = str(only(override))
    assert words in said
    if override != "entrypoint=":
        assert said.startswith("--set: ")
        assert f"--set | {override}" in said


def test_mistakes_of_file_and_command_line_come_together() -> None:
    with pytest.raises(ExperimentFileError) as caught:
        load("resources.priority=200", text=TEXT + "namee: x\n")
    assert [problem.file for problem in caught.value.problems] == ["exp.yaml", "--set"]
