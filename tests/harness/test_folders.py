"""Files of a script: what `store_path` is given comes back, and what cannot be kept is named."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burst.core.errors import UsageError
from burst.harness.core_checkpoint import CheckpointApi
from burst.harness.distributed import DistributedContext, Place
from burst.harness.folders import is_folder, read_folder, write_folder
from burst.harness.session import Session
from tests.harness.checkpoints.support import Gang
from tests.harness.trial.bench import SOURCE, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def tree(folder: Path) -> dict[str, tuple[int, bytes] | None]:
    """What is in a folder: permissions and bytes of files, None for folders."""
    return {
        path.relative_to(folder).as_posix(): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def store(script: CheckpointApi, write: Callable[[Path], None]) -> None:
    with script.store_path(batches=3) as folder:
        write(folder)


def test_everything_that_was_written_comes_back(bench: Bench) -> None:
    script = bench.core(SOURCE)
    with script.store_path(batches=3) as folder:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "weights.bin").write_bytes(bytes(range(256)))
        (folder / "empty" / "inner").mkdir(parents=True)
        (folder / "nothing").touch()
        (folder / "$").write_text("a name that trees use")
        (folder / "run.sh").write_text("#!/bin/sh\n")
        (folder / "run.sh").chmod(0o750)
        (folder / "fixed").write_text("x")
        (folder / "fixed").chmod(0o444)
        expected = tree(folder)
    script.close()
    again = bench.core(SOURCE)
    with again.restore_path() as folder:
        assert folder is not None
        assert tree(folder) == expected
        assert (folder / "empty" / "inner").is_dir()
    assert again.saved_at == 3
    again.close()


def test_links_are_followed(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "step-3").mkdir(parents=True)
    (source / "step-3" / "w").write_text("3")
    (tmp_path / "elsewhere").write_text("far")
    (source / "latest").symlink_to("step-3")
    (source / "copy").symlink_to(tmp_path / "elsewhere")
    write_folder(read_folder(source), target)
    assert (target / "latest" / "w").read_text() == "3"
    assert (target / "copy").read_text() == "far"
    assert not any(path.is_symlink() for path in target.rglob("*"))


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "a pipe")


def dangling(folder: Path) -> None:
    (folder / "latest").symlink_to("gone")


def circular(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "up").symlink_to(folder)


def endless(folder: Path) -> None:
    (folder / "me").symlink_to("me")


def listening(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)  # a socket's path has to be short
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind("a socket")
    finally:
        os.chdir(here)


def unnamed(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def moved(folder: Path) -> None:
    folder.rename(folder.with_name(folder.name + ".kept"))
    shutil.rmtree(folder.with_name(folder.name + ".kept"))


def untouched(folder: Path) -> None:
    (folder / "good").unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (pipe, "a pipe is a named pipe"),
        (dangling, "latest is a link to nothing"),
        (circular, "sub/up is a link to a folder that it lies in"),
        (endless, "me is not readable"),
        (listening, "a socket is a socket"),
        (unnamed, "not UTF-8"),
        (removed, "was removed or moved"),
        (moved, "was removed or moved"),
        (untouched, "without files"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_name_and_nothing_is_saved(
    bench: Bench, spoil: Callable[[Path], None], said: str
) -> None:
    script = bench.core(SOURCE)

    def write(folder: Path) -> None:
        (folder / "good").write_text("kept")
        spoil(folder)

    with pytest.raises(UsageError) as refused:
        store(script, write)
    assert said in refused.value.why
    assert refused.value.mend
    assert script.restore() is None
    with script.store_path(batches=4) as folder:
        (folder / "good").write_text("kept")
    script.close()
    again = bench.core(SOURCE)
    with again.restore_path() as found:
        assert found is not None
        assert (found / "good").read_text() == "kept"
    again.close()


def test_nothing_is_saved_where_the_block_raises(bench: Bench) -> None:
    script = bench.core(SOURCE)

    def write(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise KeyError("mine")

    with pytest.raises(KeyError):
        store(script, write)
    assert script.restore() is None
    script.close()


def test_checkpoints_of_older_versions_hold_files_alone(bench: Bench) -> None:
    script = bench.core(SOURCE)
    script.save({"files": {"a/b": np.frombuffer(b"old", np.uint8)}}, batches=1)
    script.close()
    again = bench.core(SOURCE)
    with again.restore_path() as folder:
        assert folder is not None
        assert (folder / "a" / "b").read_bytes() == b"old"
    again.close()


def test_a_state_is_not_taken_for_files(bench: Bench) -> None:
    script = bench.core(SOURCE)
    script.save({"files": {"a": 1}, "net": {}}, batches=1)
    script.close()
    again = bench.core(SOURCE)
    with pytest.raises(UsageError, match="holds a state"), again.restore_path():
        pass
    again.close()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", ""])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    for state in ({"files": {name: np.zeros(1, np.uint8)}}, {"files": {}, "folders": [name]}):
        with pytest.raises(UsageError, match="outside"):
            write_folder(state, tmp_path / "deep" / "folder")


NAMES = st.text("ab.$é ", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
TREES = st.recursive(
    st.binary(max_size=9), lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(NAMES, TREES, min_size=1, max_size=3))
def test_any_folder_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, made: dict[str, Any]
) -> None:
    base = tmp_path_factory.mktemp("folder")
    grow(base / "one", made)
    state = read_folder(base / "one")
    assert is_folder(state)
    write_folder(state, base / "two")
    assert tree(base / "two") == tree(base / "one")


def grow(folder: Path, made: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    for name, inner in made.items():
        if isinstance(inner, bytes):
            (folder / name).write_bytes(inner)
        else:
            grow(folder / name, inner)


# --- several ranks -----------------------------------------------------------------------------


class Rank(DistributedContext):
    """A rank of a gang of threads."""

    def __init__(self, gang: Gang, rank: int) -> None:
        super().__init__(Place(rank=rank, size=gang.size))
        self._gang = gang

    def allgather(self, value: Any) -> list[Any]:
        return self._gang.exchange(self.rank, value)


class Noting(CheckpointApi):
    """Notes what would be saved."""

    saved: Any = None

    def save(self, state: Any, batches: int, **more: Any) -> None:
        self.saved = state


def on_two_ranks(write: Callable[[Path, int], None]) -> list[Any]:
    """What each rank would save, or raised."""
    gang = Gang(2)

    def act(rank: int) -> Any:
        api = Noting(Session(distributed=Rank(gang, rank)), None, lambda batches: None)
        try:
            store(api, lambda folder: write(folder, rank))
        except UsageError as error:
            return error
        return api.saved

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(act, range(2)))


def test_the_files_of_rank_0_are_kept() -> None:
    def write(folder: Path, rank: int) -> None:
        (folder / "w").write_text(f"{rank}")

    first, second = on_two_ranks(write)
    assert first["files"]["w"].tobytes() == b"0"
    assert second == {}


def test_every_rank_raises_what_one_has_to_so_that_none_waits_for_the_others() -> None:
    def write(folder: Path, rank: int) -> None:
        if rank == 0:
            os.mkfifo(folder / "pipe")

    first, second = on_two_ranks(write)
    assert isinstance(first, UsageError)
    assert str(first) == str(second)


def test_files_that_another_rank_alone_has_written_are_named() -> None:
    def write(folder: Path, rank: int) -> None:
        (folder / f"rank-{rank}.bin").write_text("x")

    for error in on_two_ranks(write):
        assert isinstance(error, UsageError)
        assert error.why == "rank 1: rank-1.bin"
