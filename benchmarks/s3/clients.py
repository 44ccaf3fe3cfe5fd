"""The clients that are compared, each sending and fetching the same files in its best way.

All use the same number of threads and the same memory. `hashed` says whether the SHA-256 of every
file is computed on the way; a client that cannot is at an advantage and compared all the same.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from burst.core.blobs import open_blobs

THREADS = 4
PART = 8 * 2**20


class Client(Protocol):
    hashed: bool

    def up(self, files: Sequence[memoryview]) -> None: ...

    def down(self, into: Sequence[memoryview], digests: Sequence[str]) -> None: ...


def everywhere(work: Callable[[int], object], count: int) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(count)))


def check(data: memoryview, digest: str) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise RuntimeError("the bytes that came are not those that were sent")


class Ours:
    hashed = True

    def __init__(self, url: str, bucket: str) -> None:
        self._blobs = open_blobs(f"s3://{bucket}/ours?endpoint_url={url}")

    def up(self, files: Sequence[memoryview]) -> None:
        batch = self._blobs.batch()

        def put(number: int) -> None:
            data = files[number]
            batch.put(f"{number:03d}", data, hashlib.sha256(data).hexdigest())

        everywhere(put, len(files))
        batch.finish()

    def down(self, into: Sequence[memoryview], digests: Sequence[str]) -> None:
        def get(number: int) -> None:
            size = self._blobs.read_into(f"{number:03d}", into[number])
            check(into[number][:size], digests[number])

        everywhere(get, len(into))


class Minimal:
    """Signed URLs and the standard library's HTTP, straight from and to memory."""

    hashed = True

    def __init__(self, url: str, bucket: str) -> None:
        self._host = urlsplit(url).netloc
        self._bucket = bucket
        self._boto = boto3_client(url)

    def up(self, files: Sequence[memoryview]) -> None:
        def put(number: int) -> None:
            digest = base64.b64encode(hashlib.sha256(files[number]).digest()).decode()
            params = {"Bucket": self._bucket, "Key": f"minimal/{number:03d}"}
            url = self._boto.generate_presigned_url(
                "put_object", {**params, "ChecksumSHA256": digest}
            )
            headers = {"x-amz-checksum-sha256": digest}
            connection = http.client.HTTPConnection(self._host)
            connection.request("PUT", url, body=files[number], headers=headers)
            self._done(connection, 200)

        everywhere(put, len(files))

    def down(self, into: Sequence[memoryview], digests: Sequence[str]) -> None:
        def get(number: int) -> None:
            params = {"Bucket": self._bucket, "Key": f"minimal/{number:03d}"}
            url = self._boto.generate_presigned_url("get_object", params)
            connection = http.client.HTTPConnection(self._host)
            connection.request("GET", url)
            answer, done = connection.getresponse(), 0
            while read := answer.readinto(into[number][done:]):
                done += read
            check(into[number][:done], digests[number])
            connection.close()

        everywhere(get, len(into))

    @staticmethod
    def _done(connection: http.client.HTTPConnection, status: int) -> None:
        answer = connection.getresponse()
        if answer.status != status:
            raise RuntimeError(f"{answer.status}: {answer.read()[:500]!r}")
        answer.read()
        connection.close()


class Boto3:
    """boto3, tuned: no second checksum, as many connections as threads."""

    hashed = True

    def __init__(self, url: str, bucket: str) -> None:
        self._bucket = bucket
        self._boto = boto3_client(url)

    def up(self, files: Sequence[memoryview]) -> None:
        def put(number: int) -> None:
            digest = base64.b64encode(hashlib.sha256(files[number]).digest()).decode()
            self._boto.put_object(
                Bucket=self._bucket,
                Key=f"boto3/{number:03d}",
                Body=bytes(files[number]),  # it takes no other memory
                ChecksumSHA256=digest,
            )

        everywhere(put, len(files))

    def down(self, into: Sequence[memoryview], digests: Sequence[str]) -> None:
        def get(number: int) -> None:
            answer = self._boto.get_object(Bucket=self._bucket, Key=f"boto3/{number:03d}")
            body, done = answer["Body"], 0
            while read := body.readinto(into[number][done:]):
                done += read
            check(into[number][:done], digests[number])

        everywhere(get, len(into))


