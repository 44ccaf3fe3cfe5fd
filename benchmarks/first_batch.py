"""How long from `burst run` to the first batch, beside `python train.py` of the same script."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.result import Result

ROUNDS = 3
SCRIPT = """
import os, time
import torch

model = torch.nn.Linear(16, 4)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(8, 16)).sum().backward()
optimizer.step()
with open(os.environ["FIRST_BATCH"], "w") as file:
    file.write(str(time.time()))
"""
EXPERIMENT = """
name: first-batch
entrypoint: [python, train.py]
searcher: {name: single, metric: loss}
reproducibility: {experiment_seed: 1}
"""


def measure() -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "code").mkdir()
        (root / "code" / "train.py").write_text(SCRIPT)
        (root / "code" / "exp.yaml").write_text(EXPERIMENT)
        cold = _burst(root)  # starts the node, which then stays for a minute
        pairs = [(_burst(root), _bare(root)) for _ in range(ROUNDS)]
    burst, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    return [
        Result(
            "submit → first batch, running local node",
            f"{burst:.2f} s",
            f"python train.py {bare:.2f} s",
            burst / bare,
            "≤ +1 s",
            burst - bare <= 1,
            f"{burst - bare:+.2f} s; the first run, which starts the node, took {cold:.2f} s",
        )
    ]


def _burst(root: Path) -> float:
    mark = root / "mark"
    command = [sys.executable, "-m", "burst.cli", "run", "exp.yaml", "--new"]
    command += ["--set", f"environment.variables.FIRST_BATCH={mark}"]
    return _timed(command, root, mark)


def _bare(root: Path) -> float:
    return _timed([sys.executable, "train.py"], root, root / "mark")


def _timed(command: list[str], root: Path, mark: Path) -> float:
    mark.unlink(missing_ok=True)
    environment = {**os.environ, "BURST_HOME": str(root / "home"), "FIRST_BATCH": str(mark)}
    began = time.time()
    subprocess.run(
        command, cwd=root / "code", env=environment, check=True, capture_output=True, timeout=120
    )
    return float(mark.read_text()) - began
