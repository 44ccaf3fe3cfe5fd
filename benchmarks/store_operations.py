"""What one pass of the runner asks of the store, beside ever more that is finished.

A hundred trials run on twenty-five nodes, and ten, a thousand or ten thousand others of the same
experiment are over, each with a checkpoint. DynamoDB's requests are counted on the line, SQLite's
statements where they are executed.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from unittest.mock import patch

from benchmarks.result import Result
from benchmarks.store_meter import Meter, metered
from burst.core.blobs import open_blobs
from burst.core.clock import SystemClock
from burst.core.config.cluster import ClusterConfig, LocalPool
from burst.core.config.experiment import ExperimentConfig
from burst.core.ids import trial_id
from burst.core.model import (
    Allocation,
    Checkpoint,
    Code,
    Experiment,
    Lease,
    Node,
    Record,
    Share,
    Slot,
    Trial,
)
from burst.core.states import AllocationState, TrialState
from burst.core.store.dynamodb.store import DynamoStore
from burst.core.store.port import Put, Store
from burst.core.store.sqlite import SqliteStore
from burst.core.testing.ministack import ENVIRON, ministack
from burst.core.workspace import Workspace
from burst.runner.pools.fake import FakePool
from burst.runner.reconcile import Context, make_context, reconcile
from burst.runner.search.book import Book

FINISHED = (10, 1_000, 10_000)
LIVE, SLOTS = 100, 4
PASSES = 5
EXPERIMENT = "exp-1m3k9zq4w7c"
_A_COMMIT = 45
_CLOCK = SystemClock()


@dataclass(frozen=True)
class _Taken:
    first: Counter[str]
    """Of a runner that has just begun."""
    next: Counter[str]
    """Of each pass after that."""
    seconds: float
    """Of each of those, the fastest."""


def measure() -> list[Result]:
    with patch.dict(os.environ, ENVIRON), tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with ministack(root / "log") as server, metered(server) as meter:
            found = {n: _on_dynamodb(root / f"d{n}", n, server, meter) for n in FINISHED}
        statements = {n: _on_sqlite(root / f"s{n}", n) for n in FINISHED}
    return [
        *_rows("DynamoDB requests", found),
        *_rows("SQLite statements", statements),
    ]


def _rows(what: str, found: dict[int, _Taken]) -> Iterator[Result]:
    least = found[FINISHED[0]]
    for when, few in (("the first pass", least.first), ("each pass after it", least.next)):
        for finished in FINISHED[1:]:
            taken = found[finished]
            counts = taken.first if few is least.first else taken.next
            ratio = counts.total() / few.total()
            kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
            yield Result(
                what=f"{what} of {when}, {LIVE} trials live, {finished:,} finished",
                ours=f"{counts.total()}",
                against=f"with {FINISHED[0]} finished {few.total()}",
                ratio=ratio,
                target="1.00×",
                met=ratio == 1.0,
                note=f"{kinds}; {taken.seconds * 1e3:.0f} ms" if finished == FINISHED[-1] else "",
            )


def _on_dynamodb(folder: Path, finished: int, server: str, meter: Meter) -> _Taken:
    table = f"dynamodb://burst-{finished}?endpoint_url="
    with closing(DynamoStore(table + server)) as store:
        store.table.create()
        _fill(store, finished)
    with closing(DynamoStore(table + meter.url)) as store:
        before = meter.now()

        def counted() -> Counter[str]:
            nonlocal before
            now = meter.now()
            taken, before = now - before, now
            return taken.requests

        return _passes(folder, store, counted)


def _on_sqlite(folder: Path, finished: int) -> _Taken:
    folder.mkdir()
    with closing(SqliteStore(folder / "store.db")) as store:
        _fill(store, finished)
        heard: list[str] = []
        store._file._open().set_trace_callback(heard.append)

        def counted() -> Counter[str]:
            taken = Counter(sql.split()[0] for sql in heard)
            heard.clear()
            return taken

        return _passes(folder, store, counted)


def _passes(folder: Path, store: Store, counted: Callable[[], Counter[str]]) -> _Taken:
    context = _context(folder, store)
    _rest(context)
    counted()
    context = _context(folder, store)  # a runner that has just begun, with nothing to do
    reconcile(context)
    first, took, each = counted(), [], Counter[str]()
    for _ in range(PASSES):
        began = time.perf_counter()
        reconcile(context)
        took.append(time.perf_counter() - began)
        each = counted()
    return _Taken(first, each, min(took))


def _rest(context: Context) -> None:
    """Until nothing is left to be done, but to watch."""
    for _ in range(20):
        if reconcile(context) != 0.0:
            return
    raise RuntimeError("reconcile never comes to rest")


def _context(folder: Path, store: Store) -> Context:
    folder.mkdir(exist_ok=True)
    pool = FakePool("local", _CLOCK, slots_per_node=SLOTS, max_nodes=LIVE // SLOTS)
    for node in store.live(Node):
        pool.make(node.id, node.launch)
    cluster = ClusterConfig(pools={"local": LocalPool()})
    ws = Workspace(folder, cluster, store, open_blobs(f"file://{folder}/blobs"))
    return make_context(ws, _CLOCK, {"local": pool})


def _fill(store: Store, finished: int) -> None:
    records = _records(finished, _CLOCK.now())
    while some := list(islice(records, _A_COMMIT)):
        store.commit(*map(Put, some))


def _records(finished: int, now: float) -> Iterator[Record]:
    yield _experiment(finished, now)
    nodes = [f"node-1m3k9zq4w{number:02d}" for number in range(LIVE // SLOTS)]
    for id in nodes:
        yield _node(id, now)
        yield Lease(id=id, length=3600.0)
    for number in range(LIVE):
        yield _trial(number, TrialState.RUNNING, now)
        yield _checkpoint(number, now)
        yield _allocation(number, nodes, now)
    for number in range(LIVE, LIVE + finished):
        yield _trial(number, TrialState.COMPLETED, now)
        yield _checkpoint(number, now)


def _experiment(finished: int, now: float) -> Experiment:
    config = ExperimentConfig.model_validate(
        {
            "name": "many",
            "entrypoint": "train:Trial",
            "searcher": {"name": "single"},
            "hyperparameters": {},
            "reproducibility": {"experiment_seed": 1},
        }
    )
    return Experiment(
        id=EXPERIMENT,
        name="many",
        owner="ada",
        created=now,
        state_since=now,
        config=config.model_dump(mode="json"),
        code=Code(digest="0" * 64, size=1),
        search=Book(shut=True, closed={"completed": finished}).written(),
        trials=LIVE + finished,
    )


def _trial(number: int, state: TrialState, now: float) -> Trial:
    return Trial(
        id=trial_id(EXPERIMENT, number),
        experiment=EXPERIMENT,
        number=number,
        seed=number,
        slots=1,
        pools=("local",),
        pool="local",
        created=now,
        queued=now,
        state=state,
        state_since=now,
        token=1,
        attempts=1,
        checkpoint=_checkpoint_id(number),
        checkpoint_at=now,
    )


def _checkpoint(number: int, now: float) -> Checkpoint:
    trial, id = trial_id(EXPERIMENT, number), _checkpoint_id(number)
    return Checkpoint(
        id=id,
        trial=trial,
        experiment=EXPERIMENT,
        attempt=1,
        batches=100,
        created=now,
        url="file:///blobs",
        manifest=f"checkpoints/{trial}/{id}/manifest.json",
        size=4096,
    )


def _checkpoint_id(number: int) -> str:
    return f"ckpt-1m3k9z{number:05d}"


def _node(id: str, now: float) -> Node:
    slots = tuple(Slot(index=index) for index in range(SLOTS))
    dates = {"requested": now, "launched": now, "registered": now, "ready": now}
    return Node(id=id, pool="local", expected_slots=SLOTS, slots=slots, **dates)


def _allocation(number: int, nodes: Sequence[str], now: float) -> Allocation:
    return Allocation(
        id=f"alloc-1m3k9z{number:05d}",
        trial=trial_id(EXPERIMENT, number),
        experiment=EXPERIMENT,
        pool="local",
        attempt=1,
        token=1,
        shares=(Share(node=nodes[number // SLOTS], slots=(number % SLOTS,)),),
        created=now,
        started=now,
        state=AllocationState.RUNNING,
        state_since=now,
    )
