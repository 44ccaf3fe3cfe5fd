"""What networks and busy servers do to S3 blobs, at every call and in every way that is known."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)

from burst.core.blobs import s3_get, s3_place, s3_put, s3_streams
from burst.core.blobs.s3 import S3Blobs
from burst.core.blobs.s3_words import told
from burst.core.clock import ManualClock
from burst.core.errors import BurstError, Refused, StoreError, Taken, Unreachable
from burst.core.retrying import Passing, Retries, patience
from burst.core.testing.fault_proxy import FaultProxy, Spoil, fault_proxy
from tests.core.blobs.mock_s3 import BUCKET, ministack_s3, mock_s3

DATA = bytes(range(256)) * 1200
_prefixes = itertools.count()

NOT_DONE = (Spoil.SLOW_DOWN, Spoil.ERROR, Spoil.TOO_MANY, Spoil.RESET)


@pytest.fixture(scope="module", params=["moto", "ministack"])
def proxied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultProxy]:
    log = tmp_path_factory.mktemp("server") / "log"
    server = mock_s3() if request.param == "moto" else ministack_s3(log)
    with server as url, fault_proxy(url) as proxy:
        yield proxy


@pytest.fixture
def proxy(proxied: FaultProxy) -> Iterator[FaultProxy]:
    proxied.seen.clear()
    proxied.sent = 0
    yield proxied
    assert not proxied.spoils, "a fault that the test wanted was never met"


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def blobs(proxy: FaultProxy, pauses: list[float]) -> S3Blobs:
    url = f"s3://{BUCKET}/faults/{next(_prefixes)}?endpoint_url={proxy.url}"
    return S3Blobs(url, Retries(sleep=pauses.append, random=lambda: 0.5))


def put_in_a_batch(blobs: S3Blobs) -> None:
    batch = blobs.batch()
    batch.put("new", DATA, hashlib.sha256(DATA).hexdigest())
    batch.finish()


def read(blobs: S3Blobs) -> bytes:
    buffer = bytearray(len(DATA) + 10)
    size = blobs.read_into("old", memoryview(buffer))
    return bytes(buffer[:size])


def into_a_file(blobs: S3Blobs, folder: Path) -> bytes:
    blobs.get_file("old", folder / "copy")
    return (folder / "copy").read_bytes()


def from_a_file(blobs: S3Blobs, folder: Path) -> None:
    (folder / "source").write_bytes(DATA)
    blobs.put_file("new", folder / "source")


WRITES: dict[str, Callable[[S3Blobs, Path], object]] = {
    "put": lambda blobs, _: blobs.put("new", DATA),
    "put_new": lambda blobs, _: blobs.put_new("new", DATA),
    "batch": lambda blobs, _: put_in_a_batch(blobs),
    "put_file": from_a_file,
}
READS: dict[str, Callable[[S3Blobs, Path], object]] = {
    "get": lambda blobs, _: blobs.get("old"),
    "get_range": lambda blobs, _: blobs.get_range("old", 0, 10**9),
    "read_into": lambda blobs, _: read(blobs),
    "get_file": into_a_file,
}


@pytest.mark.parametrize("spoil", [*NOT_DONE, Spoil.LOST], ids=lambda spoil: spoil.name)
@pytest.mark.parametrize("method", ["PUT", "HEAD"])
@pytest.mark.parametrize("how", WRITES)
def test_a_write_gets_through(
    blobs: S3Blobs, proxy: FaultProxy, tmp_path: Path, how: str, method: str, spoil: Spoil
) -> None:
    proxy.spoils = [(method, spoil)]
    WRITES[how](blobs, tmp_path)
    assert blobs.get("new") == DATA


@pytest.mark.parametrize("spoil", [*NOT_DONE, Spoil.LOST, Spoil.CONFLICT], ids=lambda s: s.name)
def test_a_marker_that_is_there_already_is_told_whatever_happens_on_the_way(
    blobs: S3Blobs, proxy: FaultProxy, spoil: Spoil
) -> None:
    blobs.put_new("new", b"theirs")
    proxy.spoils = [("PUT", spoil), ("GET", Spoil.LOST)]
    with pytest.raises(Taken, match="with other bytes"):
        blobs.put_new("new", b"ours")
    assert blobs.get("new") == b"theirs"


def test_a_marker_that_another_write_was_in_the_way_of_is_tried_again(
    blobs: S3Blobs, proxy: FaultProxy
) -> None:
    proxy.spoils = [("PUT", Spoil.CONFLICT)] * 2
    blobs.put_new("new", DATA)
    assert blobs.get("new") == DATA


def test_a_server_without_conditional_writes_is_told_from_one_that_is_busy(
    blobs: S3Blobs, proxy: FaultProxy
) -> None:
    proxy.spoils = [("PUT", Spoil.NOT_IMPLEMENTED)]
    with pytest.raises(Refused, match="cannot do what burst needs") as caught:
        blobs.put_new("new", DATA)
    assert "conditional writes" in caught.value.mend


@pytest.mark.parametrize(
    "spoil", [*NOT_DONE, Spoil.LOST, Spoil.TRUNCATED, Spoil.ABORTED], ids=lambda spoil: spoil.name
)
@pytest.mark.parametrize("how", READS)
def test_a_read_gets_through(
    blobs: S3Blobs, proxy: FaultProxy, tmp_path: Path, how: str, spoil: Spoil
) -> None:
    blobs.put("old", DATA)
    proxy.spoils = [("GET", spoil), ("GET", spoil)]
    assert READS[how](blobs, tmp_path) == DATA


@pytest.mark.parametrize("proxied", ["ministack"], indirect=True)  # moto tells no checksum
def test_what_was_damaged_on_its_way_is_sent_and_asked_for_again(
    blobs: S3Blobs, proxy: FaultProxy
) -> None:
    proxy.spoils = [("PUT", Spoil.CORRUPTED_REQUEST)] * 3
    blobs.put("old", DATA)
    proxy.spoils = [("GET", Spoil.CORRUPTED)] * 3
    assert blobs.get("old") == DATA


@pytest.mark.parametrize("spoil", [*NOT_DONE, Spoil.LOST], ids=lambda spoil: spoil.name)
def test_looking_and_deleting_get_through(blobs: S3Blobs, proxy: FaultProxy, spoil: Spoil) -> None:
    blobs.put("old", DATA)
    proxy.spoils = [("HEAD", spoil), ("GET", spoil), ("DELETE", spoil)]
    info = blobs.info("old")
    assert info is not None
    assert info.size == len(DATA)
    assert [found.key for found in blobs.list("")] == ["old"]
    blobs.delete("old")
    assert blobs.info("old") is None


def test_what_the_store_holds_is_compared_with_what_was_sent(
    blobs: S3Blobs, proxy: FaultProxy
) -> None:
    proxy.spoils = [("HEAD", Spoil.WRONG_SIZE)]
    blobs.put("new", DATA)
    assert [step.split()[0] for step in proxy.seen] == ["PUT", "HEAD", "PUT", "HEAD"]

    proxy.spoils = [("HEAD", Spoil.WRONG_SIZE)] * 8
    with pytest.raises(StoreError, match="is not what was sent") as caught:
        blobs.put("new", DATA)
    assert str(len(DATA) + 1) in caught.value.why


@pytest.mark.parametrize("how", [*WRITES, *READS])
def test_silence_is_given_up_in_a_time_that_the_caller_can_bound(
    blobs: S3Blobs,
    proxy: FaultProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    for module in (s3_place, s3_put, s3_streams):
        monkeypatch.setattr(module, "SILENCE_S", 0.2)
    blobs.put("old", DATA)
    proxy.spoils = [("PUT" if how in WRITES else "GET", Spoil.SILENCE)]
    began = time.monotonic()
    with patience(0.1), pytest.raises(Unreachable, match="S3 did not answer"):
        {**WRITES, **READS}[how](blobs, tmp_path)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("how", [*WRITES, *READS])
def test_what_stays_broken_is_told_after_eight_tries_ever_further_apart(
    blobs: S3Blobs, proxy: FaultProxy, pauses: list[float], tmp_path: Path, how: str
) -> None:
    blobs.put("old", DATA)
    proxy.seen.clear()
    method = "PUT" if how in WRITES else "GET"
    proxy.spoils = [(method, Spoil.SLOW_DOWN)] * 8
    with pytest.raises(Unreachable, match="S3 did not answer") as caught:
        {**WRITES, **READS}[how](blobs, tmp_path)
    assert "faults" in caught.value.what
    assert "SlowDown" in caught.value.why
    assert sum(step.startswith(method) for step in proxy.seen) == 8
    assert pauses == [0.05 * 2**n for n in range(7)]
    assert not (tmp_path / "copy").exists()


def test_a_users_own_number_of_tries_is_kept(
    blobs: S3Blobs, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    proxy.spoils = [("PUT", Spoil.ERROR)] * 2
    with pytest.raises(Unreachable):
        blobs.put("new", DATA)
    assert len(proxy.seen) == 2


def test_every_part_goes_on_where_it_broke(
    blobs: S3Blobs, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_get, "_PART", 2**20)
    monkeypatch.setattr(s3_streams, "CHUNK", 2**16)
    data = DATA * 30
    blobs.put("old", data)
    proxy.sent = 0
    proxy.spoils = [("GET", Spoil.TRUNCATED), ("GET", Spoil.NOTHING)] * 8
    buffer = bytearray(len(data))
    assert blobs.read_into("old", memoryview(buffer)) == len(data)
    assert buffer == data
    assert proxy.sent <= len(data) + 8 * 2**16


def test_a_transfer_that_keeps_breaking_but_moves_is_not_given_up(
    blobs: S3Blobs, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_streams, "CHUNK", 2**16)
    data = DATA * 25
    blobs.put("old", data)
    proxy.spoils = [("GET", Spoil.TRUNCATED)] * 10
    buffer = bytearray(len(data))
    assert blobs.read_into("old", memoryview(buffer)) == len(data)
    assert buffer == data


def test_an_object_replaced_while_it_is_read_is_read_anew(
    blobs: S3Blobs, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_get, "_PART", 2**18)
    old, new = b"o" * 2**20, b"n" * 2**20
    blobs.put("old", old)
    go_on, calls = s3_get.Receiver._go_on, itertools.count()

    def replacing(self: s3_get.Receiver, *args: object) -> object:
        if next(calls) == 1:
            blobs.put("old", new)
        return go_on(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(s3_get.Receiver, "_go_on", replacing)
    buffer = bytearray(2**20)
    assert blobs.read_into("old", memoryview(buffer)) == 2**20
    assert buffer == new


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (EndpointConnectionError(endpoint_url="u", error="refused"), True),
        (ConnectTimeoutError(endpoint_url="u"), True),
        (ReadTimeoutError(endpoint_url="u"), True),
        (ConnectionClosedError(endpoint_url="u"), True),
        (SSLError(endpoint_url="u", error="certificate verify failed"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_server_that_is_away_is_tried_again_and_one_that_is_not_trusted_is_not(
    error: Exception, passes: bool
) -> None:
    kind = Passing if passes else Unreachable
    with pytest.raises(kind, match="did not answer"), told("s3://b/k", "b"):
        raise error


class TestRetries:
    def test_progress_starts_the_count_anew(self) -> None:
        outcomes = iter([False] * 2 + [True] + [False] * 2 + [None])
        retries = Retries(attempts=4, sleep=lambda _: None)

        def attempt() -> str:
            outcome = next(outcomes)
            if outcome is None:
                return "done"
            raise Passing(BurstError("no"), progress=outcome)

        assert retries.run(attempt) == "done"

    def test_other_errors_are_not_tried_again(self) -> None:
        tries = []

        def attempt() -> None:
            tries.append(1)
            raise Unreachable("no")

        with pytest.raises(Unreachable):
            Retries(sleep=lambda _: None).run(attempt)
        assert tries == [1]

    def test_no_pause_is_longer_than_the_longest(self) -> None:
        retries = Retries(first_s=0.1, longest_s=3.0, random=lambda: 1.0)
        pauses = [retries.pause(failed) for failed in range(1, 2000)]
        assert pauses[0] == 0.1
        assert max(pauses) == 3.0

    @pytest.mark.parametrize(("within", "tries"), [(10.0, 4), (0.0, 1), (3.0, 2)])
    def test_after_so_long_nothing_is_tried_again(self, within: float, tries: int) -> None:
        clock = ManualClock()
        retries = Retries(
            first_s=1.0,
            within_s=within,
            sleep=clock.sleep,
            random=lambda: 1.0,
            clock=clock.monotonic,
        )
        began = []

        def attempt() -> None:
            began.append(clock.monotonic())
            clock.sleep(1.0)
            raise Passing(Unreachable("no"))

        with pytest.raises(Unreachable):
            retries.run(attempt)
        assert len(began) == tries
        assert began[-1] <= began[0] + 1.0 + within

    def test_whoever_is_in_a_hurry_waits_no_longer_than_they_say(self) -> None:
        tries = []

        def attempt() -> None:
            tries.append(1)
            raise Passing(Unreachable("no"))

        retries = Retries(sleep=lambda _: None)
        with patience(1000.0), patience(0.0), pytest.raises(Unreachable):
            retries.run(attempt)
        assert len(tries) == 1
        with patience(1000.0), pytest.raises(Unreachable):
            retries.run(attempt)
        assert len(tries) == 1 + 8
        with pytest.raises(Unreachable):
            retries.run(attempt)
        assert len(tries) == 1 + 8 + 8
