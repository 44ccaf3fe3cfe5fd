"""An S3 server that keeps no bytes and checks none: what remains is the client's own cost.

    python -m benchmarks.s3.null_server FILE

It prints its port. Bodies are thrown away as they come; every object that is asked for has the
bytes of FILE, from the page cache straight to the socket.
"""

from __future__ import annotations

import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

_DATE = "Sun, 01 Nov 2026 00:00:00 GMT"
_ETAG = '"null"'
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    source: BinaryIO
    size: int
    checksums: dict[str, str]

    def setup(self) -> None:
        super().setup()
        self.scratch = memoryview(bytearray(2**20))

    def do_PUT(self) -> None:
        left = int(self.headers.get("Content-Length", 0))
        while left:
            left -= self.rfile.readinto(self.scratch[:left])
        where, query = self._asked()
        checksum = self.headers.get("x-amz-checksum-sha256")
        if "partNumber" not in query:
            self.checksums[where] = checksum or ""
        self._answer(200, b"", {"x-amz-checksum-sha256": checksum} if checksum else {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        where, query = self._asked()
        if "uploads" in query:
            tag = "InitiateMultipartUploadResult"
            inside = "<UploadId>1</UploadId>"
        else:
            tag = "CompleteMultipartUploadResult"
            inside = f"<ETag>{_ETAG}</ETag>"
            self.checksums[where] = ""
        bucket, _, key = where.strip("/").partition("/")
        inside += f"<Bucket>{bucket}</Bucket><Key>{key}</Key>"
        self._answer(200, f"<{tag}>{inside}</{tag}>".encode())

    def do_HEAD(self) -> None:
        where, _ = self._asked()
        if where not in self.checksums:
            self._answer(404, b"")
            return
        more = {"x-amz-checksum-sha256": self.checksums[where]} if self.checksums[where] else {}
        self._head(200, self.size, more)

    def do_GET(self) -> None:
        where, query = self._asked()
        if "list-type" in query or where.count("/") < 2:
            self._answer(200, self._listing(where, query))
            return
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        stop = min(self.size, int(asked[2]) + 1) if asked and asked[2] else self.size
        whole = {"Content-Range": f"bytes {start}-{stop - 1}/{self.size}"} if asked else {}
        self._head(206 if asked else 200, stop - start, whole)
        self.wfile.flush()
        while start < stop:
            start += os.sendfile(
                self.connection.fileno(), self.source.fileno(), start, stop - start
            )

    def log_message(self, *_: Any) -> None:
        return

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        url = urlsplit(self.path)
        return url.path, parse_qs(url.query, keep_blank_values=True)

    def _listing(self, where: str, query: dict[str, list[str]]) -> bytes:
        bucket = where.strip("/")
        prefix = query.get("prefix", [""])[0]
        keys = sorted(name.removeprefix(f"/{bucket}/") for name in self.checksums)
        contents = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
            f"<ETag>{_ETAG}</ETag><Size>{self.size}</Size></Contents>"
            for key in keys
            if key.startswith(prefix)
        )
        return (
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{prefix}</Prefix>"
            f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        ).encode()

    def _answer(self, status: int, body: bytes, more: dict[str, str] | None = None) -> None:
        self._head(status, len(body), more or {})
        self.wfile.write(body)

    def _head(self, status: int, length: int, more: dict[str, str]) -> None:
        self.send_response_only(status)
        known = {
            "Content-Length": str(length),
            "ETag": _ETAG,
            "Last-Modified": _DATE,
            "Accept-Ranges": "bytes",
        }
        for name, value in {**known, **more}.items():
            self.send_header(name, value)
        self.end_headers()


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def main(path: Path) -> None:
    with path.open("rb") as source:
        _Handler.source, _Handler.size, _Handler.checksums = source, path.stat().st_size, {}
        server = _Server(("127.0.0.1", 0), _Handler)
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
