"""The server that the tests of S3 share keeps nothing from one test module to the next."""

from __future__ import annotations

from burst.core.blobs.s3 import S3Blobs
from tests.core.blobs.mock_s3 import BUCKET, mock_s3


def test_every_server_starts_empty_though_moto_keeps_its_state_in_the_process() -> None:
    with mock_s3() as url:
        S3Blobs(f"s3://{BUCKET}/0?endpoint_url={url}").put("left", b"over")
    with mock_s3() as url:
        assert list(S3Blobs(f"s3://{BUCKET}/0?endpoint_url={url}").list("")) == []
