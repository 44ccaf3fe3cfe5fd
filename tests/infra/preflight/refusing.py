"""A server on loopback that answers every request to AWS in one way: the wrong one."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Mode = Literal["denied", "throttled", "broken", "garbage", "empty", "cut"]
MODES: tuple[Mode, ...] = ("denied", "throttled", "broken", "garbage", "empty", "cut")
_SERVICE = re.compile(r"Credential=[^/]+/[0-9]+/[^/]+/([^/]+)/")
_QUERY, _EC2, _REST_XML = ("iam", "sts"), "ec2", "s3"
_STATUS = {"denied": 403, "throttled": 400, "broken": 500, "garbage": 200, "empty": 200}


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Of connections that were cut on purpose."""


@contextmanager
def refusing(mode: Mode) -> Iterator[Mapping[str, str]]:
    """Yields the environment that points at it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if mode == "cut":
                self.close_connection = True
                self.connection.close()
                return
            found = _SERVICE.search(self.headers.get("Authorization", ""))
            service = found[1] if found else ""
            code = _code(mode, service)
            body = b"" if self.command == "HEAD" else _body(mode, service, code)
            self.send_response(_STATUS[mode])
            self.send_header("x-amzn-errortype", code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_HEAD = do_PUT = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _code(mode: Mode, service: str) -> str:
    if mode == "denied":
        if service == _EC2:
            return "UnauthorizedOperation"
        return "AccessDenied" if service in (*_QUERY, _REST_XML) else "AccessDeniedException"
    if mode == "throttled":
        return "RequestLimitExceeded" if service == _EC2 else "ThrottlingException"
    return "InternalFailure"


def _body(mode: Mode, service: str, code: str) -> bytes:
    if mode == "garbage":
        return b"<html><h1>Log in to the network</h1></html>"
    if mode == "empty":
        return b""
    words = f"this is {mode}"
    if service == _EC2:
        inner = f"<Errors><Error><Code>{code}</Code><Message>{words}</Message></Error></Errors>"
        return f"<Response>{inner}<RequestID>1</RequestID></Response>".encode()
    if service in _QUERY:
        inner = f"<Error><Code>{code}</Code><Message>{words}</Message></Error>"
        return f"<ErrorResponse>{inner}</ErrorResponse>".encode()
    if service == _REST_XML:
        return f"<Error><Code>{code}</Code><Message>{words}</Message></Error>".encode()
    return json.dumps({"__type": code, "message": words}).encode()
