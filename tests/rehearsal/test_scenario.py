"""What is to go wrong, from words and a seed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.cluster import Aws, AwsPool, ClusterConfig, LocalPool, StaticPool
from burst.core.config.load import parse_cluster
from burst.core.errors import UsageError
from burst.core.model import Allocation, Lengths, Node, Share
from burst.core.states import AllocationState
from burst.core.store import open_store
from burst.core.testing import examples
from burst.runner.rehearsal.cluster import as_file, cloud_pools, rehearsed
from burst.runner.rehearsal.control import Ec2Control
from burst.runner.rehearsal.losing import Losing, choose
from burst.runner.rehearsal.scenario import (
    Capacity,
    Loss,
    Scenario,
    capacity_of,
    notice_of,
    progress_of,
    scenario_of,
)


@given(st.integers(0, 20), st.integers(), st.lists(st.sampled_from(["none", "5s"]), max_size=3))
def test_losses_are_the_same_for_the_same_seed_and_come_in_order(
    lose: int, seed: int, notices: list[str]
) -> None:
    made = scenario_of(lose, notices, (), seed)
    assert made == scenario_of(lose, notices, (), seed)
    points = [loss.progress for loss in made.losses]
    assert points == sorted(points)
    assert all(0.0 < point < 1.0 for point in points)
    expected = [notice_of(text) for text in notices] or [120.0]
    assert [loss.notice for loss in made.losses] == (expected * (lose + 1))[:lose]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("3", Capacity(3, 0.0)),
        ("0", Capacity(0, 0.0)),
        ("3@t+60s", Capacity(3, 60.0)),
        ("3@60s", Capacity(3, 60.0)),
        ("none@t+2m", Capacity(None, 120.0)),
        ("none", Capacity(None, 0.0)),
        ("us-east-1a:0", Capacity(0, 0.0, "us-east-1a")),
        ("us-east-1a:none@t+5s", Capacity(None, 5.0, "us-east-1a")),
    ],
)
def test_capacity_is_a_number_from_a_moment_on(text: str, means: Capacity) -> None:
    assert capacity_of(text) == means


@pytest.mark.parametrize("text", ["", "-1", "x", "3@", "3@t+", "3@t+x", "3@t+-1s", "3 @t+1s"])
def test_what_is_no_capacity_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        capacity_of(text)
    assert "3@t+60s" in caught.value.mend


class Said(Ec2Control):
    """What a cloud was told of its capacity."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.limits: list[tuple[int | None, str]] = []
        self.refused: list[str] = []

    def set_capacity(
        self, machines: int | None, *, type: str = "*", zone: str = "*", market: str = "*",
        since: float = 0.0,
    ) -> None:  # fmt: skip
        self.limits.append((machines, zone))

    def refuse(
        self, code: str, message: str = "", *, type: str = "*", zone: str = "*", market: str = "*"
    ) -> None:
        self.refused.append(zone)


@pytest.mark.parametrize(
    ("texts", "refused", "limits"),
    [
        (("0",), ["*"], []),
        (("us-east-1a:0", "3@t+5s"), ["us-east-1a"], [(3, "*")]),
        (("0", "3@t+5s"), [], [(0, "*"), (3, "*")]),
        (("3", "0@t+5s"), [], [(3, "*"), (0, "*")]),
    ],
)
def test_a_cloud_that_has_nothing_at_first_has_something_when_it_was_said(
    texts: tuple[str, ...], refused: list[str], limits: list[tuple[int | None, str]]
) -> None:
    said = Said()
    scenario = Scenario(capacity=tuple(capacity_of(text) for text in texts))
    with Losing(scenario, open_store("memory:"), "exp-x", said):
        pass
    assert (said.refused, said.limits) == (refused, limits)


def test_progress_is_of_all_trials_that_there_are() -> None:
    half = examples.trial(done=Lengths(batches=50), target_batches=100)
    unknown = examples.trial(id=f"{examples.EXPERIMENT}.t0001", number=1, target_batches=None)
    assert progress_of([]) == progress_of([unknown]) == 0.0
    assert progress_of([half]) == 0.5
    assert progress_of([half, unknown]) == 0.25


def test_only_a_machine_on_which_a_trial_trains_is_taken() -> None:
    trial = examples.trial(training_since=1.0)
    node = examples.node(id="node-1", handle={"instance": "i-1"}, draining=None)
    shares = (Share(node="node-1", slots=(0,)),)
    allocation = examples.allocation(state=AllocationState.RUNNING, shares=shares)
    loss, running = Loss(0.5, None, 0.99), {trial.id: trial}

    def chosen(allocation: Allocation, *nodes: Node) -> str | None:
        found = choose(loss, running, [allocation], nodes)
        return found[1].id if found is not None else None

    assert chosen(allocation, node) == "node-1"
    assert chosen(allocation) is None
    assert chosen(allocation, node.model_copy(update={"draining": 1.0})) is None
    assert chosen(allocation, node.model_copy(update={"handle": {}})) is None
    starting = examples.allocation(state=AllocationState.STARTING, shares=shares)
    assert chosen(starting, node) is None
    running = {trial.id: trial.model_copy(update={"training_since": None})}
    assert chosen(allocation, node) is None


def test_the_cluster_is_the_users_with_its_state_in_the_rehearsal() -> None:
    spot = AwsPool(instance_types=("p5.48xlarge",), max_nodes=2, idle=300.0)
    mine = ClusterConfig(
        cluster="lab",
        aws=Aws(region="eu-west-1"),
        store="dynamodb://real?region=eu-west-1",
        blobs="s3://real",
        pools={
            "onprem": StaticPool(slots_per_node=8),
            "local": LocalPool(slots=2),
            "spot": spot,
        },
    )
    made = rehearsed(mine, 1)
    assert "real" not in made.store + made.blobs
    assert list(made.pools) == ["local", "spot"]
    assert cloud_pools(made) == ["spot"]
    assert made.pools["spot"] == spot.model_copy(update={"idle": 5.0})
    assert parse_cluster(as_file(made), "burst.yaml") == made


def test_a_cluster_without_a_cloud_gets_one_that_fits_a_trial() -> None:
    made = rehearsed(ClusterConfig(), 4)
    (name,) = cloud_pools(made)
    pool = made.pools[name]
    assert isinstance(pool, AwsPool)
    assert pool.slots_per_node == 4
    assert parse_cluster(as_file(made), "burst.yaml") == made
