"""The way from one machine to a server, which can be cut: a relay on loopback.

While it is cut nothing is refused and nothing answered, as where a network drops packets; what was
under way goes on when it is joined again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

_HOST = "127.0.0.1"
_PIECE = 1 << 18
T = TypeVar("T")


class Gates:
    """Makes gates; one thread does the work of all."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="gates", daemon=True).start()

    def open(self, target: str) -> Gate:
        """A gate before the server at that URL."""
        return self._run(Gate.start(self._loop, target))

    def _run(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()


class Gate:
    """Open until it is cut; safe for threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: str) -> None:
        self._loop = loop
        self._target = urlsplit(target)
        self._way = asyncio.Event()
        self._way.set()
        self._relays: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.url = ""
        """Instead of the server's own."""

    @classmethod
    async def start(cls, loop: asyncio.AbstractEventLoop, target: str) -> Gate:
        gate = cls(loop, target)
        gate._server = await asyncio.start_server(gate._accept, _HOST, 0)
        gate.url = f"http://{_HOST}:{gate._server.sockets[0].getsockname()[1]}"
        return gate

    def cut(self, cut: bool) -> None:
        """Let nothing through, or everything again."""
        self._loop.call_soon_threadsafe(self._way.clear if cut else self._way.set)

    def close(self) -> None:
        """For good: every connection ends."""
        self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for relay in self._relays:
            relay.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.current_task()
        assert relay is not None
        self._relays.add(relay)
        try:
            await self._relay(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two ends is gone, or the gate is
        finally:
            self._relays.discard(relay)
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._way.wait()
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            back.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(_PIECE):
            await self._way.wait()
            sink.write(piece)
            await sink.drain()
        await self._way.wait()
        if sink.can_write_eof():
            sink.write_eof()
