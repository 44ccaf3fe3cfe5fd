"""Blobs in S3, and in whatever speaks its protocol.

boto3 says where and who, and does what is small. Whole objects are sent by `s3_put`, and read by
`s3_get` through obstore. What fails in passing is tried again in one place, `retrying`.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from burst.core.blobs.keys import check_key, check_prefix
from burst.core.blobs.local_file import write_whole
from burst.core.blobs.once import put_once
from burst.core.blobs.port import DAY_S, BlobInfo, Unfinished
from burst.core.blobs.s3_get import Receiver
from burst.core.blobs.s3_place import Place, S3Url, find
from burst.core.blobs.s3_put import Sender
from burst.core.blobs.s3_streams import opener
from burst.core.blobs.s3_words import told
from burst.core.blobs.words import told as told_of_file
from burst.core.errors import NotFound, Unauthorized
from burst.core.retrying import Retries

T = TypeVar("T")

_RETRIES = Retries(within_s=120.0)
_ONE_PUT = 2**30
"""S3 takes five times as much in one request; a file beyond this is sent in parts."""
_PART = 64 * 2**20
"""Of ten thousand at the most."""


@dataclass(frozen=True)
class _Connection:
    process: int
    place: Place
    sender: Sender
    receiver: Receiver
    retries: Retries


class S3Blobs:
    """S3 shows an object only when it is whole, so a put needs no rename here."""

    def __init__(self, url: str, retries: Retries = _RETRIES) -> None:
        """Opens `s3://bucket/prefix`; connects at the first call, so that opening costs nothing.

        Raises:
            UsageError: the URL has an option that is not known.
        """
        self._where = S3Url.parse(url)
        self._retries = retries
        self._connection: _Connection | None = None
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._where.url

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")
        self._put(key, view, hashlib.sha256(view).hexdigest())

    def put_new(self, key: str, data: bytes | bytearray | memoryview) -> None:
        check_key(key)
        view = memoryview(data).cast("B")
        digest = hashlib.sha256(view).hexdigest()
        put_once(
            self._where.name(key),
            view,
            lambda: self._with(lambda at: at.sender.put_new(key, view, digest)),
            lambda: self.get(key),
        )

    def batch(self) -> S3Batch:
        return S3Batch(self._put)

    def put_file(self, key: str, path: Path) -> None:
        check_key(key)
        with told_of_file(path), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > _ONE_PUT:
                self._call(key, lambda s3: _upload(s3, file, self._at(key)))
            elif size:
                self.put(key, memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)))
            else:
                self.put(key, b"")

    def get(self, key: str) -> bytes:
        return self._call(key, lambda s3: bytes(s3.get_object(**self._at(key))["Body"].read()))

    def get_range(self, key: str, start: int, stop: int) -> bytes:
        if start >= stop:
            self._size(key)
            return b""

        def get(s3: Any) -> bytes:
            wanted = f"bytes={start}-{stop - 1}"
            try:
                return bytes(s3.get_object(**self._at(key), Range=wanted)["Body"].read())
            except s3.exceptions.ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] == 416:
                    return b""  # it ends before
                raise

        return self._call(key, get)

    def read_into(self, key: str, buffer: memoryview) -> int:
        target = buffer.cast("B")
        check_key(key)
        if not target:
            return self._size(key)
        return self._with(lambda at: at.receiver.read_into(key, target))

    def get_file(self, key: str, path: Path) -> None:
        size = self._size(key)

        def fill(file: BinaryIO) -> None:
            if size:
                # A disk that is full while a mapping of it is written would end the process.
                os.posix_fallocate(file.fileno(), 0, size)
                self.read_into(key, memoryview(mmap.mmap(file.fileno(), size)))

        with told_of_file(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, fill)

    def info(self, key: str) -> BlobInfo | None:
        try:
            found = self._call(key, lambda s3: s3.head_object(**self._at(key)))
        except NotFound:
            return None
        return BlobInfo(key, found["ContentLength"], found["LastModified"].timestamp())

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        check_prefix(prefix)
        where = {"Bucket": self._where.bucket, "Prefix": self._where.prefix + prefix}
        found: list[Any] = []
        more: dict[str, str] = {}
        while True:
            page = self._call(prefix, partial(_page, {**where, **more}))
            found += page.get("Contents", ())
            if not page["IsTruncated"]:
                break
            more = {"ContinuationToken": page["NextContinuationToken"]}
        # S3 lists them in this order, but not all that speak its protocol do.
        for each in sorted(found, key=lambda each: each["Key"]):
            key = each["Key"].removeprefix(self._where.prefix)
            yield BlobInfo(key, each["Size"], each["LastModified"].timestamp())

    def delete(self, key: str) -> None:
        self._call(key, lambda s3: s3.delete_object(**self._at(key)))

    def unfinished(self, prefix: str = "", *, older_than: float = DAY_S) -> Sequence[Unfinished]:
        check_prefix(prefix)
        where = {"Bucket": self._where.bucket, "Prefix": self._where.prefix + prefix}
        found: list[Unfinished] = []
        more: dict[str, str] = {}
        while True:
            page = self._call(prefix, partial(_page_of_uploads, {**where, **more}))
            found += uploads_in(page, self._where.prefix)
            if not page.get("IsTruncated"):
                return [each for each in found if each.age >= older_than]
            more = {
                "KeyMarker": page["NextKeyMarker"],
                "UploadIdMarker": page["NextUploadIdMarker"],
            }

    def discard(self, unfinished: Unfinished) -> None:
        at = {**self._at(unfinished.key), "UploadId": unfinished.id}
        with suppress(NotFound):
            self._call(unfinished.key, lambda s3: s3.abort_multipart_upload(**at))

    def local_path(self, key: str) -> Path | None:
        check_key(key)
        return None

    def _put(self, key: str, data: memoryview, sha256: str) -> None:
        check_key(key)
        self._with(lambda at: at.sender.put(key, data, sha256))

    def _size(self, key: str) -> int:
        found = self.info(key)
        if found is None:
            raise NotFound(f"there is no {self._where.name(key)}")
        return found.size

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self._where.bucket, "Key": self._where.path(key)}

    def _call(self, key: str, call: Callable[[Any], T]) -> T:
        """Call boto3's client, as often as it takes."""

        def attempt(at: _Connection) -> T:
            with told(self._where.name(key), self._where.bucket):
                return call(at.place.client)

        return self._with(lambda at: at.retries.run(lambda: attempt(at)))

    def _with(self, use: Callable[[_Connection], T]) -> T:
        """Use the connection; once more with credentials that are looked for anew where these are
        not accepted: someone may have logged in again, or a file was renewed."""
        connection = self._connect()
        try:
            return use(connection)
        except Unauthorized:
            with self._lock:
                if self._connection is connection:
                    self._connection = None
            return use(self._connect())

    def _connect(self) -> _Connection:
        # Connections do not survive a fork, so a child opens its own.
        with self._lock:
            if self._connection is None or self._connection.process != os.getpid():
                place = find(self._where)
                retries = self._retries
                if place.attempts is not None:
                    retries = replace(retries, attempts=max(1, place.attempts))
                self._connection = _Connection(
                    os.getpid(),
                    place,
                    Sender(self._where, place, retries),
                    Receiver(self._where, opener(self._where, place), retries),
                    retries,
                )
            return self._connection


