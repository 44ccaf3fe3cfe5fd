"""The DynamoDB store keeps the whole contract on two servers, and what only a network breaks."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import (
    Conflict,
    ExitCode,
    NoStore,
    NotFound,
    Refused,
    Unauthorized,
    Unreachable,
    UsageError,
)
from burst.core.model import Allocation, Experiment, Lease, Node, Trial
from burst.core.retrying import Retries, patience
from burst.core.store.dynamodb import table as table_module
from burst.core.store.dynamodb.items import NEW_FOR_S, event_key, key_of, keyed
from burst.core.store.dynamodb.plan import plan
from burst.core.store.dynamodb.store import DynamoStore
from burst.core.store.dynamodb.table import TableUrl
from burst.core.store.port import Append, AppendMetrics, Delete, Fence, Put
from burst.core.testing import examples
from burst.core.testing.examples import EXPERIMENT, TRIAL
from burst.core.testing.fault_proxy import FaultProxy, Spoil, fault_proxy
from burst.core.testing.ministack import ENVIRON, ministack
from burst.core.testing.process_contract import ProcessContract
from burst.core.testing.store_contract import StoreContract
from tests.core.store.mock_dynamodb import mock_dynamodb

_tables = itertools.count()
_HASTY = Retries(attempts=4, sleep=lambda _: None)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("ministack") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    with mock_dynamodb() as url:
        yield url


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


def made(server: str, retries: Retries = _HASTY) -> DynamoStore:
    """A store in a new table."""
    name = f"burst-{os.getpid()}-{next(_tables)}"
    store = DynamoStore(f"dynamodb://{name}?endpoint_url={server}", retries)
    store.table.create()
    return store


@pytest.fixture
def store(real: str) -> Iterator[DynamoStore]:
    with closing(made(real)) as store:
        yield store


class TestDynamoStore(StoreContract, ProcessContract):
    @pytest.fixture
    def store(self, real: str) -> Iterator[DynamoStore]:
        with closing(made(real)) as store:
            yield store


class TestDynamoStoreOnAnotherServer(StoreContract):
    @pytest.fixture
    def store(self, other: str) -> Iterator[DynamoStore]:
        with closing(made(other)) as store:
            yield store


# --- the network -------------------------------------------------------------------------------


@pytest.fixture(params=["real", "other"])
def proxy(request: pytest.FixtureRequest) -> Iterator[FaultProxy]:
    with fault_proxy(request.getfixturevalue(request.param)) as proxy:
        yield proxy


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "spoil",
    [
        Spoil.LOST,
        Spoil.RESET,
        Spoil.ERROR,
        Spoil.THROTTLED,
        Spoil.TOO_MANY,
        Spoil.TRUNCATED,
        Spoil.ABORTED,
        Spoil.CORRUPTED,
    ],
    ids=lambda spoil: spoil.name,
)
def test_whatever_happens_to_a_request_a_commit_happens_once(
    proxy: FaultProxy, spoil: Spoil, place: int
) -> None:
    """Of each commit the second has to count events; the others are one request."""
    with closing(made(proxy.url)) as store:
        store.commit(Put(examples.trial(token=1)))
        proxy.spoils += [("POST", Spoil.NOTHING)] * place + [("POST", spoil)]
        store.commit(Append(examples.event("a")), Fence(TRIAL, 1))
        store.commit(Put(examples.trial(version=1, token=2)), Append(examples.event("b")))
        store.commit(AppendMetrics(examples.chunk(0)), Fence(TRIAL, 2))
        assert proxy.spoils == []
        assert [event.name for event in store.events().events] == ["a", "b"]
        assert store.get(Trial, TRIAL).version == 2
        assert store.metrics(TRIAL) == [examples.chunk(0)]


def test_a_server_that_stays_silent_is_unreachable(proxy: FaultProxy) -> None:
    with closing(made(proxy.url)) as store:
        proxy.spoils += [("POST", Spoil.THROTTLED)] * 4
        with pytest.raises(Unreachable, match="did not answer") as caught:
            store.get(Trial, TRIAL)
        assert "ThrottlingException" in caught.value.why


def test_silence_is_given_up_in_a_time_that_the_caller_can_bound(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "_SILENCE_S", 0.2)
    with closing(made(proxy.url)) as store:
        for use in (
            lambda: store.commit(Put(examples.lease()), Append(examples.event())),
            lambda: store.find(Trial, TRIAL),
            lambda: store.live(Trial),
        ):
            proxy.spoils += [("POST", Spoil.SILENCE)]
            began = time.monotonic()
            with patience(0.1), pytest.raises(Unreachable, match="did not answer"):
                use()
            assert time.monotonic() - began < 10
        assert store.live(Trial) == []


def test_an_agent_hears_that_there_is_no_answer_before_it_renews_again() -> None:
    length = Lease(id="node-1m3k9zq4w7c").length
    patient, one = length / 6, max(table_module._CONNECT_S, table_module._SILENCE_S)
    assert patient + one <= length / 3


def test_credentials_that_expired_are_looked_for_anew(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    client: Callable[..., Any] = table_module._client

    def counting(where: TableUrl) -> Any:
        asked.append(where)
        return client(where)

    monkeypatch.setattr(table_module, "_client", counting)
    with closing(made(proxy.url)) as store:
        store.commit(Put(examples.trial()))
        proxy.spoils += [("POST", Spoil.EXPIRED)]
        assert store.get(Trial, TRIAL).version == 1
        assert len(asked) == 2
        proxy.spoils += [("POST", Spoil.EXPIRED)] * 2
        with pytest.raises(Unauthorized, match="does not accept the AWS credentials") as caught:
            store.get(Trial, TRIAL)
        assert "aws sso login" in caught.value.mend


def test_no_credentials_are_told_with_a_mend(
    real: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with (
        closing(DynamoStore(f"dynamodb://nowhere?endpoint_url={real}", _HASTY)) as store,
        pytest.raises(Unauthorized, match="no AWS credentials"),
    ):
        store.find(Trial, TRIAL)


def test_a_region_that_nobody_told_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(Refused, match="which region") as caught:
        DynamoStore("dynamodb://nowhere", _HASTY).find(Trial, TRIAL)
    assert "?region=" in caught.value.mend


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"])
def test_the_environment_names_the_server_and_the_region(
    real: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_REGION", "eu-west-2")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, real)
    with closing(DynamoStore(f"dynamodb://burst-{os.getpid()}-{next(_tables)}", _HASTY)) as store:
        store.table.create()
        store.commit(Put(examples.trial()))
        described = store.table.call(
            lambda client: client.describe_table(TableName=store.table.where.name)
        )
        assert ":eu-west-2:" in described["Table"]["TableArn"]


def test_a_table_that_is_not_there_is_named(real: str) -> None:
    with (
        closing(DynamoStore(f"dynamodb://nowhere?endpoint_url={real}", _HASTY)) as store,
        pytest.raises(NoStore, match="there is no table nowhere") as caught,
    ):
        store.commit(Put(examples.trial()))
    assert "burst up" in caught.value.mend
    assert caught.value.exit_code is ExitCode.NOT_FOUND
    assert not isinstance(caught.value, NotFound), "a record that is not there is another thing"


@pytest.mark.parametrize("url", ["dynamodb://", "dynamodb://a/b", "dynamodb://a?zone=x"])
def test_a_url_that_names_no_table_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="dynamodb://"):
        DynamoStore(url)


# --- the table ---------------------------------------------------------------------------------


def test_lists_of_more_than_one_page_are_whole(store: DynamoStore) -> None:
    for number in range(5):  # a page is 1 MB
        id = f"exp-1m3k9zq4w7{number}"
        store.commit(Put(examples.experiment(id=id, source="x" * 300_000)))
    assert [found.id[-1] for found in store.children(Experiment, "")] == list("01234")
    found = store.children(Experiment, "", limit=4, newest_first=True)
    assert [each.id[-1] for each in found] == list("4321")
    assert [found.id[-1] for found in store.live(Experiment)] == list("01234")


def test_every_list_is_whole_however_small_the_servers_pages_are(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, many = table_module._query, table_module.Table._get_some
    pages = []

    def small_page(asked: Mapping[str, Any], client: Any) -> Any:
        pages.append(page({**asked, "Limit": 2}, client))
        return pages[-1]

    def some(self: Any, left: list[Any], found: list[Any]) -> list[Any]:
        """As the server does that leaves keys unprocessed."""
        return [*many(self, left[:2], found), *left[2:]]

    store.commit(*(Put(examples.trial(number)) for number in range(7)))
    store.commit(*(Put(examples.allocation(id=f"alloc-1m3k9zq4w7{n}")) for n in range(5)))
    for number in range(5):
        store.commit(Append(examples.event(str(number))), AppendMetrics(examples.chunk(number)))
    monkeypatch.setattr(table_module, "_query", small_page)
    monkeypatch.setattr(table_module.Table, "_get_some", some)
    assert [trial.number for trial in store.children(Trial, EXPERIMENT)] == list(range(7))
    assert [trial.number for trial in store.children(Trial, EXPERIMENT, limit=3)] == [0, 1, 2]
    assert [trial.number for trial in store.live(Trial)] == list(range(7))
    assert len(store.live(Allocation)) == 5
    ids = [examples.trial(number).id for number in range(7)]
    assert list(store.find_many(Trial, ids)) == ids
    for page_of in (store.events(), store.events(experiment=EXPERIMENT)):
        assert [event.name for event in page_of.events] == list("01234")
    assert store.metrics(TRIAL) == [examples.chunk(number) for number in range(5)]
    assert max(len(each["Items"]) for each in pages) == 2


def test_live_records_beyond_what_one_request_reads_are_whole(store: DynamoStore) -> None:
    for first in (0, 80):
        store.commit(*(Put(examples.trial(number)) for number in range(first, first + 80)))
    assert [trial.number for trial in store.live(Trial)] == list(range(160))


def test_a_record_that_the_index_still_calls_live_is_left_out(store: DynamoStore) -> None:
    store.commit(Put(examples.trial()))
    item = store.table.get((f"trial/{EXPERIMENT}", TRIAL))
    assert item is not None
    store.commit(*_done(store))
    body = store.table.get((f"trial/{EXPERIMENT}", TRIAL))
    assert body is not None
    stale = {**body, "live": item["live"], "live_at": item["live_at"]}
    store.table.call(lambda client: client.put_item(TableName=store.table.where.name, Item=stale))
    assert store.live(Trial) == []


@pytest.mark.parametrize(
    "record",
    [
        examples.node(),
        examples.allocation(),
        examples.trial(pool="local"),
        examples.experiment(),
    ],
    ids=lambda record: record.kind,
)
def test_what_is_new_is_found_before_the_index_shows_it(
    real: str, record: Node | Allocation | Trial | Experiment
) -> None:
    """Or the runner's next pass, a moment later, would ask for one more machine."""
    clock = ManualClock()
    with closing(made(real)) as maker:
        store = DynamoStore(maker.url, _HASTY, clock.now)
        store.commit(Put(record), Append(examples.event()))
        item = store.table.get(key_of(record))
        assert item is not None
        hidden = {name: value for name, value in item.items() if name not in ("live", "live_at")}
        table = store.table.where.name
        store.table.call(lambda client: client.put_item(TableName=table, Item=hidden))
        for ahead in (0.0, 60.0, -300.0):
            off = ManualClock(clock.now() + ahead)
            reader = DynamoStore(maker.url, _HASTY, off.now)
            assert [found.id for found in reader.live(type(record))] == [record.id]
            assert [found.id for found in reader.live(type(record), record.pool_name)] == [
                record.id
            ]
            assert reader.live(type(record), "another") == []
        clock.advance(NEW_FOR_S + 1)
        assert store.live(type(record)) == []
        store.table.call(lambda client: client.put_item(TableName=table, Item=item))
        assert [found.id for found in store.live(type(record))] == [record.id]


