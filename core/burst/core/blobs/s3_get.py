"""Reading objects of S3 into memory: in parts side by side, each resumed where it broke."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from burst.core.blobs.s3_place import S3Url
from burst.core.blobs.s3_streams import Changed, Empty, Open, Stream
from burst.core.blobs.s3_words import no_answer
from burst.core.errors import StoreError
from burst.core.retrying import Passing, Retries

_PART = 16 * 2**20
_PARALLEL = 4


@dataclass
class _Part:
    start: int
    stop: int
    done: int = 0

    @property
    def at(self) -> int:
        return self.start + self.done


class Receiver:
    """Safe from several threads."""

    def __init__(self, where: S3Url, open_stream: Open, retries: Retries) -> None:
        self._where = where
        self._open = open_stream
        self._retries = retries

    def read_into(self, key: str, buffer: memoryview) -> int:
        """As `Blobs.read_into`, for a buffer of at least one byte.

        Raises:
            NotFound: if there is none.
            BurstError: if it could not be read.
        """
        return self._retries.run(lambda: self._read(key, buffer))

    def _read(self, key: str, buffer: memoryview) -> int:
        try:
            first = self._fill(key, buffer, None, _Part(0, min(_PART, len(buffer))))
            stop = min(first.size, len(buffer))
            parts = [_Part(at, min(at + _PART, stop)) for at in range(_PART, stop, _PART)]
            fill = partial(self._fill, key, buffer, first.etag)
            if len(parts) == 1:
                fill(parts[0])
            elif parts:
                with ThreadPoolExecutor(min(_PARALLEL, len(parts))) as pool:
                    list(pool.map(fill, parts))
        except Empty:
            return 0
        except Changed as changed:
            name = self._where.name(key)
            raise Passing(StoreError(f"{name} was replaced while it was read")) from changed
        return first.size

    def _fill(self, key: str, buffer: memoryview, etag: str | None, part: _Part) -> Stream:
        return self._retries.run(lambda: self._go_on(key, buffer, etag, part))

    def _go_on(self, key: str, buffer: memoryview, etag: str | None, part: _Part) -> Stream:
        before = part.done
        try:
            stream = self._open(key, part.at, part.stop, etag)
            stop = min(part.stop, stream.size)
            for chunk in stream.chunks:
                if part.at + len(chunk) > stop:
                    raise Passing(no_answer(self._where.name(key), "it sent more than was asked"))
                buffer[part.at : part.at + len(chunk)] = chunk
                part.done += len(chunk)
            if part.at != stop:
                why = f"the transfer ended at byte {part.at} of {stop}"
                raise Passing(no_answer(self._where.name(key), why))
        except Passing as passing:
            raise Passing(passing.error, progress=part.done > before) from passing
        return stream
