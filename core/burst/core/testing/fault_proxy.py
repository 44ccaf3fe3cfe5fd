"""A proxy before a server of AWS's protocols that spoils chosen answers, as networks and busy
servers do."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_PATIENCE_S = 60.0
_SIGNER = re.compile(r"Credential=([^/]+)/")
_OF_THE_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "server")


class Spoil(Enum):
    """What happens to a request."""

    NOTHING = "it is done, and answered"
    SLOW_DOWN = "503 SlowDown, not done"
    ERROR = "500 InternalError, not done"
    TOO_MANY = "429, not done"
    THROTTLED = "400 ThrottlingException in JSON, as DynamoDB says it, not done"
    EXPIRED = "400 ExpiredTokenException in JSON, not done"
    CONFLICT = "409 ConditionalRequestConflict, not done"
    NOT_IMPLEMENTED = "501 NotImplemented, not done"
    UNKNOWN_KEY = "403 InvalidAccessKeyId, not done"
    RESET = "the connection is reset, not done"
    LOST = "it is done, and the connection reset instead of an answer"
    SILENCE = "no answer for as long as the proxy is there, not done"
    TRUNCATED = "half of the answer's body, then the end"
    ABORTED = "half of the answer's body, then a reset"
    CORRUPTED = "a byte of the answer's body is another"
    CORRUPTED_REQUEST = "a byte of the request's body is another"
    WRONG_SIZE = "the answer's headers tell of another size"


_SAID = {
    Spoil.SLOW_DOWN: (503, "SlowDown"),
    Spoil.ERROR: (500, "InternalError"),
    Spoil.TOO_MANY: (429, "TooManyRequests"),
    Spoil.CONFLICT: (409, "ConditionalRequestConflict"),
    Spoil.UNKNOWN_KEY: (403, "InvalidAccessKeyId"),
    Spoil.NOT_IMPLEMENTED: (501, "NotImplemented"),
    Spoil.THROTTLED: (400, "ThrottlingException"),
    Spoil.EXPIRED: (400, "ExpiredTokenException"),
}
_IN_JSON = ("ThrottlingException", "ExpiredTokenException")


@dataclass(frozen=True)
class Exchange:
    """A request that was done, and its answer."""

    method: str
    path: str
    target: str
    """Which call it is, where the protocol says so in a header: `DynamoDB_20120810.GetItem`."""
    sent: bytes
    """The request's body."""
    status: int
    answer: bytes
    """The answer's body."""


@dataclass
class FaultProxy:
    """What a proxy does and has seen."""

    url: str
    target: str
    """`host:port` of the real server."""
    spoils: list[tuple[str, Spoil]] = field(default_factory=list)
    """HTTP method and what happens to the next request of it; each is used once, in order."""
    seen: list[str] = field(default_factory=list)
    """`PUT /bucket/key` of every request that came."""
    signers: set[str] = field(default_factory=set)
    """The access keys that requests were signed with."""
    sent: int = 0
    """Bytes of bodies sent to clients."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    listener: Callable[[Exchange], object] = lambda _: None
    """Hears of every request that was done; called by several threads."""
    over: threading.Event = field(default_factory=threading.Event)

    def next_for(self, method: str) -> Spoil | None:
        with self.lock:
            for index, (wanted, spoil) in enumerate(self.spoils):
                if wanted == method:
                    del self.spoils[index]
                    return spoil
        return None


@contextmanager
def fault_proxy(target: str) -> Iterator[FaultProxy]:
    """A proxy on loopback before the server at the URL `target`."""
    proxy = FaultProxy("", urlsplit(target).netloc)

    class Handler(_Handler):
        state = proxy

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.state.lock:
            self.state.seen.append(f"{self.command} {self.path}")
            self.state.signers.update(_SIGNER.findall(self.headers.get("Authorization", "")))
        spoil = self.state.next_for(self.command)
        if spoil in _SAID:
            self._say(*_SAID[spoil])
        elif spoil is Spoil.RESET:
            self._reset()
        elif spoil is Spoil.SILENCE:
            self.state.over.wait(_PATIENCE_S)
            self._reset()
        else:
            self._forward(_flip(body) if spoil is Spoil.CORRUPTED_REQUEST else body, spoil)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815

    def log_message(self, *_: Any) -> None:
        return

    def _forward(self, body: bytes, spoil: Spoil | None) -> None:
        upstream = http.client.HTTPConnection(self.state.target, timeout=_PATIENCE_S)
        try:
            upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
            answer = upstream.getresponse()
            data = answer.read()
        finally:
            upstream.close()
        target = self.headers.get("X-Amz-Target", "")
        self.state.listener(Exchange(self.command, self.path, target, body, answer.status, data))
        if spoil is Spoil.LOST:
            self._reset()
            return
        length = answer.headers.get("Content-Length", str(len(data)))
        if spoil is Spoil.WRONG_SIZE:
            length = str(int(length) + 1)
        if spoil is Spoil.CORRUPTED:
            data = _flip(data)
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_THE_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if spoil in (Spoil.TRUNCATED, Spoil.ABORTED):
            data = data[: len(data) // 2]
            self.close_connection = True
        with self.state.lock:
            self.state.sent += len(data)
        self.wfile.write(data)
        if spoil is Spoil.ABORTED:
            self._reset()

    def _say(self, status: int, code: str) -> None:
        text = f"<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>"
        if code in _IN_JSON:
            text = f'{{"__type": "x#{code}", "message": "as the test wants it"}}'
        body = b"" if self.command == "HEAD" else text.encode()
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)  # so that closing sends a reset
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()


def _flip(data: bytes) -> bytes:
    flipped = bytearray(data)
    if flipped:
        flipped[len(flipped) // 2] ^= 0xFF
    return bytes(flipped)
