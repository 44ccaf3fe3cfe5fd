"""moto's DynamoDB on loopback, made atomic: by itself it loses updates of concurrent writers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def mock_dynamodb() -> Iterator[str]:
    """Its URL."""
    from moto.core.responses import BaseResponse
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    lock = threading.RLock()
    call = BaseResponse.call_action

    def one_at_a_time(self: Any) -> Any:
        with lock:
            return call(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseResponse, "call_action", one_at_a_time)
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()
