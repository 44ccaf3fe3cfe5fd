"""`burst doctor` of a cluster: what nodes found of themselves, and how fast a gang sums."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burst.cli import shapes
from burst.cli.account import bandwidth
from burst.cli.account.bandwidth import check_bandwidth, judged
from burst.cli.account.checks import node_checks
from burst.core.aws.fabric import expected_band
from burst.core.config.cluster import ClusterConfig
from burst.core.config.load import parse_cluster
from burst.core.errors import NotFound, Refused
from burst.core.model import Allocation, Experiment, Node, Share
from burst.core.states import ExperimentState
from tests.cli.conftest import Burst
from tests.cli.test_looking import check
from tests.cli.world import NOW

EFA = {"instance_type": "p5.48xlarge", "efa": 32, "fabric": "efa", "problems": []}


def config(efa: bool = True) -> ClusterConfig:
    more = ", efa: true" if efa else ""
    return parse_cluster(
        "cluster: lab\naws: {region: us-east-1}\npools:\n  local: {kind: local}\n"
        f"  big: {{kind: aws, instance_types: [p5.48xlarge], max_nodes: 2{more}}}\n",
        "burst.yaml",
    )


def node(number: int = 1, registered: float | None = NOW, **facts: Any) -> Node:
    return Node(
        id=f"node-{number}",
        pool="big",
        expected_slots=8,
        requested=NOW - 60,
        registered=registered,
        facts={**EFA, **facts},
    )


def gang(provider: str) -> Allocation:
    return Allocation(
        id="alloc-1",
        trial="exp-1.t0000",
        experiment="exp-1",
        pool="big",
        attempt=1,
        token=1,
        shares=(Share(node="node-1", slots=(0,)), Share(node="node-2", slots=(0,))),
        created=NOW,
        state_since=NOW,
        network={"node-1": {"provider": "efa"}, "node-2": {"provider": provider}},
    )


def by_name(rows: list[shapes.CheckJson]) -> dict[str, shapes.CheckJson]:
    for row in rows:
        check(dict(row), shapes.CheckJson)
    return {row["name"]: row for row in rows}


# --- nodes --------------------------------------------------------------------------------------


def test_nodes_that_are_up_have_reached_table_and_bucket_and_use_efa() -> None:
    found = by_name(node_checks(config(), [node(1), node(2)], [gang("efa")]))
    assert list(found) == ["nodes of big", "EFA of big"]  # this machine is no cloud's
    assert all(row["ok"] for row in found.values())
    assert found["nodes of big"]["found"].startswith("2 nodes up")
    assert found["EFA of big"]["found"] == (
        "provider efa, 32 of 32 devices on 2 nodes; 1 gang over it"
    )


def test_a_pool_without_nodes_says_so_and_is_no_failure() -> None:
    found = by_name(node_checks(config(), [node(registered=None)], []))
    assert list(found) == ["nodes of big"]
    assert found["nodes of big"]["ok"]
    assert "none is up" in found["nodes of big"]["found"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"efa": 31}, "provider efa, 31 of 32 devices"),
        ({"efa": 0, "fabric": ""}, "provider none, 0 of 32 devices"),
        ({"fabric": ""}, "provider none"),
    ],
)
def test_a_node_without_all_of_its_efa_is_named(facts: dict[str, Any], said: str) -> None:
    row = by_name(node_checks(config(), [node(1), node(2, **facts)], []))["EFA of big"]
    assert not row["ok"]
    assert f"node-2: {said}" in row["found"]
    assert "burst node show node-2" in (row["mend"] or "")
    assert "EFA of big" not in by_name(node_checks(config(efa=False), [node(1, **facts)], []))


def test_a_gang_that_talks_over_something_else_is_told() -> None:
    row = by_name(node_checks(config(), [node(1), node(2)], [gang("tcp")]))["EFA of big"]
    assert not row["ok"]
    assert "over tcp" in row["found"]


def test_what_a_node_found_wrong_of_itself_is_told_in_its_words() -> None:
    sick = node(1, problems=["the blobs at s3://it cannot be used: no"])
    row = by_name(node_checks(config(), [sick], []))["nodes of big"]
    assert not row["ok"]
    assert "node-1: the blobs at s3://it cannot be used: no" in row["found"]


# --- bandwidth ----------------------------------------------------------------------------------


def test_a_figure_below_the_band_fails_and_says_what_was_expected() -> None:
    band = expected_band("p5.48xlarge", 2)  # 3,200 Gbit/s are 400 GB/s
    assert band is not None
    assert (band.usual, band.least) == (400, 260)
    slow = judged("it", 259.0, band, "16 slots on 2 nodes", "p5.48xlarge")
    assert not slow["ok"]
    assert "259.00 GB/s" in slow["found"]
    assert "expected 260 or more, about 400" in slow["found"]
    assert slow["mend"]
    assert judged("it", 261.0, band, "16 slots on 2 nodes", "p5.48xlarge")["ok"]


def test_where_nothing_is_known_the_figure_stands_alone() -> None:
    assert expected_band("g5.xlarge", 2) is None
    assert expected_band("p5.48xlarge", 1) is None
    found = judged("it", 3.5, None, "2 slots on 2 nodes", "g5.xlarge")
    assert found["ok"]
    assert "3.50 GB/s" in found["found"]
    assert "no figure for g5.xlarge" in found["found"]


def test_published_figures_lie_where_the_band_says() -> None:
    """Of p4d.24xlarge: one machine 231 GB/s, two 57; 30 over four were told as too slow."""
    alone, two = expected_band("p4d.24xlarge", 1), expected_band("p4d.24xlarge", 2)
    assert alone is not None
    assert two is not None
    assert alone.least < 231
    assert two.least < 57
    assert two.least > 30


def test_a_pool_that_is_not_there_or_has_one_slot_is_refused(burst: Burst) -> None:
    with pytest.raises(NotFound, match="there is no pool 'nowhere'"):
        check_bandwidth(burst.session, "nowhere")
    one = parse_cluster("pools:\n  local: {kind: local, slots: 1}\n", "burst.yaml")
    object.__setattr__(burst.session.workspace, "cluster", one)
    with pytest.raises(Refused, match="one slot"):
        check_bandwidth(burst.session, "local")


def test_who_interrupts_a_measurement_leaves_nothing_running(
    burst: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = parse_cluster("pools:\n  local: {kind: local, slots: 2}\n", "burst.yaml")
    object.__setattr__(burst.session.workspace, "cluster", two)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bandwidth, "_watch", interrupted)
    monkeypatch.setattr("burst.cli.elsewhere.see_driven", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        check_bandwidth(burst.session, "local")
    (experiment,) = burst.store.live(Experiment) or burst.store.children(Experiment, "")
    assert experiment.state in (ExperimentState.STOPPING, ExperimentState.CANCELLED)


@pytest.mark.slow
def test_a_gang_on_this_machine_is_measured(burst_home: Path, tmp_path: Path) -> None:
    (tmp_path / "burst.yaml").write_text("pools:\n  local: {kind: local, slots: 2, idle: 1s}\n")
    words = [sys.executable, "-m", "burst.cli", "doctor", "--bandwidth", "local", "--json"]
    done = subprocess.run(
        words, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(done.stdout)
    check(row, shapes.CheckJson)
    assert row["name"] == "bandwidth of local"
    figure = float(row["found"].split(" GB/s")[0])
    assert figure > 0
    assert "2 slots on 1 node (gloo, exp-" in row["found"]
    assert "measuring over 2 slots" in done.stderr
