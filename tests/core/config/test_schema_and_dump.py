"""Schemas for editors, and printing a file that reads back as the same experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config import (
    ExperimentFileError,
    cluster_schema,
    dump_experiment,
    experiment_schema,
    load_cluster,
    load_experiment,
    parse_experiment,
)
from burst.core.config.document import Report
from burst.core.config.files import read_root

FILES = Path(__file__).parent / "files"
EXAMPLES = Path(__file__).parents[3] / "examples"
WRITTEN = sorted(
    [*FILES.glob("de*.yaml"), *EXAMPLES.glob("*/exp.yaml")], key=lambda path: path.as_posix()
)
EXPERIMENT = jsonschema.Draft202012Validator(experiment_schema())
CLUSTER = jsonschema.Draft202012Validator(cluster_schema())


def _plain(path: Path) -> Any:
    root = read_root(path.read_text(), path.name, Report())
    assert root is not None
    return root.plain()


def test_the_schemas_are_schemas() -> None:
    jsonschema.Draft202012Validator.check_schema(experiment_schema())
    jsonschema.Draft202012Validator.check_schema(cluster_schema())


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_that_load_fit_the_schema_and_read_back_equal(path: Path) -> None:
    config = load_experiment(path).config
    assert [error.message for error in EXPERIMENT.iter_errors(_plain(path))] == []
    text = dump_experiment(config)
    again = parse_experiment(text, "again.yaml")
    assert again.config == config
    assert again.warnings == ()
    assert dump_experiment(again.config) == text
    assert [error.message for error in EXPERIMENT.iter_errors(yaml.safe_load(text))] == []


def test_the_cluster_of_the_design_loads_and_fits_its_schema() -> None:
    config = load_cluster(FILES / "cluster.yaml")
    assert config.pools["spot"].kind == "aws"
    assert config.pools["spot"].idle == 300
    assert [error.message for error in CLUSTER.iter_errors(_plain(FILES / "cluster.yaml"))] == []


@pytest.mark.parametrize(
    "text",
    [
        "namee: x",
        "resources: {priorityy: 3}",
        "resources: {slots_per_trial: two}",
        "searcher: {name: adaptve}",
        "searcher: {max_length: 5ep}",
        "searcher: {name: single, max_length: []}",
        "hyperparameters: {a: {type: gauss}}",
        "hyperparameters: {a: {b: {type: int, minval: 1}}}",
        "budget: {deadline: soon}",
        "checkpoint_policy: some",
        "checkpoints: {storage: [{type: local, keep: 0}, {type: s3, bucket: b}]}",
        "checkpoint_storage: [{type: local}, {type: s3, bukcet: b}]",
    ],
)
def test_what_the_loader_refuses_for_its_form_the_schema_refuses(text: str) -> None:
    with pytest.raises(ExperimentFileError):
        parse_experiment(f"entrypoint: [a]\n{text}\n", "exp.yaml")
    assert not EXPERIMENT.is_valid({"entrypoint": ["a"], **yaml.safe_load(text)})


def test_tiers_fit_the_schema_and_are_printed_as_they_are_written() -> None:
    text = """\
storage:
- type: local
  keep: 2
