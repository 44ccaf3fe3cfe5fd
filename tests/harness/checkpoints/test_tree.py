"""Trees to JSON and tensors and back: equal in every bit, or refused by name."""

from __future__ import annotations

import enum
import json
import math
import struct
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from burst.core.checkpoints.format.tensorfile import STORED_AS
from burst.core.errors import BurstError
from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.codec.skeletons import decode
from burst.harness.checkpoints.codec.state_types import register_state_type
from tests.harness.checkpoints.support import Lab, raw, request, same


def through_json(value: Any) -> Any:
    encoded = tree.encode(value, "shared")
    return decode(json.loads(json.dumps(encoded.skeleton)), [t.tensor for t in encoded.tensors])


def through_files(value: Any, folder: Path) -> Any:
    lab = Lab(folder)
    try:
        lab.engine().save(request(value))
        found = lab.engine().restore()
        assert found is not None
        return found.shared
    finally:
        lab.close()


_floats = st.floats() | st.integers(0, 2**64 - 1).map(
    lambda bits: struct.unpack("d", struct.pack("Q", bits))[0]
)
_dtypes = (
    hnp.integer_dtypes(endianness="?")
    | hnp.unsigned_integer_dtypes(endianness="?")
    | hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64))
    | hnp.complex_number_dtypes(endianness="?", sizes=(64, 128))
    | hnp.boolean_dtypes()
    | hnp.unicode_string_dtypes(min_len=1, max_len=4)
    | hnp.byte_string_dtypes(min_len=1, max_len=4)
    | hnp.datetime64_dtypes()
    | hnp.timedelta64_dtypes()
)
_arrays = hnp.arrays(_dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**60, max_value=2**200)
    | _floats
    | st.complex_numbers()
    | st.text(st.characters())
    | st.binary(max_size=40)
    | st.binary(max_size=8).map(bytearray)
    | _arrays
    | _arrays.filter(lambda array: array.size > 0).map(lambda array: array.reshape(-1)[0])
)
_keys = st.text(max_size=5) | st.integers() | st.sampled_from(["$", "a.b", "", "0"])
_trees = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_keys, inner, max_size=3)
        | st.dictionaries(_keys, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(_keys, inner, max_size=3).map(lambda d: defaultdict(list, d))
        | st.lists(inner, max_size=3).map(lambda items: deque(items, maxlen=5))
    ),
    max_leaves=12,
)


@given(_trees)
def test_any_tree_comes_back_type_for_type_and_bit_for_bit(value: Any) -> None:
    assert same(value, through_json(value))


@settings(max_examples=30)
@given(_trees)
def test_any_tree_comes_back_through_files(tmp_path_factory: Any, value: Any) -> None:
    assert same(value, through_files(value, tmp_path_factory.mktemp("blobs")))


@pytest.mark.parametrize("name", STORED_AS)
def test_every_dtype_comes_back_with_every_bit(name: str, tmp_path: Path) -> None:
    dtype = getattr(torch, name)
    torch.manual_seed(1)
    bits = torch.randint(0, 256, (6 * dtype.itemsize,), dtype=torch.uint8)
    if dtype is torch.bool:
        bits %= 2
    flat = bits.view(dtype)
    shaped = {
        "flat": flat,
        "table": flat.view(2, 3),
        "scalar": bits[: dtype.itemsize].view(dtype).view(()),
        "none": flat[:0],
        "none of many": flat[:0].view(0, 5),
        "transposed": bits.view(2, 3 * dtype.itemsize).view(dtype).t(),
    }
    back = through_files(shaped, tmp_path)
    for key, tensor in shaped.items():
        assert (back[key].dtype, back[key].shape) == (tensor.dtype, tensor.shape)
        assert raw(back[key]) == raw(tensor)
    assert back["transposed"].stride() == shaped["transposed"].stride()


def test_strided_expanded_and_conjugated_tensors_come_back_by_value(tmp_path: Path) -> None:
    base = torch.arange(24.0).view(2, 3, 4)
    views = [base[:, ::2], base.permute(2, 0, 1), torch.ones(1).expand(5), base[1, 2, 3]]
    views += [torch.tensor([1 + 2j, 3 - 4j]).conj(), torch.tensor([1 + 2j]).conj().imag]
    assert same(views, through_files(views, tmp_path))


def test_the_memory_format_of_a_dense_tensor_is_kept(tmp_path: Path) -> None:
    images = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    back = through_files([images, images[:, :, ::2]], tmp_path)
    assert back[0].is_contiguous(memory_format=torch.channels_last)
    assert back[1].is_contiguous()


def test_tied_tensors_are_stored_once_and_come_back_tied() -> None:
    weight = torch.rand(4, 4)
    other = weight.clone()
    encoded = tree.encode(
        {"a": weight, "b": weight.detach(), "c": other, "d": weight[:2]}, "shared"
    )
    assert len(encoded.tensors) == 3
    back = decode(encoded.skeleton, [item.tensor for item in encoded.tensors])
    assert back["a"] is back["b"]
    assert back["a"] is not back["c"]


def test_parameters_and_what_requires_gradients_come_back_as_such(tmp_path: Path) -> None:
    frozen = torch.nn.Parameter(torch.rand(2), requires_grad=False)
    value = [torch.nn.Parameter(torch.rand(2)), frozen, torch.rand(2, requires_grad=True)]
    assert same(value, through_files(value, tmp_path))
    assert not through_json(value[0] * 2).requires_grad


def test_a_state_dict_keeps_the_versions_of_its_modules() -> None:
    state = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).state_dict()
    back = through_json(state)
    assert same(state, back)
    assert back._metadata["1"]["version"] == 2


