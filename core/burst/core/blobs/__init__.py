"""Where bytes are kept: one port over local folders and S3."""

from __future__ import annotations

from pathlib import Path

from burst.core.blobs.port import BlobInfo, Blobs, Unfinished
from burst.core.errors import UsageError

__all__ = ["BlobInfo", "Blobs", "Unfinished", "names_blobs", "open_blobs"]


def names_blobs(url: str) -> bool:
    """Whether there is an adapter for such a URL; nothing is opened."""
    return _is_folder(url) or _is_bucket(url)


def open_blobs(url: str) -> Blobs:
    """The blobs at `url`: `file:///absolute/path` or `s3://bucket/prefix`.

    An S3 URL may name its server, `s3://bucket/prefix?endpoint_url=http://127.0.0.1:9000`; without
    that, AWS_ENDPOINT_URL or AWS itself is used, with the credentials of the environment.

    Raises:
        UsageError: no adapter knows such a URL.
        Unreachable: the folder cannot be made.
    """
    if _is_folder(url):
        from burst.core.blobs.folder import FolderBlobs

        return FolderBlobs(Path(url.removeprefix("file://")))
    if _is_bucket(url):
        from burst.core.blobs.s3 import S3Blobs

        return S3Blobs(url)
    raise UsageError(
        f"{url!r} names no blobs",
        why="blobs are file:///absolute/path or s3://bucket/prefix",
        mend="correct BURST_BLOBS, or `blobs` in burst.yaml",
    )


def _is_folder(url: str) -> bool:
    return url.startswith("file:///") and url.rstrip("/") != "file:"


def _is_bucket(url: str) -> bool:
    return url.startswith("s3://") and bool(url.removeprefix("s3://").split("?")[0].strip("/"))
