"""Logs on their way to the blobs: nothing lost, nothing twice, whatever the blobs answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.blobs.folder import FolderBlobs
from burst.core.errors import Unreachable
from burst.core.logs import LAUNCHER, read_logs
from burst.runner.agent.attempts import shipping
from burst.runner.agent.attempts.shipping import Shipper, ShippingThread, free_blocks
from burst.runner.agent.ends.tails import failing_log, last_lines_of, tail_of

TRIAL = "exp-00000000000.t0000"


class Shaky(FolderBlobs):
    """Fails the puts that it is told to: before writing, or after, with the answer lost."""

    def __init__(self, root: Path, faults: list[str] | None = None) -> None:
        super().__init__(root)
        self.faults = faults or []

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise Unreachable("no answer")
        super().put(key, data)
        if fault == "after":
            raise Unreachable("the answer was lost")


def _folder(root: Path) -> Path:
    (root / "logs").mkdir(parents=True)
    return root


def _append(folder: Path, text: str, name: str = "rank0.log") -> None:
    with (folder / "logs" / name).open("a") as file:
        file.write(text)


def _text(blobs: FolderBlobs, rank: int = 0) -> str:
    return "".join(f"{line.text}\n" for line in read_logs(blobs, TRIAL, rank=rank))


@given(
    st.lists(
        st.tuples(st.text("ab\n", max_size=9), st.sampled_from(["", "before", "after"])),
        max_size=12,
    )
)
def test_every_byte_arrives_once_in_order_whatever_fails(
    steps: list[tuple[str, str]],
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder, blobs = _folder(Path(name) / "alloc"), Shaky(Path(name) / "blobs")
        shipper = Shipper(blobs, folder, TRIAL, 1)
        for text, fault in steps:
            _append(folder, text)
            blobs.faults = [fault]
            shipper.ship()
        blobs.faults = []
        _append(folder, "end\n")
        assert shipper.ship(final=True)
        assert _text(blobs) == "".join(text for text, _ in steps) + "end\n"


def test_a_secret_is_masked_where_it_lies_across_two_looks(tmp_path: Path) -> None:
    folder, blobs = _folder(tmp_path / "a"), FolderBlobs(tmp_path / "b")
    shipper = Shipper(blobs, folder, TRIAL, 1, ["hunter22"])
    _append(folder, "it is hun")
    shipper.ship()
    _append(folder, "ter22 and hunt")
    shipper.ship()
    assert shipper.ship(final=True)
    assert _text(blobs) == "it is *** and hunt\n"


def test_the_launcher_and_every_rank_have_their_own_stream(tmp_path: Path) -> None:
    folder, blobs = _folder(tmp_path / "a"), FolderBlobs(tmp_path / "b")
    for name in ("launcher.log", "rank0.log", "rank11.log", "other.txt"):
        _append(folder, f"{name}\n", name)
    assert Shipper(blobs, folder, TRIAL, 1).ship(final=True)
    assert _text(blobs, LAUNCHER) == "launcher.log\n"
    assert _text(blobs, 11) == "rank11.log\n"


def test_a_successor_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    folder, blobs = _folder(tmp_path / "a"), FolderBlobs(tmp_path / "b")
    _append(folder, "one\n")
    Shipper(blobs, folder, TRIAL, 1).ship()
    _append(folder, "two\n")
    assert Shipper(blobs, folder, TRIAL, 1).ship(final=True)
    assert _text(blobs) == "one\ntwo\n"


def test_a_backlog_is_bounded_and_what_was_left_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "LONGEST_BACKLOG_BYTES", 1000)
    folder, blobs = _folder(tmp_path / "a"), FolderBlobs(tmp_path / "b")
    _append(folder, "x" * 4999 + "\n")
    assert Shipper(blobs, folder, TRIAL, 1).ship(final=True)
    assert "[burst: 4500 bytes left out" in _text(blobs)
    assert _text(blobs).endswith("x" * 499 + "\n")


def test_finishing_waits_no_longer_than_it_is_told_and_goes_on_trying(tmp_path: Path) -> None:
    folder, blobs = _folder(tmp_path / "a"), Shaky(tmp_path / "b", ["before"] * 3)
    _append(folder, "last\n")
    thread = ShippingThread(Shipper(blobs, folder, TRIAL, 1), every=0.02)
    thread.start()
    thread.finish(0.0)
    assert thread.finish(10.0)
    assert _text(blobs) == "last\n"


def test_an_abandoned_thread_ends(tmp_path: Path) -> None:
    folder, blobs = _folder(tmp_path / "a"), Shaky(tmp_path / "b", ["before"] * 1000)
    _append(folder, "last\n")
    thread = ShippingThread(Shipper(blobs, folder, TRIAL, 1), every=0.01)
    thread.start()
    assert not thread.finish(0.05)
    thread.abandon()
    thread._thread.join(10)
    assert not thread._thread.is_alive()


def test_shipped_blocks_are_given_back_and_the_rest_stays(disk: Path) -> None:
    path = disk / "log"
    path.write_bytes(b"a" * (8 << 20) + b"end")
    before = path.stat().st_blocks
    free_blocks(path, 4 << 20)
    if path.stat().st_blocks == before:
        pytest.skip("this file system keeps its blocks")
    assert path.stat().st_size == (8 << 20) + 3
    assert tail_of(path).endswith("aend")


def test_the_rank_that_failed_first_is_the_one_whose_log_stopped_first(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a")
    trace = "Traceback (most recent call last):\n  File\n{}: bad\n"
    _append(folder, "Traceback (most recent call last):\n  x\nLauncherError: y\n", "launcher.log")
    for number, at in ((0, 30), (1, 10), (2, 20)):
        _append(folder, trace.format(f"Error{number}"), f"rank{number}.log")
        os.utime(folder / "logs" / f"rank{number}.log", (at, at))
    _append(folder, "fine\n", "rank3.log")
    rank, text = failing_log(folder / "logs")
    assert rank == 1
    assert "Error1" in text


def test_without_a_ranks_word_the_launcher_is_asked(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a")
    assert failing_log(folder / "logs") == (None, "")
    _append(folder, "No module named burst.harness\n", "launcher.log")
    assert failing_log(folder / "logs")[1].startswith("No module")
    _append(folder, "step 1\n", "rank2.log")
    assert failing_log(folder / "logs") == (2, "step 1\n")


def test_the_last_lines_begin_where_they_are_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("earlier\nlater\n")
    assert last_lines_of(path, begin=8) == "later"
    assert last_lines_of(tmp_path / "none") == ""


def test_nothing_comes_twice_though_the_first_shipper_died_before_it_noted_how_far_it_was(
    tmp_path: Path,
) -> None:
    blobs, folder = FolderBlobs(tmp_path / "blobs"), _folder(tmp_path / "attempt")
    _append(folder, "first\n")
    Shipper(blobs, folder, TRIAL, 1).ship()
    (folder / "shipped.json").unlink()
    _append(folder, "last words\n")
    assert Shipper(blobs, folder, TRIAL, 1).ship(final=True)
    assert _text(blobs) == "first\nlast words\n"
