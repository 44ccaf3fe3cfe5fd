"""The JSON of a half of a state: the same bytes as ever, and back."""

from __future__ import annotations

import json

import pytest

from burst.core.checkpoints.format.manifest import Damaged
from burst.core.checkpoints.format.state_file import StateFile, TensorRef

STATE = StateFile(
    tree={"w": {"$": ["tensor", 0, True]}, "text": "\ud800é", "numbers": [1, 2.5, None, -0.0]},
    files=("ab", "cd"),
    tensors=(
        TensorRef(name="w", dtype="float32", shape=(2, 3), pieces=((0, "w", 0), (1, "w:1", 4))),
        TensorRef(
            boxes=(((0,), (1,)),),
            pieces=((1, "v", 0),),
            stride=(),
            shape=(),
            dtype="bool",
            name="v",
        ),
    ),
)

WRITTEN = (
    '{"tree": {"w": {"$": ["tensor", 0, true]}, "text": "\\ud800\\u00e9", '
    '"numbers": [1, 2.5, null, -0.0]}, "files": ["ab", "cd"], "tensors": ['
    '{"name": "w", "dtype": "float32", "shape": [2, 3], "stride": null, '
    '"pieces": [[0, "w", 0], [1, "w:1", 4]], "boxes": null}, '
    '{"name": "v", "dtype": "bool", "shape": [], "stride": [], '
    '"pieces": [[1, "v", 0]], "boxes": [[[0], [1]]]}]}'
)


def test_a_state_file_is_written_in_the_same_bytes_whatever_made_it() -> None:
    assert STATE.encode().decode() == WRITTEN
    assert STATE.encode() == json.dumps(STATE.model_dump()).encode()


def test_a_state_file_comes_back_equal() -> None:
    assert StateFile.decode(STATE.encode()) == STATE


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"tree": 1, "files": []}'])
def test_bytes_that_are_no_state_file_are_damage(data: bytes) -> None:
    with pytest.raises(Damaged):
        StateFile.decode(data)
