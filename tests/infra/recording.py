"""A proxy on loopback that lets everything through and keeps what AWS's clients asked."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request")
_UNREAD = ("s3",)
"""Services of which the bodies do not say what is asked, and are large."""
_OWN = ("connection", "transfer-encoding", "content-length", "keep-alive")
"""Headers that are between two neighbours."""


@dataclass(frozen=True)
class Call:
    """One request of a client, and the beginning of its answer."""

    key: str
    """Whose access key it was signed with."""
    service: str
    region: str
    method: str
    path: str
    query: Mapping[str, str]
    target: str
    """DynamoDB's word for the operation."""
    body: str
    """Empty for services whose bodies do not tell what is asked."""
    answer: str

    @property
    def form(self) -> Mapping[str, str]:
        """What EC2 is asked."""
        return dict(parse_qsl(self.body, keep_blank_values=True))

    @property
    def json(self) -> Mapping[str, Any]:
        """What DynamoDB is asked."""
        found: Mapping[str, Any] = json.loads(self.body)
        return found


class Recorder:
    """The proxies of one cloud; their calls in the order that they came in."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    @contextmanager
    def before(self, upstream: str) -> Iterator[str]:
        """A proxy before a server; yields its URL."""
        place = urlsplit(upstream)

        class Handler(_Handler):
            host, port, calls = str(place.hostname), int(place.port or 80), self.calls

        with _Server(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # clients keep their connections
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone, or been killed, is no matter of the proxy's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    host: str
    port: int
    calls: list[Call]
    _upstream: http.client.HTTPConnection | None = None

    def _relay(self) -> None:
        body = self._body()
        connection = self._upstream or http.client.HTTPConnection(self.host, self.port)
        self._upstream = connection
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in (*_OWN, "expect"):
                connection.putheader(name, value)
        if body or self.command in ("PUT", "POST"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        data = answer.read()
        self._keep(body, data)
        self.send_response_only(answer.status, answer.reason)
        size = answer.headers.get("Content-Length") if self.command == "HEAD" else None
        for name, value in answer.headers.items():
            if name.lower() not in _OWN:
                self.send_header(name, value)
        self.send_header("Content-Length", size or str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _relay  # noqa: N815

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _keep(self, body: bytes, answer: bytes) -> None:
        scope = _SCOPE.search(self.headers.get("Authorization", ""))
        key, region, service = scope.groups() if scope else ("", "", "")
        place = urlsplit(self.path)
        self.calls.append(
            Call(
                key=key,
                service=service,
                region=region,
                method=self.command,
                path=unquote(place.path),
                query=dict(parse_qsl(place.query, keep_blank_values=True)),
                target=self.headers.get("X-Amz-Target", "").rpartition(".")[2],
                body="" if service in _UNREAD else body.decode(errors="replace"),
                answer=answer.decode(errors="replace") if service == "ec2" else "",
            )
        )

    def finish(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
        super().finish()

    def log_message(self, *_: object) -> None:
        """Nothing: it is a proxy of thousands of calls."""