def test_where_a_record_lies_is_asked_once(real: str) -> None:
    allocation = examples.allocation()
    with fault_proxy(real) as proxy, closing(made(proxy.url)) as store:
        store.commit(Put(allocation))
        asked: list[str] = []
        proxy.listener = lambda exchange: asked.append(exchange.target.rpartition(".")[2])
        for _ in range(2):
            assert store.find(Allocation, allocation.id) is not None
            assert store.find(Allocation, "alloc-1m3k9zq4wzz") is None
        assert asked == ["BatchGetItem", "GetItem", "BatchGetItem", "GetItem", "BatchGetItem"]
        store.commit(Delete(store.get(Allocation, allocation.id)))
        assert store.find(Allocation, allocation.id) is None
        assert store.find_many(Allocation, [allocation.id]) == {}


def test_what_is_told_of_new_records_is_forgotten_by_the_table(store: DynamoStore) -> None:
    store.commit(Put(examples.node()))
    store.commit(Put(examples.node(version=1, ready=examples.NOW)))
    table = store.table.where.name
    told = store.table.call(lambda client: client.scan(TableName=table))["Items"]
    (news,) = [item for item in told if item["pk"]["S"] == "new/node"]
    assert float(news["expires"]["N"]) > time.time()
    described = store.table.call(lambda client: client.describe_time_to_live(TableName=table))
    assert described["TimeToLiveDescription"]["AttributeName"] == "expires"


