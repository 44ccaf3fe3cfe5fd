"""What is kept from save to save never shows: every encoding is as if it were the first."""

from __future__ import annotations

import gc
import json
import threading
import traceback
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from burst.core.errors import BurstError
from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.codec.encoding import Encoder
from burst.harness.checkpoints.codec.places import Places
from tests.harness.checkpoints.support import Lab, request

_base = torch.arange(12.0)
_tensors = (
    _base,
    _base.detach(),
    _base[:4],
    _base[4:],
    _base.view(3, 4),
    _base.view(3, 4).t(),
    torch.ones(3, requires_grad=True),
    torch.ones(3, requires_grad=True) * 2,
    torch.nn.Parameter(torch.ones(2)),
    torch.nn.Parameter(torch.ones(2), requires_grad=False),
    torch.ones(2, dtype=torch.bfloat16),
    torch.empty(0),
    torch.empty(0, 3, dtype=torch.int64),
    torch.tensor(1),
)
_keys = st.sampled_from(
    [
        "a",
        "b",
        "a.b",
        "a#2",
        "",
        "$",
        "0",
        "_metadata",
        0,
        1,
        True,
        False,
        0.0,
        -0.0,
        (1,),
        (True,),
    ]
)
_leaves = st.sampled_from(
    [*_tensors, None, 0, True, 1.0, -0.0, 2**60, "a", b"x", b"long" * 500, torch.float32]
)
_versions = st.sampled_from([None, 1, True, 2, 1.0])


def _module(items: dict[str, Any], versions: dict[str, Any]) -> Any:
    """Like what `state_dict` returns."""
    state: Any = OrderedDict(items)
    state._metadata = OrderedDict((k, {"version": v}) for k, v in versions.items())
    return state


_modules = st.builds(
    _module,
    st.dictionaries(st.sampled_from("ab"), st.sampled_from(_tensors), max_size=2),
    st.dictionaries(st.sampled_from(["", "a", "b"]), _versions, max_size=3),
)
_trees = st.recursive(
    _leaves | _modules,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(_keys, inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
        | st.dictionaries(_keys, inner, max_size=2).map(OrderedDict)
        | st.dictionaries(_keys, inner, max_size=2).map(lambda d: defaultdict(list, d))
    ),
    max_leaves=8,
)


def facts(encoder: Encoder, skeleton: Any) -> Any:
    """All that an encoding says, with what 1 and True, or 0.0 and -0.0, differ in."""
    return json.dumps(skeleton), [
        (t.name, t.section, t.address, t.tensor.dtype, t.tensor.shape, t.tensor.stride())
        for t in encoder.tensors
    ]


def encoded(value: Any, places: Places) -> Any:
    encoder = Encoder("shared", places)
    return facts(encoder, encoder.node(value, places.root))


def _nodes(value: Any) -> list[Any]:
    """The containers of a tree that can be changed in place."""
    found = [value] if isinstance(value, list | dict) else []
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(value, list | dict | tuple):
        for item in inner:
            found += _nodes(item)
    return found


def _change(data: Any, value: Any) -> Any:
    """The tree with one thing changed in place, where it has room for that, else another tree."""
    nodes = _nodes(value)
    if not nodes:
        return data.draw(_trees)
    node = data.draw(st.sampled_from(nodes))
    if isinstance(node, list):
        node.insert(data.draw(st.integers(0, len(node))), data.draw(_leaves | _trees))
    elif node and data.draw(st.booleans()):
        del node[data.draw(st.sampled_from(list(node)))]
    else:
        node[data.draw(_keys)] = data.draw(_leaves)
    for module in nodes:
        if hasattr(module, "_metadata") and data.draw(st.booleans()):
            module._metadata["a"] = {"version": data.draw(_versions)}
    return value


