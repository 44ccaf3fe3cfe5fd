"""From an empty account to a trained model and back to an empty account, as a person goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.servers import serve
from tests.infra.double.launching import engine

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/aws/burst.yaml"
OF_THIS_MACHINE = f"""aws:
  python: {sys.executable}
  python_version: "{sys.version_info.major}.{sys.version_info.minor}"
"""
"""The image of the example has a Python of its own; machines here have this one."""
WITHIN_S = 240.0


@dataclass(frozen=True)
class Person:
    folder: Path
    environ: Mapping[str, str]

    def says(self, *words: str, exits: int = 0) -> str:
        """Type a burst command; what it prints on stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "burst.cli", *words],
            cwd=self.folder,
            env={**os.environ, **self.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == exits, f"burst {' '.join(words)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def lines(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.says(*words, "--json").splitlines()]

    def changes(self, *words: str) -> dict[str, str]:
        """What a command to build has done: by `type name`, what."""
        return {
            f"{line['kind']} {line['name']}": line["op"]
            for line in self.lines(*words)
            if line["type"] == "change" and line["state"] == "done"
        }


@pytest.mark.slow
def test_a_cluster_is_built_trains_grows_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copytree(ROOT / "examples/digits", folder / "digits")
    text = EXAMPLE.read_text().replace("aws:\n", OF_THIS_MACHINE, 1)
    (folder / "burst.yaml").write_text(text)
    cloud_folder = tmp_path / "cloud"
    with serve(cloud_folder, boot=0.5) as cloud, engine(tmp_path, cloud.environ) as pulumi:
        machines = Ec2Control(cloud.ec2).machines
        home = {"BURST_HOME": str(tmp_path / "home")}
        person = Person(folder, {**pulumi.environ, **home})

        made = person.changes("up", "--yes")
        assert set(made.values()) == {"create"}
        assert {"table table", "bucket bucket", "function runner"} <= set(made)

        trained = person.lines(
            "run", "digits/exp.yaml", "--pool", "spot", "--set", "searcher.max_length=2ep"
        )[-1]
        assert trained["experiment"]["state"] == "completed"
        assert len(machines()) == 1, "one machine, which nobody but the function may have bought"
        assert not (tmp_path / "home/driving.lock").exists(), "nobody drove here"

        assert person.changes("up", "--yes") == {}
        with (folder / "burst.yaml").open("a") as file:
            file.write("  cpu: {kind: aws, instance_types: [c5.large], max_nodes: 1}\n")
        grown = person.changes("up", "--yes")
        assert grown["launch template burst/lab/cpu"] == "create"
        assert grown["bucket object cluster-file"] == "update"

        person.says("down", "--yes", "--delete-data")
        _eventually(lambda: all(each.ended is not None for each in machines()), "machines end")
        assert "nothing" in person.says("audit")
        for service, operation, key in LEFT:
            assert _asked(cloud.environ, service, operation)[key] == [], service


LEFT = (
    ("dynamodb", "list_tables", "TableNames"),
    ("s3", "list_buckets", "Buckets"),
    ("lambda", "list_functions", "Functions"),
    ("events", "list_rules", "Rules"),
    ("logs", "describe_log_groups", "logGroups"),
    ("cloudwatch", "describe_alarms", "MetricAlarms"),
    ("ec2", "describe_launch_templates", "LaunchTemplates"),
    ("ec2", "describe_volumes", "Volumes"),
)


def _asked(environ: Mapping[str, str], service: str, operation: str) -> dict[str, Any]:
    from boto3.session import Session

    session = Session(
        aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
        region_name=environ["AWS_DEFAULT_REGION"],
    )
    own = f"AWS_ENDPOINT_URL_{service.upper()}"
    client = session.client(service, endpoint_url=environ.get(own, environ["AWS_ENDPOINT_URL"]))
    answer: dict[str, Any] = getattr(client, operation)()
    return answer


def _eventually(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.2)
