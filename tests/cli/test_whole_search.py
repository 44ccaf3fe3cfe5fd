"""A search by successive halving with real processes: bad trials are stopped at their rungs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CLUSTER = "pools:\n  local: {kind: local, slots: 2, idle: 1s}\n"
SCRIPT = """
import time
import burst.harness

with burst.harness.init() as context:
    saved = context.checkpoint.restore()
    for batch in range(saved.batches if saved else 0, context.max_batches(default=1)):
        time.sleep(0.2)  # a batch
        loss = context.get_hparam("loss") + 1 / (batch + 1)
        context.train.report_validation_metrics(batch + 1, {"eval_loss": loss})
        if context.should_stop():
            context.checkpoint.save({}, batches=batch + 1)
            break
"""
EXPERIMENT = """
name: curves
entrypoint: [python, train.py]
hyperparameters: {loss: {type: double, minval: 0, maxval: 1}}
searcher:
  {name: adaptive_asha, metric: eval_loss, max_trials: 6, max_length: 36ba, divisor: 3,
   mode: aggressive}
reproducibility: {experiment_seed: 3}
"""


def test_bad_trials_are_stopped_and_the_best_trains_to_the_end(
    burst_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "exp.yaml").write_text(EXPERIMENT)
    (tmp_path / "burst.yaml").write_text(CLUSTER)
    run = [sys.executable, "-m", "burst.cli", "run", "exp.yaml", "--json"]
    done = subprocess.run(
        run, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    trials = lines[-1]["trials"]
    assert len(trials) == 6
    best = min(trials, key=lambda trial: float(trial["hparams"]["loss"]))
    assert (best["state"], best["batches"]) == ("completed", 36)
    stopped = [trial for trial in trials if trial["state"] == "stopped"]
    assert stopped
    for trial in stopped:
        assert 12 <= trial["batches"] < 36
        assert trial["reason"]["text"].startswith("rung 1 of 2 (12 batches): ")
        assert trial["checkpoint"]
