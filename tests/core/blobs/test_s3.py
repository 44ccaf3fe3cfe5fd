"""Blobs in S3 keep the whole contract, against two servers on loopback."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from burst.core.blobs import open_blobs, s3
from burst.core.blobs.s3 import S3Blobs
from burst.core.errors import NotFound, Unreachable, UsageError
from burst.core.testing.blob_contract import BlobContract
from tests.core.blobs.mock_s3 import BUCKET, ministack_s3, mock_s3

_prefixes = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with mock_s3() as url:
        yield url


@pytest.fixture(scope="module")
def ministack_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack_s3(tmp_path_factory.mktemp("ministack") / "log") as url:
        yield url


@pytest.fixture
def blobs(server: str) -> S3Blobs:
    return S3Blobs(f"s3://{BUCKET}/prefix/{next(_prefixes)}?endpoint_url={server}")


class TestS3Blobs(BlobContract):
    @pytest.fixture
    def blobs(self, server: str) -> S3Blobs:
        return S3Blobs(f"s3://{BUCKET}/prefix/{next(_prefixes)}?endpoint_url={server}")


class TestS3BlobsOnMinistack(BlobContract):
    @pytest.fixture
    def blobs(self, ministack_server: str) -> S3Blobs:
        return S3Blobs(f"s3://{BUCKET}/prefix/{next(_prefixes)}?endpoint_url={ministack_server}")


def test_the_server_may_be_named_by_the_environment(
    server: str, blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs.put("a", b"1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    assert open_blobs(blobs.url.split("?")[0]).get("a") == b"1"


def test_a_whole_bucket_may_hold_blobs(server: str) -> None:
    blobs = open_blobs(f"s3://{BUCKET}?endpoint_url={server}")
    blobs.put("top", b"1")
    assert "top" in [info.key for info in blobs.list("")]
    assert [info.key for info in blobs.list("to")] == ["top"]
    blobs.delete("top")


def test_a_list_of_more_than_one_page_is_whole(blobs: S3Blobs) -> None:
    from moto.s3.models import s3_backends  # putting so many over HTTP would take seconds

    backend = s3_backends["123456789012"]["aws"]
    for number in range(1005):
        key = blobs._where.path(f"{number:05d}")
        backend.put_object(BUCKET, key, b"")
    assert [int(info.key) for info in blobs.list("")] == list(range(1005))


@pytest.mark.parametrize("which", ["server", "ministack_server"])
def test_a_list_is_whole_however_small_the_servers_pages_are(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    server = request.getfixturevalue(which)
    blobs = S3Blobs(f"s3://{BUCKET}/prefix/{next(_prefixes)}?endpoint_url={server}")
    keys = [f"a/{number}" for number in range(7)]
    for key in keys:
        blobs.put(key, b"1")
    page, pages = s3._page, []

    def small_page(which: dict[str, str], client: Any) -> Any:
        pages.append(page({**which, "MaxKeys": 3}, client))  # type: ignore[dict-item]
        return pages[-1]

    monkeypatch.setattr(s3, "_page", small_page)
    assert [info.key for info in blobs.list("a/")] == keys
    assert [len(each["Contents"]) for each in pages] == [3, 3, 1]


def test_nothing_lies_on_this_machine(blobs: S3Blobs) -> None:
    blobs.put("a", b"1")
    assert blobs.local_path("a") is None


def test_a_forked_child_opens_its_own_connections(blobs: S3Blobs) -> None:
    blobs.put("a", b"1")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            blobs.put("b", blobs.get("a") + b"2")
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert blobs.get("b") == b"12"


def test_a_forked_child_of_a_reader_reads_without_obstore_whose_threads_it_has_not(
    blobs: S3Blobs,
) -> None:
    data = os.urandom(3_000_000)
    blobs.put("a", data)
    blobs.put("empty", b"")
    buffer = bytearray(len(data))
    blobs.read_into("a", memoryview(buffer))
    child = os.fork()
    if child == 0:
        status = 1
        signal.alarm(60)  # rather than hang with it
        try:
            own = bytearray(len(data) + 1)
            sizes = [blobs.read_into(key, memoryview(own)) for key in ("empty", "a")]
            with contextlib.suppress(NotFound):
                blobs.read_into("nothing", memoryview(own))
                os._exit(2)
            status = 0 if (sizes, bytes(own[:-1])) == ([0, len(data)], data) else 3
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_a_bucket_that_is_not_there_is_named(server: str) -> None:
    blobs = open_blobs(f"s3://no-such-bucket?endpoint_url={server}")
    with pytest.raises(NotFound, match="no-such-bucket") as caught:
        blobs.put("a", b"1")
    assert "bucket" in caught.value.why


def test_a_server_that_does_not_answer_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    blobs = open_blobs(f"s3://{BUCKET}?endpoint_url=http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="did not answer") as caught:
        blobs.put("a", b"1")
    assert "127.0.0.1:9" in caught.value.why


def test_opening_costs_no_import_and_no_connection() -> None:
    assert open_blobs("s3://bucket/x?endpoint_url=http://127.0.0.1:9").url.startswith("s3://")


def test_an_option_that_is_not_known_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="endpoint_uri"):
        open_blobs("s3://bucket?endpoint_uri=http://127.0.0.1:9")
