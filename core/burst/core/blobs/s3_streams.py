"""The bytes of an object of S3 from some place on, as they come: by obstore, or by boto3.

obstore is half again as fast where the line is encrypted. But its threads do not survive a fork,
after which its calls hang, so the forked children of a process that used it (the workers of a data
loader) use boto3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from burst.core.blobs.s3_place import CONNECT_S, SILENCE_S, Place, S3Url
from burst.core.blobs.s3_words import Answer, told
from burst.core.retrying import Passing

if TYPE_CHECKING:
    from obstore.store import S3Credential

CHUNK = 2**20
"""What a transfer that breaks loses at the most."""
_CREDENTIALS_FOR = timedelta(minutes=1)
"""botocore renews what ends within ten minutes, so nothing that is asked for so often is stale."""

_STATUS = re.compile(r"status code: ([0-9]{3})")

_runtime_of: int | None = None
"""The process that started obstore's threads."""


class Changed(Exception):
    """The object is not the one that was asked for any more."""


class Empty(Exception):
    """The object has no byte there, where its first was asked for."""


@dataclass(frozen=True)
class Stream:
    size: int
    """Bytes of the whole object."""
    etag: str | None
    chunks: Iterator[memoryview]


Open = Callable[[str, int, int, str | None], Stream]
"""Key, first byte, the byte after the last (at the most), and the tag it must have."""


def opener(where: S3Url, place: Place) -> Open:
    """How to read objects in this process."""
    global _runtime_of
    if _runtime_of not in (None, os.getpid()):
        return _Boto(where, place).open
    _runtime_of = os.getpid()
    return _Obstore(where, place).open


class _Obstore:
    def __init__(self, where: S3Url, place: Place) -> None:
        from obstore.store import S3Store

        endpoint = place.bucket_url.rstrip("/")
        if not place.virtual_host:
            endpoint = endpoint.removesuffix(f"/{where.bucket}")
        self._where = where
        self._store = S3Store(
            where.bucket,
            config={
                "endpoint": endpoint,
                "region": place.region,
                "virtual_hosted_style_request": place.virtual_host,
            },
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=CONNECT_S),
                "read_timeout": timedelta(seconds=SILENCE_S),
                "timeout": timedelta(hours=1),
            },
            retry_config={"max_retries": 0},  # burst.core.retrying does it, and more of it
            credential_provider=_provider(place),
        )

    def open(self, key: str, start: int, stop: int, etag: str | None) -> Stream:
        import obstore

        name = self._where.name(key)
        options: obstore.GetOptions = {"range": (start, stop)}
        if etag:
            options["if_match"] = etag
        with _told_by_obstore(name, self._where.bucket):
            found = obstore.get(self._store, self._where.path(key), options=options)
        meta = found.meta
        return Stream(meta["size"], meta["e_tag"], self._chunks(name, found))

    def _chunks(self, name: str, found: Any) -> Iterator[memoryview]:
        with _told_by_obstore(name, self._where.bucket):
            for chunk in found.stream(min_chunk_size=CHUNK):
                yield memoryview(chunk)


def _provider(place: Place) -> Callable[[], S3Credential]:
    """Hands obstore the credentials that all else is signed with."""

    def credentials() -> S3Credential:
        frozen = place.credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _CREDENTIALS_FOR,
        }

    return credentials


class _Boto:
    def __init__(self, where: S3Url, place: Place) -> None:
        self._where = where
        self._client = place.client

    def open(self, key: str, start: int, stop: int, etag: str | None) -> Stream:
        from botocore.exceptions import ClientError

        condition = {"IfMatch": etag} if etag else {}
        name = self._where.name(key)
        with told(name, self._where.bucket):
            try:
                found = self._client.get_object(
                    Bucket=self._where.bucket,
                    Key=self._where.path(key),
                    Range=f"bytes={start}-{stop - 1}",
                    **condition,
                )
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                if status in (412, 416):
                    raise (Changed if status == 412 else Empty) from error
                raise
        size = int(found["ContentRange"].rpartition("/")[2])
        return Stream(size, found["ETag"], self._chunks(name, found["Body"]))

    def _chunks(self, name: str, body: Any) -> Iterator[memoryview]:
        with told(name, self._where.bucket), body:
            for chunk in body.iter_chunks(CHUNK):
                yield memoryview(chunk)


@contextmanager
def _told_by_obstore(name: str, bucket: str) -> Iterator[None]:
    """As `s3_words.told`, for what obstore raises."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        text = str(error).partition("\n\nDebug source")[0]
        status = _STATUS.search(text)
        answer = Answer.of_xml(int(status[1]) if status else 0, text)
        if answer.status == 412:
            raise Changed from error
        if answer.status == 416:
            raise Empty from error
        words = answer.in_words(name, bucket)
        raise (Passing(words) if answer.passing else words) from error
