"""An independent witness of what the network does to DynamoDB: microburst before ministack."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from burst.core.model import Trial
from burst.core.retrying import Retries
from burst.core.store import update
from burst.core.store.dynamodb.store import DynamoStore
from burst.core.store.port import Append, AppendMetrics, Fence, Put
from burst.core.testing import examples
from burst.core.testing.examples import TRIAL
from burst.core.testing.ministack import ENVIRON, free_url, ministack

pytestmark = pytest.mark.slow

_tables = itertools.count()
_HASTY = Retries(attempts=20, first_s=0.01, longest_s=0.1)

LOST = {"response": {"abort_bytes": 0}}
"""Done, and the connection cut before a byte of the answer."""
FAULTS: dict[str, dict[str, Any]] = {
    "lost answer": LOST,
    "half an answer": {"response": {"abort_frac": 0.5}},
    "cut answer that looks whole": {"response": {"truncate_frac": 0.5}},
    "damaged answer": {"response": {"corrupt_bytes": 4}},
    "reset": {"reset": True},
    "throughput": {"error": {"code": "ProvisionedThroughputExceededException", "status": 400}},
    "throttled": {"error": {"code": "ThrottlingException", "status": 400}},
    "in progress": {"error": {"code": "TransactionInProgressException", "status": 400}},
    "server error": {"error": {"code": "InternalServerError", "status": 500}},
    "unavailable": {"error": {"code": "ServiceUnavailable", "status": 503}},
}


class Microburst:
    def __init__(self, url: str) -> None:
        self.url = url

    def rule(self, *rules: dict[str, Any]) -> None:
        """From now on, these faults alone."""
        self._ask("POST", "rules", [{"service": "dynamodb", **rule} for rule in rules])

    def left(self) -> int:
        """How often the rules would still act."""
        return sum(rule["times"] - rule["fired_count"] for rule in self._ask("GET", "rules"))

    def fired(self) -> int:
        return sum(rule["fired_count"] for rule in self._ask("GET", "rules"))

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/_microburst/{path}",
            json.dumps(body).encode() if body is not None else None,
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Microburst]]:
    folder = tmp_path_factory.mktemp("microburst")
    here = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    program = shutil.which("microburst", path=here)
    if program is None:
        raise FileNotFoundError("there is no `microburst`: install it from PyPI")
    with ministack(folder / "ministack") as upstream, (folder / "log").open("wb") as log:
        url = free_url()
        command = [program, "--upstream", upstream, "--host", "127.0.0.1"]
        command += ["--port", url.rpartition(":")[2]]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            proxy = Microburst(url)
            _wait_for(proxy, process)
            yield upstream, proxy
        finally:
            process.kill()
            process.wait()


def _wait_for(proxy: Microburst, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            proxy.rule()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


@pytest.fixture
def store(
    server: tuple[str, Microburst], monkeypatch: pytest.MonkeyPatch
) -> Iterator[DynamoStore]:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    upstream, proxy = server
    proxy.rule()
    table = f"dynamodb://burst-{next(_tables)}?endpoint_url="
    with closing(DynamoStore(table + upstream)) as direct:
        direct.table.create()
    with closing(DynamoStore(table + proxy.url, _HASTY)) as store:
        yield store


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("operation", ["TransactWriteItems", "GetItem", "Query", "BatchGetItem"])
def test_whatever_it_does_to_requests_a_commit_happens_once_and_reads_are_whole(
    store: DynamoStore, server: tuple[str, Microburst], operation: str, name: str
) -> None:
    _, proxy = server
    store.commit(Put(examples.trial(token=1)))
    proxy.rule({"operation": operation, "times": 2, **FAULTS[name]})
    store.commit(Append(examples.event("a")), Fence(TRIAL, 1), AppendMetrics(examples.chunk(0)))
    store.commit(Put(examples.trial(version=1, token=2)), Append(examples.event("b")))
    assert [trial.version for trial in store.live(Trial)] == [2]
    assert [event.name for event in store.events().events] == ["a", "b"]
    assert store.get(Trial, TRIAL).token == 2
    assert store.metrics(TRIAL) == [examples.chunk(0)]
    assert proxy.left() == 0


def test_sixteen_writers_whose_answers_are_lost_count_right(
    store: DynamoStore, server: tuple[str, Microburst]
) -> None:
    _, proxy = server
    store.commit(Put(examples.trial()))
    proxy.rule({"operation": "TransactWriteItems", "probability": 0.2, "times": 1000, **LOST})

    def count(worker: int) -> None:
        with closing(DynamoStore(store.url, _HASTY)) as own:
            for number in range(4):
                said = Append(examples.event(f"{worker}.{number}"))
                update(own, Trial, TRIAL, partial(_counted, said), attempts=1000)

    threads = [threading.Thread(target=count, args=(worker,)) for worker in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert proxy.fired() > 5
    proxy.rule()
    assert store.get(Trial, TRIAL).restarts == 64
    names = [event.name for event in store.events().events]
    assert sorted(names) == sorted(f"{w}.{n}" for w in range(16) for n in range(4))


def _counted(said: Append, trial: Trial) -> tuple[Put, Append]:
    return Put(trial.model_copy(update={"restarts": trial.restarts + 1})), said
