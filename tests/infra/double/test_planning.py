"""What the double of Pulumi's engine decides, and how it keeps values: claims about pure parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.infra.double.backend import Folder, Refusal
from tests.infra.double.kinds import Kind
from tests.infra.double.planning import changes, falls_with, ignoring, plan
from tests.infra.double.secrets import Crypter
from tests.infra.double.stacks import Stack
from tests.infra.double.state import Resource, Snapshot, generations, in_order
from tests.infra.double.values import (
    Props,
    from_struct,
    masked,
    revealed,
    same_json,
    secret,
    secrets_in,
    to_struct,
)

WORDS = st.text("abc", min_size=1, max_size=4)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
PROPS = st.dictionaries(WORDS, PLAIN, max_size=4)


@st.composite
def graphs(draw: st.DrawFn) -> list[Resource]:
    """Resources that need others, in any order."""
    found: list[Resource] = []
    for number in range(draw(st.integers(1, 7))):
        before = [each.urn for each in found]
        needs = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
        parent = draw(st.sampled_from([*before, ""]))
        found.append(Resource(f"urn::t::{number}", "t", True, dependencies=needs, parent=parent))
    return draw(st.permutations(found))


@given(graphs())
def test_in_order_each_comes_after_all_that_it_needs(given: list[Resource]) -> None:
    found = in_order(given)
    assert sorted(each.urn for each in found) == sorted(each.urn for each in given)
    for at, each in enumerate(found):
        assert each.needs() <= {other.urn for other in found[:at]}


@given(graphs())
def test_nothing_is_deleted_before_all_that_need_it(given: list[Resource]) -> None:
    left = {each.urn for each in given}
    for generation in generations(given):
        assert generation
        for each in generation:
            assert not any(each.urn in other.needs() for other in given if other.urn in left)
        left -= {each.urn for each in generation}
    assert left == set()


class Thing(Kind):
    name = "called"
    replaces = frozenset({"where"})
    json = frozenset({"document"})


def thing(**inputs: object) -> Resource:
    return Resource("urn::t::a", "t", True, id="1", inputs=inputs)


@given(PROPS, PROPS)
def test_what_differs_is_what_has_to_be_changed(old: Props, new: Props) -> None:
    assert changes(old, old) == ()
    assert changes(old, new) == changes(new, old)
    differing = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    assert set(changes(old, new)) == differing
    assert changes(old, ignoring(old, new, ["*"])) == ()
    assert not set(changes(old, ignoring(old, new, sorted(differing)))) & differing


@pytest.mark.parametrize(
    ("old", "new", "op", "delete_first"),
    [
        ({"size": 1}, {"size": 1}, "same", False),
        ({"size": 1}, {"size": 2}, "update", False),
        ({"size": 1}, {}, "update", False),
        ({"where": "a"}, {"where": "b"}, "replace", False),
        ({"called": "x", "where": "a"}, {"called": "x", "where": "b"}, "replace", True),
        ({"called": "x"}, {"called": "y"}, "replace", False),
        ({"document": '{"a": 1, "b": 2}'}, {"document": '{"b":2,"a":1}'}, "same", False),
    ],
)
def test_a_plan_follows_from_what_changes(
    old: Props, new: Props, op: str, delete_first: bool
) -> None:
    # A name that was made up can be made up again: nothing need go first.
    if "called" not in old:
        old, new = ({**each, "called": "x1", "__defaults": ["called"]} for each in (old, new))
    found = plan(thing(**old), new, Thing)
    assert (found.op, found.delete_first) == (op, delete_first)


def test_a_plan_obeys_the_program() -> None:
    old, new = thing(size=1), {"size": 2}
    assert plan(None, new, Thing).op == "create"
    assert plan(old, new, Thing, replace_on=["size"]).op == "replace"
    assert plan(old, new, Thing, replace_on=["*"], delete_first=True).delete_first
    named = thing(called="x", where="a")
    assert not plan(named, {"called": "x", "where": "b"}, Thing, delete_first=False).delete_first
    broken = thing(size=1)
    broken.init_errors = ["interrupted"]
    assert plan(broken, {"size": 1}, Thing).op == "update"


def test_what_cannot_be_moved_falls_with_what_it_is_in() -> None:
    first = Resource("urn::t::a", "t", True)
    within = Resource("urn::t::b", "t", True, property_dependencies={"where": [first.urn]})
    deeper = Resource("urn::t::c", "t", True, property_dependencies={"where": [within.urn]})
    beside = Resource("urn::t::d", "t", True, property_dependencies={"size": [first.urn]})
    others = [first, within, deeper, beside]
    assert falls_with(first, others, {"t": Thing}) == [within, deeper]


@given(PROPS)
def test_the_wire_keeps_values(props: Props) -> None:
    assert from_struct(to_struct(props)) == props


@given(PROPS, st.text("xyz", min_size=6, max_size=9))
def test_a_secret_comes_back_and_is_never_written(props: Props, word: str) -> None:
    crypter = Crypter.again("phrase", SALT)
    given = {**props, "deep": [{"word": secret(word)}]}
    hidden = crypter.hide(given)
    assert word not in json.dumps(hidden)
    assert crypter.show(hidden) == given
    assert secrets_in(given) == [word]
    assert revealed(given)["deep"] == [{"word": word}]
    assert word not in json.dumps(masked(given))


SALT = Crypter.new("phrase").salt


def test_another_passphrase_is_refused() -> None:
    with pytest.raises(Refusal, match="incorrect passphrase"):
        Crypter.again("other", SALT)


@given(PROPS)
def test_order_and_space_do_not_count_in_json(props: Props) -> None:
    turned = dict(reversed(props.items()))
    assert same_json(json.dumps(props), json.dumps(turned, indent=2))
    assert not same_json(json.dumps(props), json.dumps({**props, "zzzzz": 1}))


def test_a_state_that_could_not_be_written_whole_is_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = Stack(Folder(f"file://{tmp_path}"), "trial", "dev")
    crypter = Crypter.new("")
    stack.init()
    stack.save(Snapshot([thing(size=1)]), crypter)

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        stack.save(Snapshot([thing(size=2)]), crypter)
    assert stack.snapshot(crypter).resources[0].inputs == {"size": 1}


def test_of_two_that_want_a_stack_one_gets_it(tmp_path: Path) -> None:
    stack = Stack(Folder(f"file://{tmp_path}"), "trial", "dev")
    stack.init()
    with stack.locked():
        assert stack.is_locked()
        with pytest.raises(Refusal, match=r"currently locked by 1 lock\(s\)"), stack.locked():
            pass
        assert stack.is_locked()
    assert not stack.is_locked()
    with stack.locked():
        stack.cancel()
    assert not stack.is_locked()
