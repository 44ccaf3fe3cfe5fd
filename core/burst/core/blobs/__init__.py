"""Where bytes are kept: one port over local folders and S3."""

from __future__ import annotations

from pathlib import Path

from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.errors import UsageError

__all__ = ["BlobInfo", "Blobs", "open_blobs"]


def open_blobs(url: str) -> Blobs:
    """The blobs at `url`: `file:///absolute/path` or `s3://bucket/prefix`.

    An S3 URL may name its server, `s3://bucket/prefix?endpoint_url=http://127.0.0.1:9000`; without
    that, AWS_ENDPOINT_URL or AWS itself is used, with the credentials of the environment.

    Raises:
        UsageError: no adapter knows such a URL.
        Unreachable: the folder cannot be made.
    """
    if url.startswith("file:///") and url.rstrip("/") != "file:":
        from burst.core.blobs.folder import FolderBlobs

        return FolderBlobs(Path(url.removeprefix("file://")))
    if url.startswith("s3://") and url.removeprefix("s3://").split("?")[0].strip("/"):
        from burst.core.blobs.s3 import S3Blobs

        return S3Blobs(url)
    raise UsageError(
        f"{url!r} names no blobs",
        why="blobs are file:///absolute/path or s3://bucket/prefix",
        mend="correct BURST_BLOBS, or `blobs` in burst.yaml",
    )
