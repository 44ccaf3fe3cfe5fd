"""Ten thousand metric reports a second, and what they cost the steps of the trial that reports.

Steps of a small network are timed with and without reports, in turn, into a real SQLite store on
the disk. The reporter's thread shares the interpreter with the steps, so what it takes shows here.
"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from benchmarks.result import Result
from burst.core.model import Code, Experiment, Trial
from burst.core.store import open_store
from burst.core.store.port import Put, Store
from burst.harness.chunks import Origin
from burst.harness.progress import Progress, StoreSink
from burst.harness.reporting import Reporter

RATE = 10_000
SECONDS = 6.0
"""More than the reporter's period, so that each round holds a flush."""
ROUNDS = 5
EXPERIMENT = "exp-1m3k9zq4w7c"
TRIAL = f"{EXPERIMENT}.t0000"


def _open(folder: Path) -> Store:
    store = open_store(f"sqlite://{folder / 'burst.db'}")
    experiment = Experiment(
        id=EXPERIMENT,
        name="x",
        owner="",
        created=0,
        state_since=0,
        config={},
        code=Code(digest="", size=0),
    )
    trial = Trial(
        id=TRIAL,
        experiment=EXPERIMENT,
        number=0,
        seed=0,
        slots=1,
        pools=(),
        created=0,
        queued=0,
        state_since=0,
        token=1,
    )
    store.commit(Put(experiment), Put(trial))
    return store


def _steps(reporter: Reporter | None) -> tuple[float, float]:
    """Train for a while; returns the mean step in µs without what `report` itself takes, and what
    one `report` takes, in µs."""
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    inputs = torch.randn(64, 256)
    steps, reports, reporting = 0, 0, 0.0
    gc.collect()
    gc.freeze()  # as the training loop does
    begun = time.perf_counter()
    while (now := time.perf_counter()) - begun < SECONDS:
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        if reporter is None:
            continue
        due = int((now - begun) * RATE) - reports
        called = time.perf_counter()
        for _ in range(due):
            reports += 1
            reporter.report("training", reports, {"loss": 0.5})
        reporting += time.perf_counter() - called
    total = time.perf_counter() - begun
    gc.unfreeze()
    return (total - reporting) / steps * 1e6, reporting / max(reports, 1) * 1e6


def measure() -> list[Result]:
    """Two rows: the steps' slow-down by the reporter's thread, and the price of one report."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    quiet, busy, prices = [], [], []
    for _ in range(ROUNDS):
        quiet.append(_steps(None)[0])
        with tempfile.TemporaryDirectory() as folder:
            store = _open(Path(folder))
            reporter = Reporter(StoreSink(store, TRIAL, 1, Progress()), Origin(TRIAL, 1))
            step, price = _steps(reporter)
            reporter.close()
            stored = sum(len(chunk.rows) for chunk in store.metrics(TRIAL))
            store.close()
        busy.append(step)
        prices.append(price)
    torch.set_num_threads(threads)
    ratio = min(busy) / min(quiet)
    price = min(prices)
    return [
        Result(
            what=f"step time while {RATE:,} metrics a second are reported and stored",
            ours=f"{min(busy):.0f} µs",
            against=f"without reports {min(quiet):.0f} µs",
            ratio=ratio,
            target="≤ 1.10×",
            met=ratio <= 1.10,
            note=f"{stored:,} rows stored in each round",
        ),
        Result(
            what="one report call",
            ours=f"{price:.1f} µs",
            against="a step that it never waits in",
            ratio=None,
            target="≤ 10 µs",
            met=price <= 10,
        ),
    ]
