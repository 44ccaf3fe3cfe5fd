"""The action where it is meant for: machines of a spot market, and the function that acts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from burst.core.config.load import parse_cluster
from burst.runner.rehearsal.account import Account, build_account
from burst.runner.rehearsal.servers import serve
from tests.actions.conftest import Site
from tests.actions.test_burst_run import UNHURRIED, run

CLUSTER = """
cluster: lab
aws: {region: us-east-1}
blobs: s3://burst-lab
pools:
  spot: {kind: aws, instance_types: [c5.large], slots_per_node: 1, max_nodes: 1, idle: 2s}
"""
FUNCTION = """
from burst.runner.lambda_handler import handler
while True:
    handler({}, None)
"""


@contextmanager
def function(account: Account, environ: Mapping[str, str], place: Path) -> Iterator[None]:
    """The real handler, called again and again, as its triggers do."""
    own = {
        "BURST_STORE": account.store,
        "BURST_BLOBS": account.blobs,
        "BURST_CLUSTER": "blobs:cluster/burst.yaml",
        "BURST_HOME": str(place / "function"),
    }
    with (place / "function.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", FUNCTION],
            env={**os.environ, **environ, **own},
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cancelled_job_only_writes_its_wish_and_the_next_one_goes_on_elsewhere(
    site: Site, tmp_path: Path
) -> None:
    (site.workspace / "models" / "burst.yaml").write_text(CLUSTER)
    what = {"pool": "spot", "set": UNHURRIED}
    with serve(tmp_path / "cloud", boot=0.5) as cloud:
        account = build_account(parse_cluster(CLUSTER, "burst.yaml"), CLUSTER, cloud.environ)
        site.more = dict(cloud.environ)
        with function(account, cloud.environ, tmp_path):

            def trial() -> dict[str, Any]:
                found: dict[str, Any] = json.loads(site.burst("trial", "show", "latest", "--json"))
                return found

            def has_saved() -> bool:
                if not json.loads(site.burst("ls", "--json")):
                    return False
                listed = json.loads(site.burst("trial", "list", "latest", "--json"))
                return bool(listed and listed[0]["checkpoint"])

            cancelled = run(site.job(), cancel=has_saved, after_cancel=False, **what)
            assert cancelled.steps["run"].status == 130, cancelled.log
            assert "is paused" in cancelled.log

            again = run(site.job(run_attempt="2"), **what)
            assert not again.failed, again.log
            assert again.outputs["state"] == "completed"
            assert trial()["allocations"][-1]["restored_batches"] > 0
            assert [each["id"] for each in site.experiments()] == [again.outputs["experiment"]]

    assert float(again.outputs["usd"]) >= 0
    assert "| cost | $0." in again.summary
    assert again.outputs["checkpoint-url"].startswith("s3://burst-lab/checkpoints/")
    assert not (site.home / "driving.lock").exists(), "nobody drove on the job's machine"