def test_a_finished_trial_is_in_no_index(store: DynamoStore) -> None:
    store.commit(Put(examples.trial()))
    store.commit(*_done(store))
    item = store.table.get((f"trial/{EXPERIMENT}", TRIAL))
    assert item is not None
    assert "live" not in item
    assert "live_at" not in item


def test_events_stop_before_one_that_the_index_has_not_taken_in(store: DynamoStore) -> None:
    for name in "abc":
        store.commit(Append(examples.event(name)))
    lagging = {
        "TableName": store.table.where.name,
        "Key": keyed(event_key(examples.event("b").experiment, 2)),
    }
    store.table.call(lambda client: client.update_item(**lagging, UpdateExpression="REMOVE feed"))
    page = store.events()
    assert [event.name for event in page.events] == ["a"]
    assert store.events(page.cursor).events == ()
    store.table.call(
        lambda client: client.update_item(
            **lagging,
            UpdateExpression="SET feed = :feed",
            ExpressionAttributeValues={":feed": {"S": "feed"}},
        )
    )
    assert [event.name for event in store.events(page.cursor).events] == ["b", "c"]


def test_sixteen_writers_that_all_add_events_lose_none(store: DynamoStore) -> None:
    def write(worker: int) -> None:
        with closing(DynamoStore(store.url)) as own:
            for number in range(6):
                own.commit(Append(examples.event(f"{worker}.{number}")))

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [event.name for event in store.events().events]
    assert sorted(names) == sorted(f"{w}.{n}" for w in range(16) for n in range(6))


