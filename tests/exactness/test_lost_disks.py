"""A run goes on exactly though the disk that its newest checkpoints lay on is gone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from burst.core.model import Allocation, Experiment, Trial
from burst.core.workspace import open_workspace
from tests.exactness.support import Bench, Ending

LOSING = '''
"""The interrupted trial on a node whose disk is lost when it is killed."""

import os, shutil, time
from pathlib import Path

from burst.core.launch import read_launch
from burst.core.model import Checkpoint
from burst.core.store import open_store
from interrupted import Interrupted


class Losing(Interrupted):
    def train_batch(self, batch, epoch_idx, batch_idx):
        if (Path(os.environ["INTERRUPTIONS"]) / f"kill-{batch_idx}").exists():
            self._wait_for_a_copy()
            shutil.rmtree(Path(os.environ["DISK"]) / "checkpoints", ignore_errors=True)
        return super().train_batch(batch, epoch_idx, batch_idx)

    def _wait_for_a_copy(self):
        """So that it does not depend on the disks whether there is anything to go on from."""
        spec = read_launch()
        store = open_store(spec.store_url)
        disk = f"file://{os.environ['DISK']}"
        while all(each.url.startswith(disk) for each in store.children(Checkpoint, spec.trial)):
            time.sleep(0.05)
        store.close()
'''
SETTINGS = (
    "entrypoint=losing:Losing",
    "environment.variables.WORKERS=1",
    "optimizations.aggregation_frequency=2",
    "report_every=5ba",
    "searcher.max_length=70ba",
    "validate.every=35ba",
    "checkpoints.every=10ba",
)


def _run(folder: Path, interruptions: list[str]) -> tuple[Ending, int]:
    """How it ended, and at how many batches its last attempt began."""
    folder.mkdir()
    bench = Bench.of_example("digits", "DigitsTrial", folder)
    (bench.code / "losing.py").write_text(LOSING)
    tiers = (
        f"[{{type: local, path: {folder}/disk, keep: 2}},"
        f" {{type: shared_fs, path: {bench.home}/blobs, every: 30ba}}]"
    )
    disk = f"environment.variables.DISK={folder}/disk"
    ending = bench.run([*SETTINGS, disk, f"checkpoints.storage={tiers}"], interruptions)
    workspace = open_workspace(bench.environment, bench.code)
    with closing(workspace.store):
        (experiment,) = workspace.store.children(Experiment, "")
        (trial,) = workspace.store.children(Trial, experiment.id)
        attempts = workspace.store.children(Allocation, trial.id)
    return ending, max(attempts, key=lambda attempt: attempt.attempt).restored_batches


@pytest.mark.slow
def test_killed_and_its_disk_lost_a_run_ends_byte_identical(tmp_path: Path) -> None:
    uninterrupted, _ = _run(tmp_path / "uninterrupted", [])
    lost, began = _run(tmp_path / "lost", ["kill-57"])
    assert 0 < began <= 35, "the checkpoints at 40 and 50 lay on the disk alone"
    assert uninterrupted.validations
    assert lost == uninterrupted
