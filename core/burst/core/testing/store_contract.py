"""What every store must keep. An adapter's tests inherit this and provide the fixture `store`.

    class TestSqliteStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path): ...

An adapter for many processes also inherits `burst.core.testing.process_contract`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from burst.core.errors import Conflict, Fenced, NotFound, UsageError
from burst.core.model import (
    Allocation,
    Experiment,
    Failure,
    MetricPoint,
    MetricRow,
    Node,
    Trial,
)
from burst.core.states import AllocationState, Reason, TrialState, advance
from burst.core.store import event_of
from burst.core.store.port import (
    MAX_RECORD_BYTES,
    MAX_WRITES,
    Append,
    AppendMetrics,
    Delete,
    Fence,
    Put,
    Store,
)
from burst.core.testing import examples
from burst.core.testing.contention_contract import ContentionContract
from burst.core.testing.examples import EXPERIMENT, NOW, TRIAL

OTHER = "exp-1m3k9zq4w7d"


class RecordContract:
    """Records: one at a time, under their versions."""

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError("the adapter's tests provide the store")

    def test_every_kind_of_record_comes_back_as_it_was_put(self, store: Store) -> None:
        for record in examples.records():
            store.commit(Put(record))
            assert store.get(type(record), record.id) == record.model_copy(update={"version": 1})

    def test_a_record_that_is_not_there_is_none_or_not_found(self, store: Store) -> None:
        assert store.find(Trial, TRIAL) is None
        with pytest.raises(NotFound, match=TRIAL):
            store.get(Trial, TRIAL)

    def test_kinds_do_not_share_ids(self, store: Store) -> None:
        store.commit(Put(examples.node()), Put(examples.lease()))
        assert store.find(Trial, examples.node().id) is None
        assert store.get(Node, examples.node().id).pool == "local"

    def test_each_write_counts_the_version_up(self, store: Store) -> None:
        for version in range(4):
            store.commit(Put(examples.trial(version=version, token=version)))
            assert store.get(Trial, TRIAL).version == version + 1

    def test_a_record_is_created_only_if_it_is_absent(self, store: Store) -> None:
        store.commit(Put(examples.trial(seed=1)))
        with pytest.raises(Conflict, match="exists already"):
            store.commit(Put(examples.trial(seed=2)))
        assert store.get(Trial, TRIAL).seed == 1

    @pytest.mark.parametrize("version", [1, 3, 7])
    def test_a_write_of_another_version_is_refused(self, store: Store, version: int) -> None:
        store.commit(Put(examples.trial()))
        store.commit(Put(examples.trial(version=1, seed=1)))
        with pytest.raises(Conflict, match="has changed"):
            store.commit(Put(examples.trial(version=version, seed=2)))
        assert store.get(Trial, TRIAL).seed == 1

    def test_a_write_of_a_record_that_is_gone_is_refused(self, store: Store) -> None:
        with pytest.raises(Conflict, match="is gone"):
            store.commit(Put(examples.trial(version=1)))
        assert store.find(Trial, TRIAL) is None

    def test_a_delete_names_the_version_too(self, store: Store) -> None:
        store.commit(Put(examples.trial()))
        for version in (0, 2):
            with pytest.raises(Conflict):
                store.commit(Delete(examples.trial(version=version)))
        store.commit(Delete(store.get(Trial, TRIAL)))
        assert store.find(Trial, TRIAL) is None
        assert store.children(Trial, EXPERIMENT) == store.live(Trial) == []
        with pytest.raises(Conflict):
            store.commit(Delete(examples.trial(version=1)))

    def test_a_deleted_record_may_be_created_again(self, store: Store) -> None:
        store.commit(Put(examples.trial()))
        store.commit(Delete(store.get(Trial, TRIAL)))
        store.commit(Put(examples.trial(seed=7)))
        assert store.get(Trial, TRIAL).seed == 7

    def test_what_was_read_does_not_change_under_the_reader(self, store: Store) -> None:
        search = {"left": [1, 2]}
        store.commit(Put(examples.experiment(search=search)))
        search["left"].append(3)
        read = store.get(Experiment, EXPERIMENT)
        assert read.search == {"left": [1, 2]}
        read.search["left"].append(4)
        assert store.get(Experiment, EXPERIMENT).search == {"left": [1, 2]}

    def test_not_a_number_and_infinities_survive(self, store: Store) -> None:
        metrics = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 5e-324, "e": -0.0}
        point = MetricPoint(batches=1, metrics=metrics, at=NOW)
        store.commit(
            Put(examples.trial(latest={"validation": point})),
            AppendMetrics(
                examples.chunk(rows=(MetricRow(batches=1, at=NOW, metrics=metrics),)),
            ),
        )
        (chunk,) = store.metrics(TRIAL)
        read = store.get(Trial, TRIAL).latest["validation"].metrics
        assert repr(read) == repr(chunk.rows[0].metrics) == repr(metrics)

    def test_any_text_survives(self, store: Store) -> None:
        text = "naïve \u2028 \U0001f525 \0 \x1b[31m 'quoted' \\ \r\n"
        store.commit(Put(examples.trial(failure=Failure(message=text))), _said(text))
        failure = store.get(Trial, TRIAL).failure
        assert failure is not None
        assert failure.message == text == store.events().events[0].text

    def test_text_that_is_not_unicode_is_kept_as_escapes(self, store: Store) -> None:
        text = b"no such file: \xe9t\xe9.txt".decode("utf-8", "surrogateescape")
        store.commit(Put(examples.trial(failure=Failure(message=text))), _said(text))
        failure = store.get(Trial, TRIAL).failure
        assert failure is not None
        assert failure.message == "no such file: \\udce9t\\udce9.txt"
        assert store.events().events[0].text == failure.message

    def test_a_misspelt_field_is_refused_and_not_dropped(self, store: Store) -> None:
        with pytest.raises(ValueError, match="tokn"):
            store.commit(Put(examples.trial().model_copy(update={"tokn": 1})))
        with pytest.raises(ValueError, match="pools"):
            store.commit(Put(examples.trial().model_copy(update={"pools": "local"})))
        assert store.find(Trial, TRIAL) is None

    def test_a_record_may_be_large_but_not_too_large(self, store: Store) -> None:
        store.commit(Put(examples.experiment(source="x" * (MAX_RECORD_BYTES - 2000))))
        large = examples.experiment(id=OTHER, source="x" * MAX_RECORD_BYTES)
        with pytest.raises(ValueError, match=f"the most is {MAX_RECORD_BYTES}"):
            store.commit(Put(large), Put(examples.trial()))
        assert store.find(Trial, TRIAL) is None

    def test_many_are_found_by_id_and_what_is_not_there_is_left_out(self, store: Store) -> None:
        nodes = [f"node-1m3k9zq4w{number:02d}" for number in range(110)]
        for first in (0, 55):
            store.commit(*(Put(examples.node(id=id)) for id in nodes[first : first + 55]))
        store.commit(Put(examples.allocation()), Put(examples.trial()))
        wanted = [*nodes, nodes[0], "node-1m3k9zq4wzz"]
        found = store.find_many(Node, wanted)
        assert found == {id: store.get(Node, id) for id in nodes}
        one = examples.allocation().id
        assert store.find_many(Allocation, [one, "alloc-1m3k9zq4wzz"]) == {
            one: store.get(Allocation, one)
        }
        assert store.find_many(Trial, iter([TRIAL])) == {TRIAL: store.get(Trial, TRIAL)}
        assert store.find_many(Trial, []) == {}
        assert store.find_many(Node, [TRIAL]) == {}


class CommitContract:
    """Commits: several writes, all or none, under fences."""

    def test_a_commit_of_nothing_is_nothing(self, store: Store) -> None:
        store.commit()
        assert store.events().events == ()

    @pytest.mark.parametrize("place", [0, 1, 2, 3])
    def test_one_conflict_undoes_the_whole_commit(self, store: Store, place: int) -> None:
        store.commit(Put(examples.node()))
        writes: list[Put | Delete | Append | AppendMetrics] = [
            Put(examples.trial()),
            Append(examples.event()),
            AppendMetrics(examples.chunk()),
        ]
        writes.insert(place, Put(examples.node(version=9)))
        with pytest.raises(Conflict, match="node"):
            store.commit(*writes)
        assert store.find(Trial, TRIAL) is None
        assert store.events().events == ()
        assert store.metrics(TRIAL) == []
        assert store.get(Node, examples.node().id).version == 1

    def test_a_fence_holds_for_the_trials_own_token_only(self, store: Store) -> None:
        store.commit(Put(examples.trial(token=5)))
        store.commit(Fence(TRIAL, 5), Append(examples.event("kept")))
        for token in (0, 4, 6):
            with pytest.raises(Fenced, match=TRIAL):
                store.commit(Fence(TRIAL, token), Append(examples.event("refused")))
        assert [event.name for event in store.events().events] == ["kept"]

    def test_a_fence_of_a_trial_that_is_gone_is_closed(self, store: Store) -> None:
        with pytest.raises(Fenced, match="gone"):
            store.commit(Fence(TRIAL, 0), Append(examples.event()))
        assert store.events().events == ()

    def test_a_fence_is_checked_before_versions(self, store: Store) -> None:
        store.commit(Put(examples.trial(token=5)))
        with pytest.raises(Fenced):
            store.commit(Put(examples.trial(version=8)), Fence(TRIAL, 4))

    def test_a_fence_compares_with_what_is_stored_not_with_what_is_put(self, store: Store) -> None:
        store.commit(Put(examples.trial(token=5)))
        store.commit(Put(examples.trial(version=1, token=6)), Fence(TRIAL, 5))
        assert store.get(Trial, TRIAL).token == 6
        with pytest.raises(Fenced):
            store.commit(Fence(TRIAL, 5), Put(examples.trial(version=2, token=7)))
        assert store.get(Trial, TRIAL).token == 6

    def test_one_fence_of_many_closes_the_commit(self, store: Store) -> None:
        store.commit(Put(examples.trial(token=1)), Put(examples.trial(1, token=1)))
        other = examples.trial(1).id
        store.commit(Fence(TRIAL, 1), Fence(other, 1), Append(examples.event()))
        with pytest.raises(Fenced, match=other):
            store.commit(Fence(TRIAL, 1), Fence(other, 2), Append(examples.event()))
        assert len(store.events().events) == 1

    def test_a_commit_takes_so_many_writes_and_no_more(self, store: Store) -> None:
        store.commit(*(Put(examples.trial(number)) for number in range(MAX_WRITES)))
        assert len(store.children(Trial, EXPERIMENT)) == MAX_WRITES
        with pytest.raises(ValueError, match=str(MAX_WRITES)):
            store.commit(*(Append(examples.event()) for _ in range(MAX_WRITES + 1)))
        assert store.events().events == ()

    def test_two_writes_of_one_record_are_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="two writes"):
            store.commit(Put(examples.trial()), Put(examples.trial(version=1)))
        assert store.find(Trial, TRIAL) is None

    def test_a_metric_chunk_written_twice_is_there_once(self, store: Store) -> None:
        for _ in range(2):
            store.commit(AppendMetrics(examples.chunk(0)), AppendMetrics(examples.chunk(1)))
        rows = (MetricRow(batches=9, at=NOW, metrics={"loss": 9.0}),)
        store.commit(AppendMetrics(examples.chunk(0, rows=rows)))
        assert store.metrics(TRIAL) == [examples.chunk(0), examples.chunk(1)]

    def test_metric_chunks_come_by_group_attempt_and_sequence(self, store: Store) -> None:
        keys = [(g, a, s) for g in ("a", "training") for a in (1, 2, 10) for s in (0, 1, 10)]
        for group, attempt, seq in random.Random(1).sample(keys, len(keys)):
            store.commit(AppendMetrics(examples.chunk(seq, group=group, attempt=attempt)))
        store.commit(AppendMetrics(examples.chunk(trial=examples.trial(1).id)))
        assert [(c.group, c.attempt, c.seq) for c in store.metrics(TRIAL)] == keys
        assert [c.group for c in store.metrics(TRIAL, "a")] == ["a"] * 9
        assert store.metrics(TRIAL, "validation") == []

    def test_a_metric_chunk_is_bounded_too(self, store: Store) -> None:
        noise = random.Random(1)
        metrics = {f"m{index}": noise.random() for index in range(60_000)}
        rows = (MetricRow(batches=1, at=NOW, metrics=metrics),)
        with pytest.raises(ValueError, match="metric chunk"):
            store.commit(AppendMetrics(examples.chunk(rows=rows)))


class ListingContract:
    """Children, live records and events."""

    def test_children_come_by_id_and_under_their_parent_only(self, store: Store) -> None:
        for number in (2, 0, 11, 1):
            store.commit(Put(examples.trial(number)))
        store.commit(Put(examples.trial(5, experiment=OTHER)), Put(examples.experiment()))
        assert _numbers(store.children(Trial, EXPERIMENT)) == [0, 1, 2, 11]
        assert _numbers(store.children(Trial, OTHER)) == [5]
        assert store.children(Trial, "") == []
        assert [found.id for found in store.children(Experiment, "")] == [EXPERIMENT]

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_children_come_in_pages(self, store: Store, newest_first: bool) -> None:
        store.commit(*(Put(examples.trial(number)) for number in range(7)))
        pages, after = [], ""
        while page := store.children(
            Trial, EXPERIMENT, after=after, limit=3, newest_first=newest_first
        ):
            pages.append(_numbers(page))
            after = page[-1].id
        expected = [[0, 1, 2], [3, 4, 5], [6]]
        assert pages == ([[6, 5, 4], [3, 2, 1], [0]] if newest_first else expected)

    def test_a_page_may_begin_beyond_an_id_that_is_not_there(self, store: Store) -> None:
        store.commit(*(Put(examples.trial(number)) for number in (0, 2, 4)))
        after = examples.trial(3).id
        assert _numbers(store.children(Trial, EXPERIMENT, after=after)) == [4]
        found = store.children(Trial, EXPERIMENT, after=after, newest_first=True)
        assert _numbers(found) == [2, 0]

    def test_live_records_come_by_id_and_of_their_pool(self, store: Store) -> None:
        ids = [f"node-1m3k9zq4w7{digit}" for digit in "cdef"]
        for id, pool in zip(reversed(ids), ("a", "b", "a", "b"), strict=True):
            store.commit(Put(examples.node(id=id, pool=pool)))
        assert [node.id for node in store.live(Node)] == ids
        assert [node.id for node in store.live(Node, "a")] == [ids[1], ids[3]]
        assert store.live(Node, "c") == []
        assert store.live(Trial) == []

    def test_live_follows_each_transition(self, store: Store) -> None:
        store.commit(Put(examples.trial()))
        expected = {
            TrialState.RUNNING: True,
            TrialState.PAUSED: False,
            TrialState.WAITING: True,
            TrialState.CANCELLED: False,
        }
        assert _numbers(store.live(Trial)) == [0]
        for state, live in expected.items():
            changed, transition = advance(store.get(Trial, TRIAL), state, Reason(code="test"), NOW)
            store.commit(Put(changed), Append(event_of(transition, EXPERIMENT)))
            assert bool(store.live(Trial)) is live
            assert store.get(Trial, TRIAL).state is state
        names = [event.name for event in store.events().events]
        assert names == ["trial.running", "trial.paused", "trial.waiting", "trial.cancelled"]

    def test_live_follows_a_change_of_pool(self, store: Store) -> None:
        store.commit(Put(examples.allocation(pool="a")))
        store.commit(Put(examples.allocation(version=1, pool="b")))
        assert store.live(Allocation, "a") == []
        assert [found.pool for found in store.live(Allocation, "b")] == ["b"]
        released = examples.allocation(version=2, pool="b", state=AllocationState.RELEASED)
        store.commit(Put(released))
        assert store.live(Allocation) == []
        assert [found.id for found in store.children(Allocation, TRIAL)] == [released.id]

    def test_events_come_in_the_order_of_their_commits(self, store: Store) -> None:
        store.commit(Append(examples.event("a", at=3.0)), Append(examples.event("b", at=1.0)))
        store.commit(Append(examples.event("c", at=2.0)))
        assert _names(store.events().events) == "abc"

    def test_events_go_on_from_a_cursor(self, store: Store) -> None:
        start = store.newest_cursor()
        cursors = [start]
        for name in "abcdefg":
            store.commit(Append(examples.event(name)))
            cursors.append(store.newest_cursor())
        assert cursors == sorted(set(cursors))
        for place, cursor in enumerate(cursors):
            page = store.events(cursor)
            assert _names(page.events) == "abcdefg"[place:]
            assert page.cursor == cursors[-1]
        names, cursor = "", ""
        while (page := store.events(cursor, limit=3)).events:
            names, cursor = names + _names(page.events), page.cursor
        assert names == "abcdefg"
        assert store.events(page.cursor).cursor == page.cursor == cursors[-1]

    def test_events_of_one_experiment_leave_out_the_others(self, store: Store) -> None:
        for name, of in zip("abcde", (EXPERIMENT, OTHER, "", EXPERIMENT, OTHER), strict=True):
            store.commit(Append(examples.event(name, experiment=of)))
        first = store.events(experiment=EXPERIMENT, limit=1)
        assert _names(first.events) == "a"
        assert _names(store.events(first.cursor, experiment=EXPERIMENT).events) == "d"
        assert _names(store.events(first.cursor).events) == "bcde"
        assert store.events(experiment="exp-1m3k9zq4w7e").events == ()

    def test_a_cursor_that_no_store_gave_out_is_refused(self, store: Store) -> None:
        for cursor in ("x", "1", "-1", "9" * 30):
            with pytest.raises(UsageError, match="cursor"):
                store.events(cursor)


class StoreContract(RecordContract, CommitContract, ListingContract, ContentionContract):
    """All of it."""


def _said(text: str) -> Append:
    return Append(examples.event(text=text))


def _numbers(trials: Sequence[Trial]) -> list[int]:
    return [trial.number for trial in trials]


def _names(events: Sequence[object]) -> str:
    return "".join(str(getattr(event, "name", "")) for event in events)
