"""Servers of S3's protocol on loopback, each with one empty bucket: moto's and ministack."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from burst.core.testing.ministack import ENVIRON, ministack

BUCKET = "burst-test"


@contextmanager
def mock_s3() -> Iterator[str]:
    """Its URL; credentials for it are in the environment meanwhile.

    moto keeps its buckets in the process, not in the server: what an earlier server of this
    process was given is removed first. Two at once would share one bucket.
    """
    from moto.backends import get_backend
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    lock, put = threading.Lock(), S3Response.put_object

    def one_at_a_time(self: Any) -> Any:
        with lock:  # or two who put one new object may both succeed
            return put(self)

    with pytest.MonkeyPatch.context() as patch:
        _set_credentials(patch)
        patch.setattr(S3Response, "put_object", one_at_a_time)
        get_backend("s3").reset()
        moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        moto.start()
        host, port = moto.get_host_and_port()
        url = f"http://{host}:{port}"
        _create_bucket(url)
        yield url
        moto.stop()


@contextmanager
def ministack_s3(log: Path) -> Iterator[str]:
    """As `mock_s3`, of ministack, which also checks the bytes it gets."""
    with pytest.MonkeyPatch.context() as patch, ministack(log) as url:
        _set_credentials(patch)
        _create_bucket(url)
        yield url


def _set_credentials(patch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        patch.setenv(name, value)


def _create_bucket(url: str) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=url)
    client.create_bucket(Bucket=BUCKET)
    client.close()
