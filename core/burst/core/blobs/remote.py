"""Blobs in S3, and in whatever speaks its protocol, through fsspec."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from burst.core.blobs.keys import check_key, check_prefix
from burst.core.blobs.local_file import write_whole
from burst.core.blobs.port import BlobInfo
from burst.core.errors import BurstError, NotFound, Refused, Unreachable, UsageError

_OPTIONS = ("endpoint_url", "region")


class FsspecBlobs:
    """S3 shows an object only when it is whole, so a put needs no rename here."""

    def __init__(self, url: str) -> None:
        """Opens `s3://bucket/prefix`; connects at the first call, so that opening costs nothing.

        Raises:
            UsageError: the URL has an option that is not known.
        """
        place, _, query = url.partition("?")
        self._url = url
        self._root = place.removeprefix("s3://").strip("/")
        self._options = dict(parse_qsl(query))
        unknown = self._options.keys() - set(_OPTIONS)
        if unknown:
            raise UsageError(
                f"{url!r} has an unknown option {sorted(unknown)[0]!r}",
                mend=f"known are {' and '.join(_OPTIONS)}",
            )
        self._opened: tuple[int, Any] | None = None

    @property
    def url(self) -> str:
        return self._url

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        whole = data if isinstance(data, bytes | bytearray) else bytes(data)
        with self._errors(key) as fs:
            fs.pipe_file(self._path(key), whole)

    def batch(self) -> _Batch:
        return _Batch(self)

    def put_file(self, key: str, path: Path) -> None:
        if not path.is_file():
            raise NotFound(f"there is no {path}")
        with self._errors(key) as fs:
            fs.put_file(str(path), self._path(key))

    def get(self, key: str) -> bytes:
        with self._errors(key) as fs:
            return bytes(fs.cat_file(self._path(key)))

    def get_range(self, key: str, start: int, stop: int) -> bytes:
        found = self.info(key)
        if found is None:
            raise NotFound(f"there is no s3://{self._path(key)}")
        stop = min(stop, found.size)
        if start >= stop:
            return b""
        with self._errors(key) as fs:
            return bytes(fs.cat_file(self._path(key), start=start, end=stop))

    def read_into(self, key: str, buffer: memoryview) -> int:
        found = self.info(key)
        if found is None:
            raise NotFound(f"there is no s3://{self._path(key)}")
        target = buffer.cast("B")
        data = self.get_range(key, 0, len(target))
        target[: len(data)] = data
        return found.size

    def get_file(self, key: str, path: Path) -> None:
        with self._errors(key) as fs:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda file: fs.get_file(self._path(key), file.name))

    def info(self, key: str) -> BlobInfo | None:
        try:
            with self._errors(key) as fs:
                found = fs.info(self._path(key))
        except NotFound:
            return None
        return self._info(found) if found["type"] == "file" else None

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        check_prefix(prefix)
        with self._errors(prefix) as fs:
            found = fs.find(self._root, prefix=prefix, detail=True)
        return (self._info(found[name]) for name in sorted(found))

    def delete(self, key: str) -> None:
        try:
            with self._errors(key) as fs:
                fs.rm_file(self._path(key))
        except NotFound:
            return

    def local_path(self, key: str) -> Path | None:
        check_key(key)
        return None

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _info(self, found: dict[str, Any]) -> BlobInfo:
        key = found["name"].removeprefix(f"{self._root}/")
        return BlobInfo(key, found["size"], found["LastModified"].timestamp())

    def _filesystem(self) -> Any:
        # Its connections and event loop do not survive a fork, so a child opens its own.
        if self._opened is None or self._opened[0] != os.getpid():
            import fsspec

            fs = fsspec.filesystem(
                "s3",
                endpoint_url=self._options.get("endpoint_url"),
                client_kwargs={"region_name": self._options["region"]}
                if "region" in self._options
                else {},
                use_listings_cache=False,
            )
            self._opened = (os.getpid(), fs)
        return self._opened[1]

    @contextmanager
    def _errors(self, key: str) -> Iterator[Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield self._filesystem()
        except (OSError, BotoCoreError, ClientError) as error:
            raise self._in_words(key, error) from error

    def _in_words(self, key: str, error: Exception) -> BurstError:
        name = f"s3://{self._root}/{key}"
        why = str(error)
        if isinstance(error, FileNotFoundError):
            return NotFound(f"there is no {name}", why=why)
        if isinstance(error, PermissionError):
            return Refused(
                f"S3 does not let you use {name}",
                why=why,
                mend="check which credentials are used with `aws sts get-caller-identity`",
            )
        if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
            return Unreachable(
                f"there are no AWS credentials to use {name} with",
                mend="set AWS_PROFILE or AWS_ACCESS_KEY_ID, or log in with `aws sso login`",
            )
        return Unreachable(
            f"S3 did not answer for {name}",
            why=why,
            mend="check the network, the credentials and the region",
        )


class _Batch:
    def __init__(self, blobs: FsspecBlobs) -> None:
        self._blobs = blobs

    def put(self, key: str, data: bytes | bytearray | memoryview, sha256: str) -> None:
        self._blobs.put(key, data)

    def finish(self) -> None:
        return

    def abort(self) -> None:
        return
