"""What a checkpoint every two seconds costs a small model that trains under `burst run`.

Runs of half a minute differ by more than is to be seen here. So one run trains with checkpoints
and without by turns of a few seconds, and each turn is compared with the next.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from benchmarks.result import Result

HERE = Path(__file__).parent
SECONDS = 200
LIMIT = 0.02
_OF_MEDIAN = 1.25
"""A median's error beside that of a mean, where what is measured scatters normally."""
EXPERIMENT = f"""
name: checkpoint-often
entrypoint: by_turns:ByTurns
hyperparameters: {{lr: 0.001, layers: 2, width: 64, context: 64, batch_size: 16}}
searcher: {{name: single, metric: validation_loss, max_length: {SECONDS}s}}
validate: {{every: null}}
checkpoints: {{every: 2s}}
report_every: 10ba
optimizations: {{aggregation_frequency: 2}}
reproducibility: {{experiment_seed: 42}}
"""


def measure() -> list[Result]:
    turns = _turns()
    whole = list(pairwise(turns))
    losses = [_loss(first, second) for first, second in whole]
    loss = statistics.median(losses)
    noise = _OF_MEDIAN * statistics.stdev(losses) / len(losses) ** 0.5
    without = statistics.median(turn["rate"] for turn in turns if not turn["saving"])
    saves = sum(turn["saves"] for turn in turns)
    return [
        Result(
            "throughput of tiny_gpt lost to a checkpoint every 2 s",
            f"{loss * 100:.2f} %",
            f"{without:.1f} batches/s without",
            1 - loss,
            f"< {LIMIT * 100:.0f} %",
            _verdict(loss, noise),
            note=f"{len(turns)} turns of one `burst run`, {saves} checkpoints; the median of "
            f"neighbouring turns, known to ± {noise * 100:.2f} %; no verdict where the target "
            "lies within that",
        )
    ]


def _verdict(loss: float, noise: float) -> bool | None:
    return loss < LIMIT if abs(loss - LIMIT) > noise else None


def _turns() -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        code = root / "code"
        shutil.copytree(HERE.parent / "examples" / "tiny_gpt", code)
        shutil.copy(HERE / "checkpoint_peers" / "by_turns.py", code)
        (code / "exp.yaml").write_text(EXPERIMENT)
        out = root / "turns.json"
        command = [sys.executable, "-m", "burst.cli", "run", "exp.yaml", "--new"]
        command += ["--set", f"environment.variables.TURNS={out}"]
        environment = {**os.environ, "BURST_HOME": str(root / "home")}
        subprocess.run(
            command,
            cwd=code,
            env=environment,
            check=True,
            capture_output=True,
            timeout=SECONDS + 120,
        )
        found: list[dict[str, float]] = json.loads(out.read_text())
        return found


def _loss(first: dict[str, float], second: dict[str, float]) -> float:
    """Of two neighbouring turns, the part of the throughput that checkpoints took."""
    saving, without = (first, second) if first["saving"] else (second, first)
    return 1 - saving["rate"] / without["rate"]