- type: s3
  bucket: b
  every: 1h"""
    plain = {"entrypoint": ["a"], "checkpoints": yaml.safe_load(text)}
    assert [error.message for error in EXPERIMENT.iter_errors(plain)] == []
    old = {"entrypoint": ["a"], "checkpoint_storage": plain["checkpoints"]["storage"]}
    assert [error.message for error in EXPERIMENT.iter_errors(old)] == []
    config = parse_experiment(json.dumps(old), "exp.yaml").config
    assert text.replace("\n", "\n  ") in dump_experiment(config)


def test_old_spellings_are_marked_for_editors() -> None:
    schema = experiment_schema()
    assert schema["properties"]["min_validation_period"]["deprecated"] is True
    assert "validate.every" in schema["properties"]["min_validation_period"]["description"]
    assert "name" in schema["properties"]
    assert schema["required"] == ["entrypoint"]


LINES = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | LINES | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip
LENGTHS = st.one_of(
    st.builds(lambda n: {"batches": n}, st.integers(1, 2**53)),
    st.builds(lambda n: {"epochs": n}, st.floats(0.001, 1e6)),
    st.builds(lambda n: {"seconds": n}, st.floats(0.001, 1e6)),
)
SHARED = st.just({"type": "shared_fs", "path": "/mnt/ck"})
STORAGE = SHARED | st.builds(
    lambda local, s3, shared: [*local, shared, {"type": "s3", "bucket": "b", **s3}],
    st.lists(
        st.fixed_dictionaries({"type": st.just("local")}, optional={"keep": st.integers(1, 9)}),
        max_size=1,
    ),
    st.fixed_dictionaries({}, optional={"every": LENGTHS, "keep": st.integers(1, 9)}),
    SHARED,
)
CONSTANTS = JSON.filter(lambda value: not isinstance(value, dict))
NAMES = st.text("abcdefgh_", min_size=1, max_size=6)
FILE = st.fixed_dictionaries(
    {"entrypoint": st.just(["python", "x.py"])},
    optional={
        "name": LINES.filter(lambda line: line.strip() and line.isprintable()),
        "description": st.text(),
        "labels": st.lists(LINES, max_size=2),
        "data": st.dictionaries(st.text(), JSON, max_size=2),
        "hyperparameters": st.dictionaries(NAMES, CONSTANTS, max_size=3),
        "searcher": st.fixed_dictionaries(
            {"name": st.just("random"), "max_trials": st.integers(1, 99)},
            optional={"max_length": LENGTHS, "metric": st.text(min_size=1)},
        ),
        "validate": st.fixed_dictionaries({"every": LENGTHS | st.none()}),
        "checkpoints": st.fixed_dictionaries(
            {"every": LENGTHS | st.sampled_from(["auto", None])}, optional={"storage": STORAGE}
        ),
        "budget": st.fixed_dictionaries({"deadline": st.floats(0.001, 1e9)}),
        "drain_grace": st.integers(0, 10**6) | st.floats(0, 1e6),
        "resources": st.fixed_dictionaries(
            {"shm_size": st.integers(0, 1 << 50), "weight": st.floats(1e-6, 1e6)}
        ),
        "environment": st.fixed_dictionaries({"variables": st.dictionaries(NAMES, st.text())}),
        "reproducibility": st.fixed_dictionaries(
            {
                "experiment_seed": st.integers(0, 2**31 - 1),
                "mode": st.sampled_from(["off", "strict"]),
            }
        ),
    },
)


@given(FILE)
def test_any_experiment_printed_reads_back_equal(plain: dict[str, Any]) -> None:
    config = parse_experiment(json.dumps(plain), "exp.yaml").config
    text = dump_experiment(config)
    assert parse_experiment(text, "other.yaml").config == config


@given(st.text(max_size=30) | st.sampled_from(["1e-3", "off", "~", "0x1", "1:30", "<<", "=", "y"]))
def test_text_stays_text_for_every_reader(text: str) -> None:
    plain = {"entrypoint": ["a"], "data": {"x": text, text or "k": 1}}
    config = parse_experiment(json.dumps(plain), "exp.yaml").config
    dumped = dump_experiment(config)
    assert yaml.safe_load(dumped)["data"] == parse_experiment(dumped, "x.yaml").config.data


def test_the_order_of_keys_is_that_of_a_reader_s_interest() -> None:
    config = load_experiment(FILES / "determined_current.yaml").config
    keys = list(yaml.safe_load(dump_experiment(config)))
    wanted = ["name", "entrypoint", "hyperparameters", "searcher", "resources", "checkpoints"]
    assert [key for key in keys if key in wanted] == wanted
    searcher = yaml.safe_load(dump_experiment(config))["searcher"]
    assert next(iter(searcher)) == "name"


def test_a_seed_of_the_printed_file_is_the_seed_that_was_drawn() -> None:
    config = parse_experiment("entrypoint: [a]\n", "exp.yaml").config
    assert f"experiment_seed: {config.reproducibility.experiment_seed}\n" in dump_experiment(
        config
    )
