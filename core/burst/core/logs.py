"""What the ranks print, in compressed chunks in the blobs.

    logs/<trial>/<attempt>/<rank>/<sequence>.gz     numbers padded with zeros, so that keys sort

The rank is `launcher` for what started the ranks, or `launcher-<node>` on further nodes of a gang.

A chunk is a header, one line of JSON with the time at which it was shipped and how far into the
printed file it goes, and then the bytes as they were printed. A chunk ends anywhere, within a line
or a character: the reader joins them.
"""

from __future__ import annotations

import gzip
import heapq
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from burst.core.blobs.port import Blobs
from burst.core.clock import Clock, SystemClock
from burst.core.errors import UsageError

LAUNCHER = -1
"""The rank under which the launcher's own output goes, and that of set-up commands. On further
nodes of a gang it is less, see `launcher_of`."""
LONGEST_LINE_BYTES = 1 << 20
"""A line longer than this is cut."""

_LAUNCHER_NAME = "launcher"
_KEY = re.compile(r"^logs/[^/]+/(\d+)/(\d+|launcher(?:-\d+)?)/(\d+)\.gz$")
_SYSTEM_CLOCK = SystemClock()

Stream = tuple[int, int]  # attempt, rank
Position = tuple[int, int]  # sequence of a chunk, offset in its bytes


@dataclass(frozen=True)
class LogLine:
    attempt: int
    rank: int
    at: float
    """When the chunk in which it begins was shipped."""
    text: str
    """Without its end. Of a progress bar that redraws itself, the last drawing."""
    whole: bool = True
    """False for what has no end yet; it comes again, and longer, once it has."""


class LogWriter:
    """Ships one rank's output. One writer a stream at a time."""

    def __init__(
        self, blobs: Blobs, trial: str, attempt: int, rank: int, *, clock: Clock = _SYSTEM_CLOCK
    ) -> None:
        self._blobs = blobs
        self._folder = f"{_prefix(trial)}{attempt:04d}/{_rank_name(rank)}/"
        self._clock = clock
        self._sequence: int | None = None
        self._done = 0  # bytes of a call that failed which were written all the same
        self._tried = 0  # bytes behind those that may have been written

    def ship(self, data: bytes, position: int | None = None) -> None:
        """Write `data` as the next chunk; nothing if it is empty.

        If the blobs do not answer, call again with the same bytes and whatever came behind them:
        what may have been written the first time is written again under the same key.

        Args:
            position: how many bytes of the printed file are in the blobs with this chunk.

        Raises:
            BurstError: the blobs did not take it.
        """
        if self._sequence is None:
            self._sequence = self._next_sequence()
        rest = data[self._done :]
        for part in (rest[: self._tried], rest[self._tried :]):
            if not part:
                continue
            self._tried = len(part)
            whole = position is not None and self._done + len(part) == len(data)
            facts = {"at": self._clock.now(), **({"position": position} if whole else {})}
            header = json.dumps(facts).encode() + b"\n"
            key = f"{self._folder}{self._sequence:08d}.gz"
            self._blobs.put(key, gzip.compress(header + part, compresslevel=5, mtime=0))
            self._sequence += 1
            self._done += len(part)
            self._tried = 0
        self._done = 0

    def position(self) -> int:
        """How many bytes of the printed file are in the blobs, as the newest chunk says; 0 if it
        does not.

        Raises:
            BurstError: the blobs do not answer.
        """
        newest = max((key for _, key in self._chunks()), default="")
        if not newest:
            return 0
        header, _, _ = gzip.decompress(self._blobs.get(newest)).partition(b"\n")
        return int(json.loads(header).get("position", 0))

    def _next_sequence(self) -> int:
        return max((sequence for sequence, _ in self._chunks()), default=-1) + 1

    def _chunks(self) -> Iterator[tuple[int, str]]:
        for found in self._blobs.list(self._folder):
            if match := _KEY.match(found.key):
                yield int(match[3]), found.key


