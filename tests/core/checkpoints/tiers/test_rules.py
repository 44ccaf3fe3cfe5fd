"""What goes where, what is dropped: decisions about tiers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.checkpoints.removal.delete import restorable
from burst.core.checkpoints.tiers.rules import is_due, is_leftover, outlives, surplus
from burst.core.launch import Tier
from burst.core.length import Length
from burst.core.model import Checkpoint, Copy, Lengths
from burst.core.testing.examples import checkpoint

LOCAL = Tier(url="file:///local", shared=False, keep=2)
SHARED = Tier(url="file:///shared", keep=2)
S3 = Tier(url="s3://b")


def every(text: str) -> Tier:
    return Tier(url="s3://b", every=Length.model_validate(text))


@pytest.mark.parametrize(
    ("text", "done", "copied", "due"),
    [
        ("100ba", Lengths(batches=200), Lengths(batches=100), True),
        ("100ba", Lengths(batches=199), Lengths(batches=100), False),
        ("100ba", Lengths(batches=1), None, True),
        ("0.1ep", Lengths(epochs=0.1 * 3), Lengths(epochs=0.2), True),
        ("1ep", Lengths(epochs=2.9), Lengths(epochs=2.0), False),
        ("640rec", Lengths(records=1280), Lengths(records=640), True),
        ("1h", Lengths(seconds=7199), Lengths(seconds=3600), False),
        ("1h", Lengths(seconds=7200), Lengths(seconds=3600), True),
    ],
)
def test_a_checkpoint_goes_to_a_tier_once_its_length_has_passed(
    text: str, done: Lengths, copied: Lengths | None, due: bool
) -> None:
    assert is_due(every(text), done, copied) is due


def test_without_a_length_every_checkpoint_goes_there() -> None:
    assert is_due(S3, Lengths(batches=1), Lengths(batches=1))


def test_what_must_outlive_the_node_goes_to_shared_tiers_alone_before_its_time() -> None:
    now = Lengths(batches=100)
    slow = Tier(url="file:///b", shared=False, every=Length.model_validate("50ba"))
    assert is_due(every("50ba"), now, now, forced=True)
    assert not is_due(slow, now, now, forced=True)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 60))
def test_two_that_go_to_a_tier_are_never_nearer_than_its_length(steps: list[int], n: int) -> None:
    tier = every(f"{n}ba")
    copied: Lengths | None = None
    at, went = 0, []
    for step in steps:
        at += step
        if is_due(tier, Lengths(batches=at), copied):
            copied = Lengths(batches=at)
            went.append(at)
    assert all(later - one >= n for one, later in itertools.pairwise(went))
    assert at - went[-1] < n


# --- what is dropped -----------------------------------------------------------------------------

IDS = [f"ckpt-{n:011d}" for n in range(8)]


@st.composite
def histories(draw: st.DrawFn) -> list[Checkpoint]:
    records = []
    attempt = 1
    for number, id in enumerate(IDS[: draw(st.integers(1, 8))]):
        attempt += draw(st.integers(0, 1))
        places = draw(st.sets(st.sampled_from([LOCAL.url, SHARED.url, S3.url]), min_size=1))
        copies = [
            Copy(url=url, at=1.0, node="node-1" if url == LOCAL.url else "")
            for url in (LOCAL.url, SHARED.url, S3.url)
            if url in places
        ]
        records.append(
            checkpoint(
                id=id,
                attempt=attempt,
                batches=10 * number + draw(st.integers(-15, 0)) + 20,
                copies=tuple(copies),
                url=copies[-1].url,
                pinned=draw(st.booleans()),
                metrics={"loss": 1.0} if draw(st.booleans()) else {},
                deleted=draw(st.sampled_from([None, None, None, 1.0])),
                damaged=draw(st.sampled_from(["", "", "", "rot"])),
            )
        )
    return records


def held_in(tier: Tier, records: list[Checkpoint]) -> set[str]:
    return {r.id for r in records if any(copy.url == tier.url for copy in r.copies)}


@given(histories(), st.sampled_from([LOCAL, SHARED]), st.integers(1, 4))
def test_whatever_is_dropped_something_as_good_stays(
    records: list[Checkpoint], of: Tier, keep: int
) -> None:
    tier = of.model_copy(update={"keep": keep})
    held = held_in(tier, records)
    gone = surplus(records, held, tier)
    ids = {record.id for record in gone}
    assert ids <= held
    newest = [record.id for record in restorable(records) if record.id in held]
    assert ids.isdisjoint(newest[:keep])
    for record in gone:
        if not outlives(record, apart=tier.url):
            needed = (record.durable, record.pinned, record.metrics, tier.shared)
            assert not any(needed)
    assert not any(record.deleted is not None or record.damaged for record in gone)
    kept = [id for id in newest if id not in ids]
    spare = [r for r in records if r.id in kept[keep:]]
    assert not any(outlives(record, apart=tier.url) for record in spare)


@given(histories())
def test_a_tier_without_measure_drops_nothing(records: list[Checkpoint]) -> None:
    assert surplus(records, held_in(S3, records), S3) == []


@given(histories(), st.booleans(), st.sets(st.sampled_from(IDS)))
def test_a_leftover_never_holds_the_only_copy_of_the_newest(
    records: list[Checkpoint], over: bool, held: set[str]
) -> None:
    good = restorable(records)
    if is_leftover(over, records, held) and (here := [r for r in good if r.id in held]):
        safe = [record for record in good if record.durable]
        assert max(record.batches for record in safe) >= here[0].batches


def test_leftovers_are_of_trials_that_are_over_or_have_gone_on_elsewhere() -> None:
    local = Copy(url=LOCAL.url, at=1.0, node="node-1")
    lasting = Copy(url=S3.url, at=1.0)
    old = checkpoint(id=IDS[0], batches=10, copies=(local, lasting))
    new = checkpoint(id=IDS[1], batches=20, copies=(lasting,))
    mine = checkpoint(id=IDS[2], batches=30, copies=(local,))
    assert is_leftover(True, [old], {IDS[0]})
    assert not is_leftover(False, [old], {IDS[0]})
    assert is_leftover(False, [old, new], {IDS[0]})
    assert not is_leftover(True, [old, new, mine], {IDS[0], IDS[2]})
    assert is_leftover(True, [old], set())