def _page(which: dict[str, str], s3: Any) -> Any:
    return s3.list_objects_v2(**which)


def _page_of_uploads(which: Mapping[str, Any], s3: Any) -> Any:
    return s3.list_multipart_uploads(**which)


def uploads_in(page: Mapping[str, Any], prefix: str) -> list[Unfinished]:
    """The uploads in an answer of S3, with their ages by the clock that the answer tells."""
    said = page["ResponseMetadata"]["HTTPHeaders"].get("date")
    now = parsedate_to_datetime(said).timestamp() if said else time.time()
    return [
        Unfinished(
            each["Key"].removeprefix(prefix),
            each["UploadId"],
            now - each["Initiated"].timestamp(),
        )
        for each in page.get("Uploads", ())
        if each["Key"].startswith(prefix)
    ]


def _upload(s3: Any, file: BinaryIO, at: dict[str, str]) -> None:
    from boto3.s3.transfer import TransferConfig

    file.seek(0)
    s3.upload_fileobj(
        file,
        *at.values(),
        ExtraArgs={"ChecksumAlgorithm": "SHA256"},
        Config=TransferConfig(
            multipart_threshold=_PART,
            multipart_chunksize=_PART,
            preferred_transfer_client="classic",
        ),
    )


class S3Batch:
    """A put is durable and compared when it returns, so nothing is left for the end."""

    def __init__(self, put: Callable[[str, memoryview, str], None]) -> None:
        self._put = put

    def put(self, key: str, data: bytes | bytearray | memoryview, sha256: str) -> None:
        self._put(key, memoryview(data).cast("B"), sha256)

    def finish(self) -> None:
        return

    def abort(self) -> None:
        return
