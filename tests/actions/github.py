"""A double of GitHub's API for comments, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

COMMENTS = "/repos/acme/vision/issues/7/comments"


@dataclass
class Comments:
    """The comments on pull request 7 of acme/vision, and what was asked.

    Args:
        token: the one that is accepted.
        refuse: status to answer with, by method.
    """

    token: str = "ghs_of_the_job"
    url: str = ""
    bodies: dict[int, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    refuse: dict[str, int] = field(default_factory=dict)
    says: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """Status and whole answer, by method, whatever is asked."""
    people: set[int] = field(default_factory=set)
    """Comments of persons; the others are a bot's."""
    vanish: bool = False
    """Whether a comment is deleted after it was listed."""

    def answer(self, method: str, target: str, token: str, body: Any) -> tuple[int, Any]:
        place = urlsplit(target)
        self.asked.append(f"{method} {target}")
        if token != f"Bearer {self.token}":
            return 401, {"message": "Bad credentials"}
        if method in self.says:
            return self.says[method]
        if method in self.refuse:
            return self.refuse[method], {"message": "Resource not accessible by integration"}
        if place.path == COMMENTS and method == "GET":
            return 200, self._page(parse_qs(place.query))
        if place.path == COMMENTS and method == "POST":
            id = len(self.bodies) + 1001
            self.bodies[id] = body["body"]
            return 201, self._one(id)
        head, _, last = place.path.rpartition("/")
        id = int(last) if last.isdecimal() else 0
        known = head == "/repos/acme/vision/issues/comments" and id in self.bodies
        if not known or method != "PATCH":
            return 404, {"message": "Not Found"}
        self.bodies[id] = body["body"]
        return 200, self._one(id)

    def _page(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        size, page = int(query["per_page"][0]), int(query["page"][0])
        found = [self._one(id) for id in sorted(self.bodies)][(page - 1) * size : page * size]
        if self.vanish:
            self.bodies.clear()
        return found

    def _one(self, id: int) -> dict[str, Any]:
        url = f"https://github.com/acme/vision/pull/7#issuecomment-{id}"
        user = {"login": "a", "type": "User" if id in self.people else "Bot"}
        return {"id": id, "body": self.bodies[id], "html_url": url, "user": user}


@contextmanager
def serving(comments: Comments) -> Iterator[Comments]:
    """Answer at `comments.url` while inside."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            token = self.headers.get("Authorization", "")
            status, told = comments.answer(self.command, self.path, token, body)
            sent = json.dumps(told).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{comments.url}/elsewhere")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def do_POST(self) -> None:
            self.do_GET()

        def do_PATCH(self) -> None:
            self.do_GET()

        def log_message(self, *given: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        comments.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield comments
        finally:
            server.shutdown()
            thread.join()
