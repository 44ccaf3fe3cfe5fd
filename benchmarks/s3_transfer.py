"""Files of a checkpoint to S3 and back, hashed, beside the clients that others use.

Against a server that costs nothing, which shows the clients' own limit, and against SeaweedFS, a
real server that verifies what it gets, on the same two cores.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from unittest.mock import patch

from benchmarks.result import Result
from benchmarks.s3 import clients
from burst.core.testing.seaweed import ENVIRON, seaweedfs

FILE = 32 * 2**20
ON_NULL, ON_SEAWEED = 32, 8
"""Files. SeaweedFS keeps what was sent, and keeps it in memory here."""
ROUNDS = 3
BUCKET = "bench"
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class _Taken:
    wall: float
    cpu: float


def measure() -> list[Result]:
    # boto3 would sign through awscrt where that is installed, which halves its speed.
    with (
        patch.dict(os.environ, {**ENVIRON, "BOTO_DISABLE_CRT": "true"}),
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder,
    ):
        return [*_on_null(Path(folder)), *_on_seaweed(Path(folder))]


def _on_null(folder: Path) -> Iterator[Result]:
    one = _pages(FILE)
    one[:] = os.urandom(FILE)
    path = folder / "object"
    path.write_bytes(one)
    with _null_server(path) as url:
        yield from _race(url, folder / "null", [one] * ON_NULL, "a server that costs nothing")


def _on_seaweed(folder: Path) -> Iterator[Result]:
    whole = _pages(FILE * ON_SEAWEED)
    files = [whole[start : start + FILE] for start in range(0, len(whole), FILE)]
    for data in files:
        data[:] = os.urandom(FILE)
    with seaweedfs(folder / "weed", BUCKET) as url:
        yield from _race(url, folder / "weed-s5cmd", files, "SeaweedFS")


def _race(url: str, scratch: Path, files: Sequence[memoryview], server: str) -> Iterator[Result]:
    racers = _racers(url, scratch, files)
    digests = [hashlib.sha256(data).hexdigest() for data in files]
    room = FILE + mmap.PAGESIZE
    back = _pages(room * len(files))
    into = [back[n * room : (n + 1) * room] for n in range(len(files))]
    ways: dict[str, Callable[[clients.Client], None]] = {
        "up": lambda client: client.up(files),
        "down": lambda client: client.down(into, digests),
    }
    for way, go in ways.items():
        for client in racers.values():
            go(client)  # connections, caches, and the files to fetch
        order, rounds = list(racers), []
        for _ in range(ROUNDS):
            rounds.append({name: _timed(go, racers[name]) for name in order})
            order = order[2:] + order[:2]  # so that nobody always goes first
        yield _row(f"{len(files) * FILE // 2**20} MiB {way}, {server}", racers, rounds)


def _row(
    what: str, racers: Mapping[str, clients.Client], rounds: Sequence[Mapping[str, _Taken]]
) -> Result:
    walls = {name: statistics.median(each[name].wall for each in rounds) for name in racers}
    cpus = {name: statistics.median(each[name].cpu for each in rounds) for name in racers}
    ours = walls.pop("burst")
    fastest = min(walls, key=lambda name: walls[name])
    ratio = ours / walls[fastest]
    order = sorted(walls, key=lambda name: walls[name])
    hashless = {name: "" if racers[name].hashed else ", no hash" for name in order}
    others = ", ".join(f"{n} {walls[n]:.2f} s ({cpus[n]:.1f}{hashless[n]})" for n in order)
    return Result(
        what=what,
        ours=f"{ours:.2f} s",
        against=f"{fastest}, the fastest: {walls[fastest]:.2f} s",
        ratio=ratio,
        target="≤ 1.1×",
        met=ratio <= 1.1,
        note=f"files of {FILE // 2**20} MiB, {clients.THREADS} threads, medians of {ROUNDS} "
        f"rounds in turns; burst took {cpus['burst']:.1f} CPU seconds; the others, with theirs: "
        f"{others}",
    )


def _racers(url: str, scratch: Path, files: Sequence[memoryview]) -> dict[str, clients.Client]:
    s5cmd = clients.S5cmd(url, BUCKET, scratch)
    s5cmd.prepare(files)
    return {
        "burst": clients.Ours(url, BUCKET),
        "a minimal client": clients.Minimal(url, BUCKET),
        "obstore": clients.Obstore(url, BUCKET),
        "boto3": clients.Boto3(url, BUCKET),
        "s3torchconnector": clients.TorchConnector(url, BUCKET),
        "s5cmd": s5cmd,
    }


def _timed(go: Callable[[clients.Client], None], client: clients.Client) -> _Taken:
    before, began = _cpu(), time.perf_counter()
    go(client)
    return _Taken(time.perf_counter() - began, _cpu() - before)


def _cpu() -> float:
    """Seconds of processor that this process and its finished children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextmanager
def _null_server(path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.s3.null_server", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield f"http://127.0.0.1:{int(_of(server.stdout).readline())}"
        finally:
            server.kill()


def _of(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise RuntimeError("the server has no output")
    return stream


def _pages(size: int) -> memoryview:
    return memoryview(mmap.mmap(-1, size))
