"""The settings of a hub on their way from an experiment to its script."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burst.core.config.experiment import Environment
from burst.harness.launch import environment as launched
from burst.runner.agent.running.containers import passed
from burst.runner.agent.running.environment import rank_environment, resolve_secrets
from tests.harness.transformers.odd import Command

WANTED = {
    "HF_HOME": "/shared/hub",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_ENDPOINT": "https://hub.example",
}
SCRIPT = """
import os
names = "HF_HOME", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT"
print(*(os.environ[name] for name in (*names, "HF_TOKEN")))
"""


def test_variables_and_secrets_of_an_experiment_reach_its_script(tmp_path: Path) -> None:
    """On any node: its own variables give way, in a container as outside."""
    secrets = resolve_secrets({"HF_TOKEN": "env:TEAM_TOKEN"}, {"TEAM_TOKEN": "hf_abc"})
    asked = Environment(variables=WANTED, secrets={"HF_TOKEN": "env:TEAM_TOKEN"})
    node = {**os.environ, "HF_HOME": "/of/the/node", "HF_TOKEN": "hf_of_the_node"}
    ranks = rank_environment(node, asked, secrets, slots=(), threads=1)
    assert {*WANTED, "HF_TOKEN"} <= set(passed(ranks))

    site = Command(tmp_path, ["python", "train.py"], {"train.py": SCRIPT})
    spec = site.prepare()
    environ = launched(spec.model_dump(mode="json"), ranks)
    assert {name: environ[name] for name in WANTED} == WANTED
    assert environ["HF_TOKEN"] == "hf_abc"


def test_so_do_those_of_the_node_where_the_experiment_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (WANTED | {"HF_TOKEN": "hf_of_the_node"}).items():
        monkeypatch.setenv(name, value)
    ended = Command(tmp_path, ["python", "train.py"], {"train.py": SCRIPT}).judged()
    assert ended.log.split() == [*WANTED.values(), "hf_of_the_node"]
