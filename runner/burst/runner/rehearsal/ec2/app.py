"""What answers on the model's port: AWS's API by moto, metadata, and the control calls."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl

from burst.core.errors import BurstError, NotFound, Refused
from burst.runner.rehearsal import imds
from burst.runner.rehearsal.ec2.cloud import Cloud
from burst.runner.rehearsal.ec2.controlling import control
from burst.runner.rehearsal.ec2.faults import Fault, error_document

log = logging.getLogger(__name__)

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]
_CONTROL, _METADATA = "/_burst/", "/_imds/"


class App:
    """A WSGI application over `aws`, moto's, of which only one call runs at a time."""

    def __init__(self, cloud: Cloud, aws: Wsgi) -> None:
        self._cloud = cloud
        self._aws = aws

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path.startswith(_CONTROL):
            return self._control(environ, start, path.removeprefix(_CONTROL))
        if path.startswith(_METADATA):
            return self._metadata(environ, start, path.removeprefix(_METADATA))
        return self._api(environ, start)

    def _control(self, environ: Environ, start: StartResponse, path: str) -> Iterable[bytes]:
        body = json.loads(_read(environ) or b"{}")
        try:
            with self._cloud.lock:
                found = control(self._cloud, environ["REQUEST_METHOD"], path, body)
        except NotFound as error:
            return _answer(start, HTTPStatus.NOT_FOUND, str(error).encode())
        except Refused as error:
            return _answer(start, HTTPStatus.CONFLICT, str(error).encode())
        except (BurstError, KeyError, TypeError, ValueError) as error:
            return _answer(start, HTTPStatus.BAD_REQUEST, repr(error).encode())
        text = json.dumps({} if found is None else found).encode()
        return _answer(start, HTTPStatus.OK, text, "application/json")

    def _metadata(self, environ: Environ, start: StartResponse, path: str) -> Iterable[bytes]:
        id, _, wanted = path.partition("/")
        machine = self._cloud.machines.get(id)
        if machine is None or not machine.alive:
            return _answer(start, HTTPStatus.NOT_FOUND, b"")
        # Without the lock: its clients wait for a second at most, whatever the API is busy with.
        found = imds.answer(
            machine,
            environ["REQUEST_METHOD"],
            wanted,
            _headers(environ),
            self._cloud.clock.now(),
            self._cloud.settings.skew,
        )
        status = HTTPStatus(found.status)
        return _answer(start, status, found.text.encode(), found.type, found.headers)

    def _api(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        operation = _operation(environ)
        with self._cloud.lock:
            self._cloud.calls[operation] += 1
            fault = self._cloud.faults.take(operation, self._cloud.clock.now())
            if fault is not None and not fault.after:
                return self._fail(fault, environ, start)
            if fault is None:
                return list(self._aws(environ, start))
            list(self._aws(environ, lambda *_: None))
        return self._fail(fault, environ, start)

    def _fail(self, fault: Fault, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        if fault.code:
            text = error_document(fault.code, fault.message, "burst-rehearsal")
            return _answer(start, HTTPStatus(fault.status), text, "text/xml")
        connection: socket.socket = environ["werkzeug.socket"]
        connection.shutdown(socket.SHUT_RDWR)
        raise ConnectionResetError("this answer is lost")


def _operation(environ: Environ) -> str:
    """EC2's name of the call; of other services, what they name it by. The body stays readable."""
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return str(target).rpartition(".")[2]
    form = dict(parse_qsl(_read(environ).decode(errors="replace")))
    return form.get("Action", "")


def _read(environ: Environ) -> bytes:
    """The whole body, left in place for the next reader."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = BytesIO(body)
    return body


def _headers(environ: Environ) -> dict[str, str]:
    return {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }


def _answer(
    start: StartResponse,
    status: HTTPStatus,
    body: bytes,
    type: str = "text/plain",
    headers: Mapping[str, str] | None = None,
) -> Iterable[bytes]:
    said = {"Content-Type": type, "Content-Length": str(len(body)), **(headers or {})}
    start(f"{status.value} {status.phrase}", list(said.items()))
    return [body]