def test_a_commit_that_dynamodb_would_refuse_for_its_size_is_a_defect(store: DynamoStore) -> None:
    large = [
        Put(examples.experiment(id=f"exp-1m3k9zq4w{number:02d}", source="x" * 300_000))
        for number in range(15)
    ]
    with pytest.raises(ValueError, match="in one commit"):
        store.commit(*large)
    many = [Put(examples.allocation(id=f"alloc-1m3k9zq4w{n:02d}")) for n in range(60)]
    with pytest.raises(ValueError, match="121 actions"):
        store.commit(*many)
    assert store.children(Allocation, TRIAL) == []


def test_a_parent_that_the_id_denies_is_a_defect(store: DynamoStore) -> None:
    with pytest.raises(ValueError, match="cannot have the parent"):
        store.commit(Put(examples.trial().model_copy(update={"experiment": "exp-1m3k9zq4w7e"})))


def test_what_was_written_by_another_is_no_commit_of_ones_own() -> None:
    """A version that is met because an answer got lost, and one that another has written."""
    planned = plan([Put(examples.trial(version=1))], "mine", examples.NOW)
    met = {"version": {"N": "2"}, "commit": {"S": "mine"}}
    assert planned.is_own([met])
    met["commit"]["S"] = "another's"
    assert not planned.is_own([met, None, {}])
    assert isinstance(planned.refusal([met]), Conflict)


def _done(store: DynamoStore) -> list[Any]:
    from burst.core.states import Reason, TrialState, advance

    trial = store.get(Trial, TRIAL)
    cancelled, _ = advance(trial, TrialState.CANCELLED, Reason(code="test"), examples.NOW)
    return [Put(cancelled)]
