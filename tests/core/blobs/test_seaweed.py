"""S3 blobs against a real server, which verifies signatures and checksums: SeaweedFS."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from burst.core.blobs.s3 import S3Blobs
from burst.core.errors import NotFound, Refused, StoreError, Taken, Unauthorized
from burst.core.retrying import Retries
from burst.core.testing.blob_contract import BlobContract, pages
from burst.core.testing.fault_proxy import FaultProxy, Spoil, fault_proxy
from burst.core.testing.seaweed import ENVIRON, seaweedfs

pytestmark = pytest.mark.slow

BUCKET = "burst-test"
DATA = os.urandom(1_500_000)
_prefixes = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRON.items():
            patch.setenv(name, value)
        with seaweedfs(tmp_path_factory.mktemp("weed"), BUCKET) as url:
            yield url


def open_at(server: str) -> S3Blobs:
    url = f"s3://{BUCKET}/p/{next(_prefixes)}?endpoint_url={server}"
    return S3Blobs(url, Retries(sleep=lambda _: None))


@pytest.fixture
def blobs(server: str) -> S3Blobs:
    return open_at(server)


@pytest.fixture
def proxy(server: str) -> Iterator[FaultProxy]:
    with fault_proxy(server) as proxy:
        yield proxy
        assert not proxy.spoils


class TestS3BlobsOnSeaweedFS(BlobContract):
    @pytest.fixture
    def blobs(self, server: str) -> S3Blobs:
        return open_at(server)


def test_a_file_of_the_engines_size_goes_there_and_back(blobs: S3Blobs) -> None:
    size = 32 * 2**20
    there, back = pages(size), pages(size + 4096)
    there[:] = os.urandom(2**20) * 32
    batch = blobs.batch()
    batch.put("a/b", there, hashlib.sha256(there).hexdigest())
    batch.finish()
    assert blobs.read_into("a/b", back) == size
    assert back[:size] == there


def test_a_file_beyond_one_request_is_sent_in_parts(
    blobs: S3Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burst.core.blobs.s3._ONE_PUT", 2**20)
    data = os.urandom(9 * 2**20)
    (tmp_path / "source").write_bytes(data)
    blobs.put_file("a/b", tmp_path / "source")
    assert blobs.get("a/b") == data


def test_an_upload_of_a_dead_writer_is_found_and_discarded(blobs: S3Blobs) -> None:
    at = blobs._at("a/b")
    made = blobs._call("a/b", lambda s3: s3.create_multipart_upload(**at))
    assert blobs.unfinished() == []
    (found,) = blobs.unfinished("a/", older_than=-10.0)
    assert (found.key, found.id) == ("a/b", made["UploadId"])
    for _ in range(2):
        blobs.discard(found)
    assert blobs.unfinished(older_than=-10.0) == []


@pytest.mark.parametrize("spoil", [Spoil.NOTHING, Spoil.LOST, Spoil.RESET], ids=lambda s: s.name)
def test_a_marker_is_put_once_whatever_happens_to_the_answer(
    proxy: FaultProxy, spoil: Spoil
) -> None:
    blobs = open_at(proxy.url)
    proxy.spoils = [("PUT", spoil)]
    blobs.put_new("a", DATA)
    with pytest.raises(Taken):
        blobs.put_new("a", b"other")
    assert blobs.get("a") == DATA


def test_every_character_of_a_key_arrives(blobs: S3Blobs) -> None:
    key = "A-Z/a.z/0_9/=+@,~-/checkpoint=1+2@3,4~5"
    blobs.put(key, b"1")
    assert [info.key for info in blobs.list("A")] == [key]
    assert (blobs.get(key), blobs.get_range(key, 0, 5)) == (b"1", b"1")
    assert blobs.read_into(key, memoryview(bytearray(5))) == 1
    blobs.delete(key)
    assert blobs.info(key) is None


def test_the_server_refuses_bytes_that_are_not_what_was_hashed(blobs: S3Blobs) -> None:
    batch = blobs.batch()
    with pytest.raises(StoreError, match="did not arrive as it was sent"):
        batch.put("a", b"these", hashlib.sha256(b"those").hexdigest())
    assert blobs.info("a") is None


def test_a_request_damaged_on_its_way_is_sent_again(proxy: FaultProxy) -> None:
    blobs = open_at(proxy.url)
    proxy.spoils = [("PUT", Spoil.CORRUPTED_REQUEST)] * 3
    blobs.put("a", DATA)
    assert blobs.get("a") == DATA
    assert sum(step.startswith("PUT") for step in proxy.seen) == 4


def test_an_answer_damaged_on_its_way_is_asked_for_again(proxy: FaultProxy) -> None:
    blobs = open_at(proxy.url)
    blobs.put("a", DATA)
    proxy.spoils = [("GET", Spoil.CORRUPTED)] * 3
    assert blobs.get("a") == DATA


USES: dict[str, Callable[[S3Blobs], object]] = {
    "put": lambda blobs: blobs.put("a", b"1"),
    "get": lambda blobs: blobs.get("a"),
    "list": lambda blobs: list(blobs.list("")),
    "read_into": lambda blobs: blobs.read_into("a", memoryview(bytearray(1))),
}


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("use", USES)
def test_wrong_credentials_are_told_as_that(
    server: str, monkeypatch: pytest.MonkeyPatch, name: str, use: str
) -> None:
    monkeypatch.setenv(name, "wrong")
    with pytest.raises(Unauthorized, match="does not accept the AWS credentials") as caught:
        USES[use](open_at(server))
    assert "aws sso login" in caught.value.mend


@pytest.mark.parametrize("use", ["get", "list", "read_into"])  # it makes a bucket for a put
def test_a_missing_bucket_is_named(server: str, use: str) -> None:
    blobs = S3Blobs(f"s3://no-such-bucket?endpoint_url={server}")
    with pytest.raises(NotFound, match="no bucket no-such-bucket"):
        USES[use](blobs)


def test_a_clock_that_is_off_is_told_as_that(
    blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours_ago = datetime.now(UTC) - timedelta(hours=5)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_: hours_ago)
    with pytest.raises(Refused, match="this machine's clock") as caught:
        blobs.put("a", b"1")
    assert "NTP" in caught.value.mend
