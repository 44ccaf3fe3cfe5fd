"""Where the double of the `pulumi` command keeps stacks: a folder, or a prefix of a bucket.

The layout is the one of Pulumi's own file and bucket backends (`.pulumi/stacks/…`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit


class Refusal(Exception):
    """The command ends with this text after `error: `."""


class Backend(Protocol):
    url: str

    def read(self, key: str) -> bytes | None: ...

    def write(self, key: str, data: bytes) -> None:
        """Whole or not at all, and safe from a loss of power once it returns."""
        ...

    def remove(self, key: str) -> None:
        """Harmless if it is not there."""
        ...

    def names(self, prefix: str) -> list[str]:
        """The keys below a prefix, sorted."""
        ...


class Folder:
    """Files below a folder, which has to be there: the real command does not make it either."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._root = Path(url.removeprefix("file://")).expanduser().absolute()
        if not self._root.is_dir():
            raise Refusal(
                f'read ".pulumi/meta.yaml": unable to open bucket {url}: blob (code=NotFound): '
                f"stat {self._root}: no such file or directory"
            )

    def read(self, key: str) -> bytes | None:
        path = self._root / key
        return path.read_bytes() if path.is_file() else None

    def write(self, key: str, data: bytes) -> None:
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        place = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)

    def remove(self, key: str) -> None:
        (self._root / key).unlink(missing_ok=True)

    def names(self, prefix: str) -> list[str]:
        place = self._root / prefix
        found = (each for each in place.rglob("*") if each.is_file() and each.name[0] != ".")
        return sorted(each.relative_to(self._root).as_posix() for each in found)


class Bucket:
    """Objects of a bucket, which has to be there."""

    def __init__(self, url: str) -> None:
        from boto3.session import Session

        self.url = url
        parts = urlsplit(url)
        asked = parse_qs(parts.query)
        region = asked.get("region", [None])[0]
        self._s3: Any = Session().client("s3", region_name=region)
        self._bucket = parts.netloc
        self._prefix = f"{path}/" if (path := parts.path.strip("/")) else ""
        try:
            self._s3.head_bucket(Bucket=self._bucket)
        except self._s3.exceptions.ClientError as error:
            raise Refusal(
                f'read ".pulumi/meta.yaml": unable to open bucket {url}: {error}'
            ) from error

    def read(self, key: str) -> bytes | None:
        try:
            found = self._s3.get_object(Bucket=self._bucket, Key=self._prefix + key)
        except self._s3.exceptions.NoSuchKey:
            return None
        return bytes(found["Body"].read())

    def write(self, key: str, data: bytes) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data)

    def remove(self, key: str) -> None:
        self._s3.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def names(self, prefix: str) -> list[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._prefix}{prefix}/"
        )
        found = (each["Key"] for page in pages for each in page.get("Contents", []))
        return sorted(each.removeprefix(self._prefix) for each in found)


def open_backend(url: str) -> Backend:
    """
    Raises:
        Refusal: there is none at this URL.
    """
    if url.startswith("file://"):
        return Folder(url)
    if url.startswith("s3://"):
        return Bucket(url)
    if not url:
        raise Refusal(
            "PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions"
        )
    raise Refusal(f"the double of pulumi knows no backend such as {url!r}")
