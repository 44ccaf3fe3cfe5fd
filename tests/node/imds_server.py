"""A metadata service on loopback, which answers only those who have its token."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DATA = "/latest/meta-data/"


class ImdsServer:
    """Its answers may be changed at any time; a path that is not in `answers` is not there."""

    def __init__(self, instance: str = "i-1", **tags: str) -> None:
        self.answers: dict[str, str] = {
            "instance-id": instance,
            "instance-type": "c5.large",
            "placement/availability-zone": "us-east-1a",
            "placement/region": "us-east-1",
            "local-ipv4": "10.0.0.7",
            "ami-id": "ami-1",
        }
        self.tag(tags)
        self.tokens: set[str] = set()
        self.asked: list[str] = []
        self.failing = 0
        """The status of every answer, if not 0."""
        self.ahead = 0.0
        """Seconds that its clock is ahead of the machine's."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate(time.time() + server.ahead, usegmt=True)

            def do_PUT(self) -> None:
                token = f"token-{len(server.tokens)}"
                server.tokens.add(token)
                self._say(server.failing or 200, token)

            def do_GET(self) -> None:
                server.asked.append(self.path)
                if server.failing:
                    return self._say(server.failing, "")
                if self.headers.get("X-aws-ec2-metadata-token") not in server.tokens:
                    return self._say(401, "")
                found = server.answers.get(self.path.removeprefix(DATA))
                return self._say(404, "") if found is None else self._say(200, found)

            def _say(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def tag(self, tags: dict[str, str]) -> None:
        self.answers["tags/instance"] = "\n".join(tags)
        self.answers |= {f"tags/instance/{key}": value for key, value in tags.items()}

    def notice(self, seconds: float, action: str = "terminate") -> float:
        """Say that the instance will be taken away; returns when, by the service's clock."""
        at = round(time.time() + self.ahead + seconds)
        self.answers["spot/instance-action"] = json.dumps({"action": action, "time": iso(at)})
        return float(at)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> ImdsServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