class LogReader:
    """Lines of a trial, as far as they have come; call `read` again for what came since."""

    def __init__(
        self,
        blobs: Blobs,
        trial: str,
        *,
        attempt: int | None = None,
        rank: int | None = None,
        after: str = "",
    ) -> None:
        """Reads one attempt or all, one rank or all, beyond the cursor `after`.

        Raises:
            UsageError: `after` is not a cursor.
        """
        self._blobs = blobs
        self._trial = trial
        self._attempt = attempt
        self._rank = rank
        self._positions = _positions_of(after)

    @property
    def cursor(self) -> str:
        """Beyond the last line read; another reader goes on from it."""
        ordered = sorted(self._positions.items())
        return ",".join(f"{a}:{r}:{seq}:{offset}" for (a, r), (seq, offset) in ordered)

    def read(self, *, unfinished: bool = False) -> Iterator[LogLine]:
        """The lines that came since, by attempt, then by the time they were shipped.

        `unfinished`: also what each rank has printed since its last end of line.
        """
        streams = self._streams()
        for attempt in sorted({attempt for attempt, _ in streams}):
            merged = heapq.merge(
                *(
                    self._lines(stream, streams[stream], unfinished)
                    for stream in sorted(streams)
                    if stream[0] == attempt
                ),
                key=lambda pair: pair[0].at,
            )
            for line, position in merged:
                self._positions[line.attempt, line.rank] = position
                yield line

    def _streams(self) -> dict[Stream, list[tuple[int, str]]]:
        """The chunks to read, by stream, as (sequence, key)."""
        prefix = _prefix(self._trial)
        if self._attempt is not None:
            prefix += f"{self._attempt:04d}/"
        streams: dict[Stream, list[tuple[int, str]]] = {}
        for found in self._blobs.list(prefix):
            match = _KEY.match(found.key)
            if match is None:
                continue
            stream = int(match[1]), _rank_of(match[2])
            first = self._positions.get(stream, (0, 0))[0]
            if self._rank in (None, stream[1]) and int(match[3]) >= first:
                streams.setdefault(stream, []).append((int(match[3]), found.key))
        return streams

    def _lines(
        self, stream: Stream, chunks: list[tuple[int, str]], unfinished: bool
    ) -> Iterator[tuple[LogLine, Position]]:
        """The lines of one stream, each with the position beyond it."""
        start = self._positions.get(stream, (0, 0))
        began = 0.0
        rest = b""
        for sequence, key in chunks:
            at, data = _decode(self._blobs.get(key))
            offset = start[1] if sequence == start[0] and not rest else 0
            data = data[offset:]
            began = began if rest else at
            known = len(rest)
            lines, cut = _split(rest + data)
            passed = 0
            for raw in lines:
                passed += len(raw)
                beyond = (sequence, offset + passed - known)
                yield LogLine(*stream, began, _text(raw)), beyond
                began = at
            rest = (rest + data)[cut:]
            if cut:
                start, began = (sequence, offset + cut - known), at
            if not rest:
                start = (sequence + 1, 0)
        if chunks:
            self._positions[stream] = start
        if rest and unfinished:
            yield LogLine(*stream, began, _text(rest), whole=False), start


def read_logs(
    blobs: Blobs,
    trial: str,
    *,
    attempt: int | None = None,
    rank: int | None = None,
    after: str = "",
) -> Iterator[LogLine]:
    """All there is now, with what has no end yet. To follow, keep a `LogReader`."""
    return LogReader(blobs, trial, attempt=attempt, rank=rank, after=after).read(unfinished=True)


def _prefix(trial: str) -> str:
    return f"logs/{trial}/"


def launcher_of(node_rank: int) -> int:
    """The rank under which the launcher's output goes on a gang's node."""
    return LAUNCHER - node_rank


def is_launcher(rank: int) -> bool:
    return rank <= LAUNCHER


def _rank_name(rank: int) -> str:
    if rank == LAUNCHER:
        return _LAUNCHER_NAME
    return f"{_LAUNCHER_NAME}-{LAUNCHER - rank:04d}" if is_launcher(rank) else f"{rank:04d}"


def _rank_of(name: str) -> int:
    if name == _LAUNCHER_NAME:
        return LAUNCHER
    launcher, _, number = name.partition("-")
    return launcher_of(int(number)) if number else int(launcher)


def _decode(body: bytes) -> tuple[float, bytes]:
    header, _, data = gzip.decompress(body).partition(b"\n")
    return float(json.loads(header)["at"]), data


def _split(data: bytes) -> tuple[list[bytes], int]:
    """The whole lines in `data`, ends included, and where what is still to come begins.

    A drawing that another one has replaced (a carriage return and more behind it) is passed by,
    so that a progress bar that runs for hours is not kept and read again for hours.
    """
    *whole, rest = data.split(b"\n")
    lines = [line + b"\n" for line in whole]
    while len(rest) > LONGEST_LINE_BYTES:
        lines.append(rest[:LONGEST_LINE_BYTES])
        rest = rest[LONGEST_LINE_BYTES:]
    current = rest.rstrip(b"\r").rfind(b"\r") + 1
    return lines, len(data) - len(rest) + current


def _text(raw: bytes) -> str:
    shown = raw.rstrip(b"\r\n")
    return shown[shown.rfind(b"\r") + 1 :].decode("utf-8", "replace")


def _positions_of(cursor: str) -> dict[Stream, Position]:
    positions: dict[Stream, Position] = {}
    try:
        for item in cursor.split(",") if cursor else ():
            attempt, rank, sequence, offset = map(int, item.split(":"))
            positions[attempt, rank] = (sequence, offset)
    except ValueError as error:
        raise UsageError(f"{cursor!r} is not a place in the logs") from error
    return positions
