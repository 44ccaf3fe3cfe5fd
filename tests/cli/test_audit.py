"""`burst audit`: all that is tagged, who answers for it, and a status that says whether all is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from burst.core.clock import ManualClock
from burst.core.retrying import Retries
from burst.core.store.dynamodb.store import DynamoStore
from burst.core.store.port import Put
from burst.core.testing import examples
from burst.core.testing.ministack import ENVIRON, free_url
from burst.runner.audit import GRACE_S
from burst.runner.pools.fake import FakePool
from burst.runner.pools.port import Leftover
from tests.cli.conftest import Burst


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> FakePool:
    """A cloud with one machine of each sort, in the place of the cluster's only pool."""
    clock = ManualClock()
    made = FakePool("local", clock, costs=True, max_nodes=4)
    monkeypatch.setattr("burst.runner.pools.open_pools", lambda ws: {"local": made})
    return made


def test_a_cluster_without_paid_pools_has_nothing_to_audit(burst: Burst) -> None:
    assert "nothing to look for" in burst("audit").stdout
    assert burst.json("audit") == []


def test_all_that_is_answered_for_is_clean(burst: Burst, pool: FakePool) -> None:
    assert "✔ nothing carries the cluster's tags" in burst("audit").stdout
    node = examples.node(pool="local", gone=None, handle={"instance": "i-1"})
    burst.store.commit(Put(node))
    pool.make("i-1", node.launch)
    text = burst("audit").stdout
    assert "1 thing, all explained" in text
    assert node.id in text
    (row,) = burst.json("audit")
    assert (row["id"], row["owner"], row["verdict"]) == ("i-1", node.id, "owned")


def test_what_nobody_answers_for_is_named_and_the_status_says_so(
    burst: Burst, pool: FakePool
) -> None:
    pool.make("i-stray", "launch-gone")
    pool._clock.sleep(GRACE_S)
    pool.left = [Leftover("volume", "vol-1", 1e4)]
    text = burst("audit", status=1).stdout
    assert "2 things not explained" in text
    for word in ("i-stray", "vol-1", "it is ended", "it is deleted"):
        assert word in text
    rows = json.loads(burst("audit", "--json", status=1).stdout)
    assert {row["verdict"] for row in rows} == {"stray"}
    assert pool.alive == ["i-stray"], "an audit changes nothing"


def test_a_table_that_does_not_answer_hides_no_machine(
    burst: Burst, pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://lab?endpoint_url={free_url()}"
    before = burst.session.workspace
    burst.session.workspace = replace(before, store=DynamoStore(url, Retries(attempts=1)))
    pool.make("i-1", "launch-1")
    text = burst("audit", status=1, COLUMNS="80").stdout
    assert "2 things not explained" in text
    for word in ("i-1", "DynamoDB did not answer for table lab"):
        assert word in " ".join(text.split())
    table, machine = json.loads(burst("audit", "--json", status=1).stdout)
    assert (table["kind"], table["id"], table["verdict"]) == ("store", url, "unknown")
    assert (machine["id"], machine["owner"], machine["verdict"]) == ("i-1", None, "unknown")
    burst.session.store.close()
    burst.session.workspace = before
