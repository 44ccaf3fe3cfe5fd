"""Whatever is in a file, the answer is a configuration or a list of its mistakes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from burst.core.config import ExperimentConfig, ExperimentFileError, parse_experiment
from burst.core.config.check import fields_of
from burst.core.config.dialect import IGNORED, MOVES, REFUSED
from burst.core.config.names import sections_of


def _names(model: Any) -> set[str]:
    """Every field's name in a model and below."""
    found = set(fields_of(model))
    for field in model.model_fields.values():
        for section in sections_of(field.annotation):
            found |= _names(section)
    return found


OLD = {part for path in [m.old for m in MOVES] + [*IGNORED, *REFUSED] for part in path.split(".")}
SHAPED = {"environment_variables", "host_path", "storage_path", "container_path", "stop_once"}
VALUES = {"single", "grid", "random", "asha", "async_halving", "adaptive", "int", "log", "const",
          "s3", "shared_fs", "gpu", "auto", "5ep", "1h", "A=b", "env:x", "train:T", "batches",
          "epochs", "O1", "python3 -m determined.launch.torch_distributed x.py"}  # fmt: skip
NAMES = st.sampled_from(sorted(_names(ExperimentConfig) | OLD | SHAPED))
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 99)
    | st.floats()
    | st.sampled_from(sorted(VALUES)),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(NAMES | st.just("type"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.dictionaries(NAMES, TREES, min_size=1, max_size=5))
def test_any_file_gets_a_configuration_or_its_mistakes(plain: dict[str, Any]) -> None:
    _answered(plain)


@pytest.mark.parametrize("name", sorted(set(fields_of(ExperimentConfig)) | OLD))
@pytest.mark.parametrize(
    "value", [3, "x", [], [[1]], {}, {"type": {"a": [1]}}, {"name": [1]}, True]
)
def test_any_value_at_any_field_is_answered(name: str, value: Any) -> None:
    _answered({name: value})
    for section in ("searcher", "resources", "environment", "checkpoint_storage"):
        _answered({section: {name: value}})


def _answered(plain: dict[str, Any]) -> None:
    text = yaml.safe_dump(plain)
    mistakes: tuple[Any, ...] = ()
    config = None
    try:
        config = parse_experiment(text, "exp.yaml").config
    except ExperimentFileError as error:
        mistakes = error.problems
    assert (config is None) == bool(mistakes)
    assert all(p.message and 1 <= p.line <= text.count("\n") + 1 for p in mistakes)
    if config is not None:
        assert ExperimentConfig.model_validate(config.model_dump(mode="json")) == config