def test_values_of_torch_and_python_that_are_no_tensors_come_back() -> None:
    value = {
        "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cuda:1"),
        "counter": Counter("burst"),
        "set": {1, "a", (2, 3)},
        "frozen": frozenset({None}),
        "window": deque([1, 2], maxlen=2),
        "long": bytes(range(256)) * 20,
        "longer": bytearray(5000),
        "keys": {1: "a", (1, "b"): 2, None: 3, b"x": 4, 2.5: 5, False: 6},
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "reversed": np.arange(6)[::-2],
    }
    back = through_json(value)
    assert same(value, back)
    assert back["window"].maxlen == 2
    assert back["fortran"].flags.f_contiguous


class Colour(enum.IntEnum):
    RED = 1


@dataclass
class Average:
    total: float
    window: torch.Tensor


class Tagged(torch.Tensor):
    pass


def _cycle() -> list[Any]:
    inner: list[Any] = []
    inner.append({"again": inner})
    return inner


def _deep() -> Any:
    value: Any = None
    for _ in range(400):
        value = [value]
    return value


def _deep_dict() -> Any:
    value: Any = {}
    for level in range(5000):
        value = {f"level_{level}": value}
    return value


def _quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.rand(2), 0.1, 0, torch.qint8)


def _nested(layout: torch.layout) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.rand(2), torch.rand(3)], layout=layout)


def _given_back() -> torch.Tensor:
    tensor = torch.rand(4)
    tensor.untyped_storage().resize_(0)
    return tensor


def _in_a_transform() -> torch.Tensor:
    found: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor.sum()

    torch.func.grad(keep)(torch.rand(2))
    return found[0]


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        ({"callbacks": {"ema": object()}}, "shared.callbacks.ema", "builtins.object"),
        ({"a b": [0, {3: Colour.RED}]}, "shared['a b'][1][3]", "Colour"),
        ([torch.rand(2).as_subclass(Tagged)], "shared[0]", "Tagged"),
        ([lambda: None], "shared[0]", "function"),
        ({Colour.RED: 1}, "shared", "key of a dict"),
        (defaultdict(lambda: 0), "shared", "default_factory"),
        (_cycle(), "shared[0].again", "contains itself"),
        (_deep(), "shared[0][0]", "deeper"),
        (_deep_dict(), "shared.level_4999", "deeper"),
        ({"x" * 10_000: object()}, "shared.xxxx", "builtins.object"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_held_is_refused_by_its_place_and_type(
    value: Any, place: str, words: str
) -> None:
    with pytest.raises(BurstError) as caught:
        tree.encode(value, "shared")
    assert place in caught.value.what
    assert len(caught.value.what) < 300
    assert words in str(caught.value)
    assert "register_state_type" in caught.value.mend


@pytest.mark.parametrize(
    ("value", "why", "mend"),
    [
        (torch.eye(2).to_sparse(), "torch.sparse_coo", "to_dense()"),
        (torch.eye(2).to_mkldnn(), "torch._mkldnn", "to_dense()"),
        (torch.empty(2, device="meta"), "meta device", "to_empty"),
        (torch.empty(0, device="meta"), "meta device", "to_empty"),
        (torch.nn.Parameter(torch.empty(2, device="meta")), "meta device", "to_empty"),
        (_quantized(), "quantized", "int_repr()"),
        (_nested(torch.strided), "rows of different lengths", "unbind()"),
        (_nested(torch.jagged), "rows of different lengths", "unbind()"),
        (torch.nn.UninitializedParameter(), "no shape yet", "run the model once"),
        (torch.nn.UninitializedBuffer(), "no shape yet", "run the model once"),
        (_given_back(), "given back", "before that"),
        (_in_a_transform(), "doesn't have storage", "torch.func"),
        (np.array([None]), "dtype is object", "tolist()"),
        (np.zeros(2, "i4,f8"), "dtype is [('f0'", "fields"),
        (np.zeros(2, "i4,f8")[0], "dtype is [('f0'", "fields"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_tensor_that_no_file_can_hold_is_refused_with_what_can_be_saved_for_it(
    value: Any, why: str, mend: str
) -> None:
    for before in (None, torch.ones(2)):  # also where a place is known as a tensor's
        tree.encode({"first": before}, "odd")
        with pytest.raises(BurstError) as caught:
            tree.encode({"first": value}, "odd")
        assert caught.value.what.startswith("a checkpoint cannot hold odd.first, a ")
        assert why in caught.value.why
        assert mend in caught.value.mend


def test_a_registered_type_comes_back_wherever_it_lies() -> None:
    register_state_type(
        Average, lambda a: {"total": a.total, "window": a.window}, lambda t: Average(**t)
    )
    back = through_json({"ema": [Average(math.inf, torch.arange(3))]})
    assert isinstance(back["ema"][0], Average)
    assert back["ema"][0].total == math.inf
    assert torch.equal(back["ema"][0].window, torch.arange(3))


def test_a_type_that_is_not_registered_where_it_is_read_is_named() -> None:
    with pytest.raises(BurstError, match=r"app\.Ema.*not registered"):
        decode({"$": ["object", "app.Ema", 1]}, [])


def test_tensors_of_temporary_memory_are_never_taken_for_one_another() -> None:
    register_state_type(Average, lambda a: [a.window + a.total], lambda t: Average(0, t[0]))
    value = [Average(float(n), torch.zeros(1000)) for n in range(20)]
    back = through_json(value)
    assert [int(item.window[0]) for item in back] == list(range(20))
