"""What the table costs: an hour of a trial that trains steadily, and a month without work.

A trial of examples/digits runs as `burst run` runs it, with a real agent on this machine, against
a DynamoDB server behind a meter that hears every process: metrics, checkpoints, validations, the
agent's lease and looks, the runner's passes, and the command line that follows. What is counted in
the window is multiplied up to an hour. The idle month is one pass of the runner in an empty
cluster, as the scheduled function makes it once a minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks.result import Result
from benchmarks.store_meter import PRICES, Meter, Tally, metered
from burst.core.model import Trial
from burst.core.store import Store, open_store
from burst.core.store.dynamodb.store import DynamoStore
from burst.core.testing.ministack import ENVIRON, ministack
from burst.core.workspace import open_workspace
from burst.runner.loop import Runner, is_idle

WINDOW_S = 120.0
SETTLED_S = 15.0
"""After the first batch, so that no start falls into the window."""
PATIENCE_S = 180.0
CALLS_A_MONTH = 30 * 24 * 60
"""Of the scheduled function."""
EXAMPLE = Path(__file__).parent.parent / "examples" / "digits"
SETTINGS = {
    "searcher.max_length": "100000ep",
    "checkpoints.every": "1min",
    "validate.every": "20ep",
    "report_every": "100ba",
}
"""As a longer training has it: a checkpoint a minute, and a validation each quarter."""
_TABLE = "burst-cost"
_BUCKET = "burst-cost"
_CLUSTER = "cluster: cost\npools: {local: {kind: local, slots: 1, idle: 1}}\n"


def measure() -> list[Result]:
    with (
        patch.dict(os.environ, ENVIRON),
        tempfile.TemporaryDirectory() as folder,
        ministack(Path(folder, "log")) as server,
        metered(server) as meter,
    ):
        _make(server)
        (Path(folder) / "burst.yaml").write_text(_CLUSTER)
        environ = {
            **os.environ,
            "BURST_HOME": str(Path(folder, "home")),
            "BURST_STORE": f"dynamodb://{_TABLE}?endpoint_url={meter.url}",
            "BURST_BLOBS": f"s3://{_BUCKET}/b?endpoint_url={server}",
        }
        idle = _idle(Path(folder), environ, meter)
        with closing(open_store(f"dynamodb://{_TABLE}?endpoint_url={server}")) as store:
            steady = _steady(Path(folder), environ, store, meter)
    return [_hour(steady), _month(idle)]


def _hour(steady: Tally) -> Result:
    hours = WINDOW_S / 3600
    dollars = steady.dollars / hours
    minutes = WINDOW_S / 60
    kinds = ", ".join(
        f"{n / minutes:.0f} {kind} ({steady.units.get(kind, 0.0) / minutes:.0f} units)"
        for kind, n in steady.requests.most_common()
    )
    return Result(
        what="the table, for an hour of a trial on a node of its own",
        ours=f"${dollars:.4f}",
        against=f"{steady.reads / hours:,.0f} read and {steady.writes / hours:,.0f} write units",
        ratio=None,
        target="≤ $0.01",
        met=dollars <= 0.01,
        note=f"{PRICES}; requests a minute: {kinds}",
    )


def _month(idle: Tally) -> Result:
    dollars = idle.dollars * CALLS_A_MONTH
    requests = ", ".join(f"{n} {kind}" for kind, n in sorted(idle.requests.items()))
    return Result(
        what="the table, for a month in which nothing runs, looked at once a minute",
        ours=f"${dollars:.2f}",
        against=f"{idle.reads:.1f} read and {idle.writes:.0f} write units a call, "
        f"{CALLS_A_MONTH:,} calls",
        ratio=None,
        target="≤ $0.10",
        met=dollars <= 0.10,
        note=f"each call: {requests}",
    )


def _make(server: str) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=server)
    client.create_bucket(Bucket=_BUCKET)
    client.close()
    with closing(DynamoStore(f"dynamodb://{_TABLE}?endpoint_url={server}")) as store:
        store.table.create()


def _idle(folder: Path, environ: dict[str, str], meter: Meter) -> Tally:
    """One call of the function that finds nothing to do."""
    ws = open_workspace(environ, folder)
    with closing(ws.store):
        runner = Runner(ws)
        before = meter.now()
        ws.store.newest_cursor()
        runner.step()
        if not is_idle(ws.store):
            raise RuntimeError("an empty cluster has work")
        return meter.now() - before


def _steady(folder: Path, environ: dict[str, str], store: Store, meter: Meter) -> Tally:
    with _running(folder, environ) as experiment:
        _until(lambda: any(trial.training_since for trial in store.live(Trial)), experiment)
        time.sleep(SETTLED_S)
        before = meter.now()
        time.sleep(WINDOW_S)
        after = meter.now()
        (trial,) = store.live(Trial)
        _burst(folder, environ, "kill", trial.experiment)
        experiment.wait(PATIENCE_S)
        _until(lambda: is_idle(store))
    return after - before


@contextmanager
def _running(folder: Path, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    settings = [word for pair in SETTINGS.items() for word in ("--set", "=".join(pair))]
    command = [sys.executable, "-m", "burst.cli", "run", str(EXAMPLE / "exp.yaml"), *settings]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=said, stderr=said)
    try:
        yield process
    except BaseException:
        print((folder / "said").read_text())
        raise
    finally:
        process.kill()
        process.wait()


def _burst(folder: Path, environ: dict[str, str], *words: str) -> None:
    command = [sys.executable, "-m", "burst.cli", *words]
    subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True)


def _until(holds: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline or (process is not None and process.poll() is not None):
            raise RuntimeError("it never came about")
        time.sleep(0.5)