@settings(max_examples=300)
@given(st.data())
def test_what_is_kept_never_shows_whatever_changes_between_two_saves(data: Any) -> None:
    places = Places()
    value = data.draw(_trees)
    for _ in range(4):
        assert encoded(value, places) == encoded(value, Places())
        again = data.draw(st.booleans())
        value = _change(data, value) if again else data.draw(_trees)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (torch.ones(2), torch.ones(2, requires_grad=True)),
        (torch.ones(2), torch.nn.Parameter(torch.ones(2))),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(3, 4)),
        (torch.ones(2), 1),
        (1, True),
        (0.0, -0.0),
        ([1], (1,)),
        ({1: _base}, {True: _base}),
        ({0.0: _base}, {-0.0: _base}),
        ({(1,): _base}, {(True,): _base}),
        ([_base, _base], [_base, _base.clone()]),
        (_module({}, {"": 1}), _module({}, {"": True})),
        (_module({}, {"": 1}), _module({}, {"": 2})),
        (_module({}, {"": 1, "a": 1}), _module({}, {"a": 1, "": 1})),
        (_module({}, {"": 1}), OrderedDict()),
    ],
    ids=repr,
)
def test_a_change_at_a_place_that_is_kept_is_seen(before: Any, after: Any) -> None:
    places = Places()
    first = encoded({"x": before}, places)
    second = encoded({"x": after}, places)
    assert first != second
    assert second == encoded({"x": after}, Places())
    assert encoded({"x": before}, places) == first


def test_a_tensor_changed_in_place_is_looked_at_anew() -> None:
    value = {"x": torch.ones(2), "y": torch.ones(2)}
    places = Places()
    encoded(value, places)
    value["x"].data = torch.ones(2, 2, dtype=torch.float64)
    value["y"].data = value["x"].data
    assert encoded(value, places) == encoded(value, Places())


def test_tensors_keep_one_name_each_though_their_places_look_alike() -> None:
    one, other, third = (torch.full((1,), float(n)) for n in range(3))
    found = tree.encode({"a": {"b": one}, "a.b": other, "a.b#2": third}, "alike")
    names = {item.name for item in found.tensors}
    assert len(names) == 3


def test_nothing_of_a_tree_is_kept_but_names() -> None:
    value = {"models": [{"w": torch.ones(1000)}]}
    kept = tree.encode(value, "kept")
    gone = torch.utils.weak.WeakTensorKeyDictionary({value["models"][0]["w"]: None})
    del value, kept
    assert len(gone) == 0


def test_places_that_come_and_go_are_not_kept_forever() -> None:
    places = Places()
    most = 0
    for save in range(50):
        places = places if places.settle() else Places()
        encoded({f"{save}.{n}": torch.ones(1) for n in range(1000)}, places)
        most = max(most, len(places.root.named))
    assert most <= 4000


def test_ranks_that_are_threads_do_not_meet_in_what_is_kept() -> None:
    value = {"models": [{f"{n}": torch.ones(1) for n in range(50)}]}
    expected = tree.encode(value, "threads")
    wrong: list[Any] = []

    def act() -> None:
        for _ in range(50):
            found = tree.encode(value, "threads")
            if found.skeleton != expected.skeleton or found.tensors != expected.tensors:
                wrong.append(found)

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_collector_of_garbage_is_as_it_was_when_an_encoding_ends() -> None:
    for before in (gc.enable, gc.disable):
        try:
            before()
            state = gc.isenabled()
            tree.encode({"a": torch.ones(1)}, "collected")
            with pytest.raises(BurstError):
                tree.encode({"a": object()}, "collected")
            assert gc.isenabled() == state
        finally:
            gc.enable()


def test_many_tensors_are_encoded_and_restored_without_looking_for_garbage(
    tmp_path: Path,
) -> None:
    state = {"models": [{f"{n}": torch.ones(1) for n in range(5000)}]}
    looks: list[str] = []
    quiet = ("codec/tree.py", "restoring/reading.py")
    lab = Lab(tmp_path)

    def look(phase: str, info: dict[str, int]) -> None:
        stack = "".join(traceback.format_stack())
        looks.extend(file for file in quiet if file in stack and phase == "start")

    try:
        lab.engine().save(request(state))
        engine = lab.engine()
        gc.callbacks.append(look)
        encoded = tree.encode(state, "many")
        restored = engine.restore()
    finally:
        gc.callbacks.remove(look)
        lab.close()
    assert restored is not None
    assert len(encoded.tensors) == 5000
    assert len(looks) <= 2  # one may come at the end of each


def test_a_refused_tree_leaves_nothing_behind() -> None:
    with pytest.raises(BurstError):
        tree.encode({"a": torch.ones(1), "b": object()}, "refused")
    value = {"a": torch.ones(1)}
    assert [t.name for t in tree.encode(value, "refused").tensors] == ["a"]
