"""What a store for many processes must keep besides: processes that contend, fork and die.

The adapter's tests inherit `ProcessContract` and provide the fixture `store`, whose `url` another
process can open. This module is also the program that those processes run:

    python -m burst.core.testing.process_contract URL count TIMES
    python -m burst.core.testing.process_contract URL pairs
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from burst.core.model import MetricChunk, Trial
from burst.core.store import open_store
from burst.core.store.port import Append, AppendMetrics, Put, Store
from burst.core.testing import examples
from burst.core.testing.contention_contract import count_up
from burst.core.testing.examples import EXPERIMENT, TRIAL

PATIENCE_S = 60.0


class ProcessContract:
    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError("the adapter's tests provide the store")

    def test_another_process_opens_the_store_by_its_url(self, store: Store) -> None:
        store.commit(Put(examples.trial()))
        with _process(store.url, "count", "1") as process:
            assert process.wait(PATIENCE_S) == 0
        assert store.get(Trial, TRIAL).restarts == 1

    def test_processes_that_contend_lose_no_update(self, store: Store) -> None:
        store.commit(Put(examples.trial()))
        with (
            _process(store.url, "count", "50") as first,
            _process(store.url, "count", "50") as second,
            _process(store.url, "count", "50") as third,
            _process(store.url, "count", "50") as fourth,
        ):
            assert [p.wait(PATIENCE_S) for p in (first, second, third, fourth)] == [0] * 4
        assert store.get(Trial, TRIAL).restarts == 200

    def test_a_writer_killed_at_any_moment_leaves_whole_commits(self, store: Store) -> None:
        store.commit(Put(examples.trial(0)), Put(examples.trial(1)))
        for _ in range(4):
            reached = store.get(Trial, TRIAL).version
            with _process(store.url, "pairs") as process:
                _wait_for_version(store, reached + 20)
                process.send_signal(signal.SIGKILL)
                process.wait(PATIENCE_S)
            _check_pairs(store)
            _check_pairs(open_store(store.url))

    def test_parent_and_forked_child_both_go_on(self, store: Store) -> None:
        store.commit(Put(examples.trial()))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                count_up(store, 20)
                status = 0
            finally:
                os._exit(status)
        count_up(store, 20)
        assert os.waitpid(child, 0)[1] == 0
        assert store.get(Trial, TRIAL).restarts == 40


def _check_pairs(store: Store) -> None:
    """Every commit of `pairs` is there whole: two records, an event and a chunk."""
    first, second = store.children(Trial, EXPERIMENT)
    events = store.events(limit=100_000).events
    chunks: list[MetricChunk] = store.metrics(TRIAL)
    assert first.version == second.version
    assert len(events) == len(chunks) == first.version - 1


def _wait_for_version(store: Store, version: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while store.get(Trial, TRIAL).version < version:
        assert time.monotonic() < deadline, "the writer made no progress"
        time.sleep(0.002)


@contextmanager
def _process(url: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", __name__, url, *arguments])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _write_pairs(store: Store) -> None:
    while True:
        first, second = store.children(Trial, EXPERIMENT)
        store.commit(
            Put(first),
            Append(examples.event()),
            AppendMetrics(examples.chunk(first.version)),
            Put(second),
        )


def main(url: str, job: str, *arguments: str) -> None:
    store = open_store(url)
    if job == "count":
        count_up(store, int(arguments[0]))
    else:
        _write_pairs(store)


if __name__ == "__main__":
    main(*sys.argv[1:])