class Obstore:
    hashed = True

    def __init__(self, url: str, bucket: str) -> None:
        from obstore.store import S3Store

        self._store = S3Store(
            bucket,
            config={"endpoint": url, "region": "us-east-1", "checksum_algorithm": "SHA256"},
            client_options={"allow_http": True, "timeout": timedelta(minutes=10)},
        )

    def up(self, files: Sequence[memoryview]) -> None:
        import obstore

        def put(number: int) -> None:
            obstore.put(self._store, f"obstore/{number:03d}", files[number], use_multipart=False)

        everywhere(put, len(files))

    def down(self, into: Sequence[memoryview], digests: Sequence[str]) -> None:
        import obstore

        def get(number: int) -> None:
            found = obstore.get(self._store, f"obstore/{number:03d}")
            done = 0
            for chunk in found.stream(min_chunk_size=2**20):
                into[number][done : done + len(chunk)] = memoryview(chunk)
                done += len(chunk)
            check(into[number][:done], digests[number])

        everywhere(get, len(into))


class TorchConnector:
    """s3torchconnector; it keeps CRCs and no SHA-256, which is added to its downloads alone."""

    hashed = False

    def __init__(self, url: str, bucket: str) -> None:
        from s3torchconnector import S3Checkpoint, S3ClientConfig

        self._at = f"s3://{bucket}/torch"
        self._checkpoint = S3Checkpoint(
            "us-east-1", endpoint=url, s3client_config=S3ClientConfig(force_path_style=True)
        )

    def up(self, files: Sequence[memoryview]) -> None:
        def put(number: int) -> None:
            with self._checkpoint.writer(f"{self._at}/{number:03d}") as writer:
                for start in range(0, len(files[number]), PART):
                    writer.write(bytes(files[number][start : start + PART]))

        everywhere(put, len(files))

    def down(self, into: Sequence[memoryview], digests: Sequence[str]) -> None:
        def get(number: int) -> None:
            reader = self._checkpoint.reader(f"{self._at}/{number:03d}")
            done = 0
            while read := reader.readinto(into[number][done:]):
                done += read
            check(into[number][:done], digests[number])

        everywhere(get, len(into))


class S5cmd:
    """s5cmd, from and to files in memory; it hashes nothing for us."""

    hashed = False

    def __init__(self, url: str, bucket: str, scratch: Path) -> None:
        self._url = url
        self._at = f"s3://{bucket}/s5cmd/"
        self._up, self._down = scratch / "up", scratch / "down"
        self._up.mkdir(parents=True)
        self._program = shutil.which(
            "s5cmd", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        )
        if self._program is None:
            raise FileNotFoundError("s5cmd")

    def prepare(self, files: Sequence[memoryview]) -> None:
        """Its files are there before the clock runs."""
        for number, data in enumerate(files):
            (self._up / f"{number:03d}").write_bytes(data)

    def up(self, files: Sequence[memoryview]) -> None:
        self._run("cp", f"{self._up}/", self._at)

    def down(self, into: Sequence[memoryview], digests: Sequence[str]) -> None:
        shutil.rmtree(self._down, ignore_errors=True)
        self._down.mkdir()
        self._run("cp", f"{self._at}*", f"{self._down}/")
        if len(list(self._down.iterdir())) != len(into):
            raise RuntimeError("s5cmd did not fetch every file")

    def _run(self, *what: str) -> None:
        subprocess.run(
            [str(self._program), "--endpoint-url", self._url, "--log", "error", *what],
            check=True,
        )


def boto3_client(url: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        config=Config(
            max_pool_connections=THREADS,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
