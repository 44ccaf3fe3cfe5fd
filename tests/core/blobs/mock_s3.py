"""moto's S3 server on loopback, with one empty bucket."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BUCKET = "burst-test"


@contextmanager
def mock_s3() -> Iterator[str]:
    """Its URL; credentials for it are in the environment meanwhile.

    moto keeps its buckets in the process, not in the server: what an earlier server of this
    process was given is removed first. Two at once would share one bucket.
    """
    import boto3
    from moto.backends import get_backend
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        get_backend("s3").reset()
        moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        moto.start()
        host, port = moto.get_host_and_port()
        url = f"http://{host}:{port}"
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield url
        moto.stop()
