"""Large files in parts: what is left of an upload that was not finished, and how that goes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from burst.core.blobs import s3 as module
from burst.core.blobs.port import DAY_S, Unfinished
from burst.core.blobs.s3 import S3Blobs, uploads_in
from burst.core.errors import Unreachable
from burst.core.retrying import Retries
from burst.core.testing.fault_proxy import FaultProxy, Spoil, fault_proxy
from tests.core.blobs.mock_s3 import BUCKET, ministack_s3, mock_s3

PART = 5 * 2**20
SIZE = PART + 1024
"""Two parts."""
_prefixes = itertools.count()


@pytest.fixture(scope="module", params=["moto", "ministack"])
def proxied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultProxy]:
    log = tmp_path_factory.mktemp("server") / "log"
    server = mock_s3() if request.param == "moto" else ministack_s3(log)
    with server as url, fault_proxy(url) as proxy:
        yield proxy


@pytest.fixture
def blobs(proxied: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> S3Blobs:
    monkeypatch.setattr(module, "_ONE_PUT", 2**20)
    monkeypatch.setattr(module, "_PART", PART)
    url = f"s3://{BUCKET}/uploads/{next(_prefixes)}?endpoint_url={proxied.url}"
    return S3Blobs(url, Retries(sleep=lambda _: None))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "file"
    path.write_bytes(bytes(range(256)) * (SIZE // 256))
    return path


def begin(blobs: S3Blobs, key: str) -> str:
    """As a writer that dies after it."""
    made: dict[str, Any] = blobs._call(
        key, lambda s3: s3.create_multipart_upload(**blobs._at(key))
    )
    return str(made["UploadId"])


FAULTS = [
    Spoil.NOTHING, Spoil.SLOW_DOWN, Spoil.ERROR, Spoil.TOO_MANY, Spoil.RESET, Spoil.LOST,
    Spoil.SILENCE,
]  # fmt: skip


@pytest.mark.parametrize("spoil", FAULTS, ids=lambda spoil: spoil.name)
@pytest.mark.parametrize("step", ["begin", "part", "complete"])
def test_a_file_in_parts_arrives_and_leaves_nothing_but_an_upload_nobody_heard_of(
    blobs: S3Blobs,
    proxied: FaultProxy,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    spoil: Spoil,
) -> None:
    monkeypatch.setattr("burst.core.blobs.s3_place.SILENCE_S", 1.0)
    fault = {
        "begin": [("POST", spoil)],
        "part": [("PUT", spoil)],
        "complete": [("POST", Spoil.NOTHING), ("POST", spoil)],
    }
    proxied.spoils = fault[step]
    blobs.put_file("a/b", source)
    assert proxied.spoils == []
    info = blobs.info("a/b")
    assert info is not None
    assert info.size == SIZE
    assert blobs.get("a/b") == source.read_bytes()
    unheard = (step, spoil) == ("begin", Spoil.LOST)
    left = [each.key for each in blobs.unfinished(older_than=-10.0)]
    assert left == (["a/b"] if unheard else [])


def test_a_file_in_parts_that_never_arrives_leaves_no_upload(
    blobs: S3Blobs, proxied: FaultProxy, source: Path
) -> None:
    proxied.spoils = [("PUT", Spoil.ERROR)] * 100
    with pytest.raises(Unreachable):
        blobs.put_file("a/b", source)
    proxied.spoils = []
    assert blobs.unfinished(older_than=-10.0) == []
    assert blobs.info("a/b") is None


def test_what_dead_writers_have_begun_is_found_by_prefix_and_age_and_discarded(
    blobs: S3Blobs,
) -> None:
    begun = {(key, begin(blobs, key)) for key in ("a/1", "a/1", "a/2", "b")}
    found = blobs.unfinished(older_than=-10.0)
    assert {(each.key, each.id) for each in found} == begun
    assert [each.key for each in blobs.unfinished("a/", older_than=-10.0)] == ["a/1", "a/1", "a/2"]
    for _ in range(2):
        for each in found:
            blobs.discard(each)
    assert blobs.unfinished(older_than=-10.0) == []


@pytest.mark.parametrize("proxied", ["ministack"], indirect=True)  # moto's are of the year 2010
def test_what_is_young_may_be_under_way_and_is_not_listed(blobs: S3Blobs) -> None:
    begin(blobs, "a")
    assert blobs.unfinished() == []
    (found,) = blobs.unfinished(older_than=-10.0)
    assert -10.0 <= found.age < DAY_S


def test_another_prefix_of_the_bucket_is_let_alone(blobs: S3Blobs, proxied: FaultProxy) -> None:
    begin(blobs, "a")
    other = S3Blobs(f"{blobs.url.partition('?')[0]}0?endpoint_url={proxied.url}")
    assert other.unfinished(older_than=-10.0) == []


def test_lists_of_uploads_of_more_than_one_page_are_whole(
    blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {begin(blobs, f"a/{number}") for number in range(5)}
    page = module._page_of_uploads

    def small_page(which: Mapping[str, Any], s3: Any) -> Any:
        return page({**which, "MaxUploads": 2}, s3)

    monkeypatch.setattr(module, "_page_of_uploads", small_page)
    found = blobs.unfinished(older_than=-10.0)
    assert sorted(each.id for each in found) == sorted(ids)


def test_ages_go_by_the_clock_of_the_server() -> None:
    begun = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
    page = {
        "ResponseMetadata": {"HTTPHeaders": {"date": "Mon, 30 Nov 2026 12:00:01 GMT"}},
        "Uploads": [
            {"Key": "p/a", "UploadId": "1", "Initiated": begun},
            {"Key": "q/a", "UploadId": "2", "Initiated": begun},
        ],
    }
    assert uploads_in(page, "p/") == [Unfinished("a", "1", DAY_S + 1)]
