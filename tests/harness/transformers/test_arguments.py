"""Hyperparameters in the fields of a script's own parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest
from transformers import hf_argparser
from transformers.hf_argparser import HfArgumentParser

from burst.harness.transformers.script import arguments


class Kind(StrEnum):
    LINEAR = "linear"
    COSINE = "cosine"


@dataclass
class Model:
    path: str
    width: int = 16
    kind: Kind = Kind.LINEAR
    head: Literal["big", "small"] = "big"


@dataclass
class Training:
    learning_rate: float = 5e-5
    fp16: bool = False
    shuffle: bool = True
    layers: list[int] = field(default_factory=lambda: [1])
    clip: float | None = 1.0
    options: str | None = None


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Iterator[HfArgumentParser]:
    monkeypatch.delenv("BURST_LAUNCH", raising=False)
    kept = (HfArgumentParser.parse_args_into_dataclasses, HfArgumentParser.parse_dict)
    arguments.patch(hf_argparser)
    yield HfArgumentParser([Model, Training])  # type: ignore[list-item]
    HfArgumentParser.parse_args_into_dataclasses, HfArgumentParser.parse_dict = kept  # type: ignore[method-assign]


def given(monkeypatch: pytest.MonkeyPatch, **hparams: Any) -> None:
    monkeypatch.setenv("BURST_HPARAMS", json.dumps(hparams))


def parsed(parser: HfArgumentParser, *words: str) -> tuple[Model, Training]:
    model, training = parser.parse_args_into_dataclasses(list(words), look_for_args_file=False)
    return model, training


def test_a_field_has_the_trials_value_and_others_the_command_lines_or_their_defaults(
    parser: HfArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, learning_rate=1e-3, path="m", unknown={"deep": 1})
    model, training = parsed(parser, "--width", "8")
    assert model == Model("m", 8)
    assert training == Training(1e-3)


def test_every_type_is_converted_as_on_the_command_line(
    parser: HfArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    hparams = {
        "kind": "cosine", "head": "small", "learning_rate": "-1e-3", "fp16": True, "clip": None,
        "shuffle": False, "layers": [2, -3], "width": 4, "options": {"a": [1]},
    }  # fmt: skip
    given(monkeypatch, **hparams)
    model, training = parsed(parser, "--path", "m")
    assert model == Model("m", 4, Kind.COSINE, "small")
    assert training == Training(-1e-3, True, False, [2, -3], None, '{"a": [1]}')


def test_the_same_value_on_both_sides_is_no_conflict(
    parser: HfArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, learning_rate=0.001, fp16=True, layers=[1, 2], shuffle=False)
    words = ["--learning_rate=1e-3", "--fp16", "--layers", "1", "2", "--no-shuffle"]
    _, training = parsed(parser, "--path", "m", *words)
    assert training == Training(0.001, True, False, [1, 2])


def test_another_value_on_the_command_line_is_refused_with_both(
    parser: HfArgumentParser,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given(monkeypatch, learning_rate=0.001)
    with pytest.raises(SystemExit, match="64"):
        parsed(parser, "--path", "m", "--learning-rate", "5e-5")
    said = capsys.readouterr().err
    assert "learning_rate is 5e-05 on its command line, and 0.001 as a hyperparameter" in said
    assert "--learning_rate ${hp.learning_rate}" in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("learning_rate", "fast", "invalid float value: 'fast'"),
        ("width", 1.5, "invalid int value: '1.5'"),
        ("fp16", "perhaps", "Truthy value expected"),
        ("kind", "square", "invalid choice: 'square'"),
        ("layers", ["a"], "invalid int value: 'a'"),
        ("width", {"deep": 1}, "invalid int value"),
    ],
)
def test_a_value_that_a_field_does_not_take_is_refused_in_the_parsers_words(
    parser: HfArgumentParser,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: object,
    said: str,
) -> None:
    given(monkeypatch, **{name: value})
    with pytest.raises(SystemExit, match="64"):
        parsed(parser, "--path", "m")
    shown = capsys.readouterr().err
    assert f"the hyperparameter {name} is" in shown
    assert said in shown


def test_an_argument_that_is_required_is_still_required_without_a_hyperparameter(
    parser: HfArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, learning_rate=0.001)
    with pytest.raises(SystemExit, match="2"):
        parsed(parser)
    assert next(each for each in parser._actions if each.dest == "path").required


def test_a_file_of_arguments_gives_way_and_that_is_said(
    parser: HfArgumentParser,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    given(monkeypatch, learning_rate="1e-3", width=8, kind="cosine")
    (tmp_path / "a.json").write_text('{"path": "m", "learning_rate": 0.5, "width": 8}')
    (tmp_path / "a.yaml").write_text("{path: m, learning_rate: 0.5, width: 8}")
    for found in (
        parser.parse_json_file(tmp_path / "a.json"),
        parser.parse_yaml_file(tmp_path / "a.yaml"),
        parser.parse_dict({"path": "m", "learning_rate": 0.5}),
    ):
        assert found == (Model("m", 8, Kind.COSINE), Training(1e-3))
    said = capsys.readouterr().err.splitlines()
    assert said == ["burst: the hyperparameter learning_rate is 0.001, instead of 0.5"] * 3


def test_nothing_changes_for_a_script_without_hyperparameters(
    parser: HfArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BURST_HPARAMS", raising=False)
    assert parsed(parser, "--path", "m") == (Model("m"), Training())
    assert "parse_known_args" not in vars(parser)


@pytest.mark.slow
def test_a_field_of_trainings_own_arguments_can_be_searched(
    parser: HfArgumentParser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from transformers import TrainingArguments

    given(monkeypatch, learning_rate=3e-4, lr_scheduler_kwargs={"num_cycles": 2})
    words = ["--output_dir", str(tmp_path), "--use_cpu", "--report_to", "none"]
    (found,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(  # type: ignore[arg-type]
        words, look_for_args_file=False
    )
    assert found.learning_rate == 3e-4
    assert found.lr_scheduler_kwargs == {"num_cycles": 2}


def test_the_parser_of_trl_takes_them_too_over_its_file_of_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from trl.scripts import _hf_argparser
    from trl.scripts.utils import TrlParser

    copy = _hf_argparser.HfArgumentParser
    for name in ("parse_args_into_dataclasses", "parse_dict"):
        monkeypatch.setattr(copy, name, getattr(copy, name))
    arguments.patch(_hf_argparser)
    given(monkeypatch, learning_rate=0.001)
    (tmp_path / "c.yaml").write_text("{learning_rate: 0.5, path: m, width: 8}")
    words = ["--config", str(tmp_path / "c.yaml"), "--clip", "2"]
    parser = TrlParser([Model, Training])  # type: ignore[list-item]
    found = parser.parse_args_and_config(words)
    assert found == (Model("m", 8), Training(0.001, clip=2.0))
