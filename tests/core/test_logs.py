"""Logs: what ranks print comes back line by line, wherever the chunks were cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core import logs
from burst.core.blobs.folder import FolderBlobs
from burst.core.clock import ManualClock
from burst.core.errors import Unreachable, UsageError
from burst.core.logs import LAUNCHER, LogLine, LogReader, LogWriter, read_logs
from burst.core.testing.examples import TRIAL


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "blobs")


def ship(blobs: FolderBlobs, *chunks: bytes, attempt: int = 1, rank: int = 0) -> None:
    clock = ManualClock(1000.0)
    writer = LogWriter(blobs, TRIAL, attempt, rank, clock=clock)
    for chunk in chunks:
        writer.ship(chunk)
        clock.advance(2.0)


def texts(blobs: FolderBlobs) -> list[str]:
    return [line.text for line in read_logs(blobs, TRIAL)]


def test_chunks_lie_where_the_layout_says(blobs: FolderBlobs) -> None:
    ship(blobs, b"a\n", b"b\n")
    ship(blobs, b"c\n", attempt=12, rank=LAUNCHER)
    assert [info.key for info in blobs.list("")] == [
        f"logs/{TRIAL}/0001/0000/00000000.gz",
        f"logs/{TRIAL}/0001/0000/00000001.gz",
        f"logs/{TRIAL}/0012/launcher/00000000.gz",
    ]


def test_a_line_knows_its_attempt_rank_and_time(blobs: FolderBlobs) -> None:
    ship(blobs, b"one\n", b"two\nthr", b"ee\nfour", attempt=3, rank=2)
    assert list(read_logs(blobs, TRIAL)) == [
        LogLine(3, 2, 1000.0, "one"),
        LogLine(3, 2, 1002.0, "two"),
        LogLine(3, 2, 1002.0, "three"),
        LogLine(3, 2, 1004.0, "four", whole=False),
    ]


def test_attempts_come_in_order_and_ranks_by_time(blobs: FolderBlobs) -> None:
    ship(blobs, b"late\n", attempt=2)
    ship(blobs, b"r0 at 0\n", b"r0 at 2\n")
    ship(blobs, b"r1 at 0\n", b"r1 at 2\n", rank=1)
    ship(blobs, b"starting\n", rank=LAUNCHER)
    assert texts(blobs) == ["starting", "r0 at 0", "r1 at 0", "r0 at 2", "r1 at 2", "late"]


def test_one_attempt_and_one_rank_can_be_asked_for(blobs: FolderBlobs) -> None:
    for attempt in (1, 2):
        for rank in (LAUNCHER, 0, 1):
            ship(blobs, f"{attempt} {rank}\n".encode(), attempt=attempt, rank=rank)
    assert [x.text for x in read_logs(blobs, TRIAL, attempt=2)] == ["2 -1", "2 0", "2 1"]
    assert [x.text for x in read_logs(blobs, TRIAL, rank=0)] == ["1 0", "2 0"]
    assert [x.text for x in read_logs(blobs, TRIAL, attempt=1, rank=LAUNCHER)] == ["1 -1"]
    assert list(read_logs(blobs, TRIAL, attempt=3)) == []


def test_a_trial_without_logs_has_none(blobs: FolderBlobs) -> None:
    assert list(read_logs(blobs, TRIAL)) == []
    assert LogReader(blobs, TRIAL).cursor == ""


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b" 10%\r 50%\r100%\n", ["100%"]),
        (b"\r 10%\r 50%\rdone\n", ["done"]),
        (b" 10%\r 50%\r", [" 50%"]),
        (b"\r 10%\r 50%", [" 50%"]),
        (b"windows\r\nlines\r\n", ["windows", "lines"]),
        (b"\r\n", [""]),
        (b"\n\n", ["", ""]),
        (b"\xc3\xa9t\xc3\xa9 \xff\n", ["été \ufffd"]),
        (b"\0 nul and \x1b[31mcolour\x1b[0m\n", ["\0 nul and \x1b[31mcolour\x1b[0m"]),
        (b"form\x0cfeed \xe2\x80\xa8 is no end\n", ["form\x0cfeed \u2028 is no end"]),
    ],
)
def test_what_was_printed_is_shown_as_a_terminal_would(
    blobs: FolderBlobs, printed: bytes, shown: list[str]
) -> None:
    ship(blobs, printed)
    assert texts(blobs) == shown


PRINTED = st.lists(
    st.sampled_from([b"a", b"bc", "é".encode(), b"\n", b"\r", b"\r\n", b"\xff", b" 10%\r"]),
    max_size=30,
).map(b"".join)


@given(printed=PRINTED, data=st.data())
def test_where_chunks_are_cut_and_readers_stop_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, printed: bytes, data: st.DataObject
) -> None:
    whole = FolderBlobs(tmp_path_factory.mktemp("whole"))
    ship(whole, printed)
    expected = [(line.text, line.whole) for line in read_logs(whole, TRIAL)]

    blobs = FolderBlobs(tmp_path_factory.mktemp("cut"))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(printed)), max_size=5)))
    writer = LogWriter(blobs, TRIAL, 1, 0, clock=ManualClock())
    cursor, seen = "", []
    for start, stop in zip([0, *cuts], [*cuts, len(printed)], strict=True):
        writer.ship(printed[start:stop])
        reader = LogReader(blobs, TRIAL, after=cursor)
        few = data.draw(st.integers(0, 3))
        for line in reader.read():
            seen.append((line.text, line.whole))
            few -= 1
            if few < 0:
                break  # as a reader that goes away after any line
        cursor = reader.cursor
    seen += [
        (x.text, x.whole) for x in LogReader(blobs, TRIAL, after=cursor).read(unfinished=True)
    ]
    assert seen == expected


def test_following_reads_each_line_once(blobs: FolderBlobs) -> None:
    reader = LogReader(blobs, TRIAL)
    ship(blobs, b"one\ntwo", rank=0)
    assert [x.text for x in reader.read()] == ["one"]
    assert [x.text for x in reader.read(unfinished=True)] == ["two"]
    ship(blobs, b" and a half\nthree\n", rank=0)
    ship(blobs, b"other\n", rank=1)
    assert [x.text for x in reader.read()] == ["two and a half", "three", "other"]
    assert list(reader.read()) == []


def test_following_reads_no_chunk_that_is_done_with(
    blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[str] = []
    get = FolderBlobs.get

    def noting_get(self: FolderBlobs, key: str) -> bytes:
        got.append(key[-11:])
        return get(self, key)

    monkeypatch.setattr(FolderBlobs, "get", noting_get)
    reader = LogReader(blobs, TRIAL)
    for number in range(5):
        ship(blobs, f"{number} %\r".encode() * 100)
        list(reader.read(unfinished=True))
    assert got == [f"{n:08d}.gz" for n in (0, 0, 1, 1, 2, 2, 3, 3, 4)]


def test_a_line_without_end_is_cut(blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LONGEST_LINE_BYTES", 10)
    ship(blobs, b"0123456789abcde", b"fghijk", b"lmno\nend\n")
    assert texts(blobs) == ["0123456789", "abcdefghij", "klmno", "end"]


def test_a_writer_that_starts_again_goes_on_behind_the_last_chunk(blobs: FolderBlobs) -> None:
    ship(blobs, b"before\n")
    ship(blobs, b"after\n")
    assert texts(blobs) == ["before", "after"]


def test_nothing_printed_writes_nothing(blobs: FolderBlobs) -> None:
    ship(blobs, b"")
    assert list(blobs.list("")) == []


class Failing(FolderBlobs):
    """Fails at the calls it is told to: before the write, or after it, as a lost answer."""

    def __init__(self, root: Path, plan: str) -> None:
        super().__init__(root)
        self.plan = list(plan)

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        step = self.plan.pop(0) if self.plan else "ok"
        if step == "b":
            raise Unreachable("no answer")
        super().put(key, data)
        if step == "a":
            raise Unreachable("no answer")


@pytest.mark.parametrize("plan", ["b", "a", "bb", "aa", "ab", "ba", ".b", ".a", ".ab", "b.a"])
def test_a_failed_shipment_is_repeated_without_loss_or_repetition(
    tmp_path: Path, plan: str
) -> None:
    blobs = Failing(tmp_path / "blobs", plan)
    writer = LogWriter(blobs, TRIAL, 1, 0, clock=ManualClock())
    reader = LogReader(blobs, TRIAL)
    printed, shipped, seen = b"", 0, []
    for number in range(6):
        printed += f"line {number}\nand".encode()
        try:
            writer.ship(printed[shipped:])
            shipped = len(printed)
        except Unreachable:
            pass
        seen += [line.text for line in reader.read()]
    assert seen == "".join(f"line {n}\nand" for n in range(6)).split("\n")[:-1]


@pytest.mark.parametrize("cursor", ["x", "1:2", "1:0:0:0,", "1:0:0:x"])
def test_a_cursor_that_no_reader_gave_out_is_refused(blobs: FolderBlobs, cursor: str) -> None:
    with pytest.raises(UsageError, match="not a place in the logs"):
        LogReader(blobs, TRIAL, after=cursor)
