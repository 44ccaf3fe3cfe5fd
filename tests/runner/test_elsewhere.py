"""Two runners for one cluster: the function starts machines in AWS, people's own start theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.config.cluster import Aws, AwsPool, ClusterConfig, LocalPool, StaticPool
from burst.core.model import Node
from burst.core.states import NodeState, TrialState
from burst.core.workspace import Workspace
from burst.runner.loop import Runner
from burst.runner.pools.elsewhere import (
    left_to_people,
    left_to_the_function,
    pools_of_the_function,
)
from burst.runner.pools.fake import FakePool
from tests.runner.house import House

LOCAL, STATIC = LocalPool(), StaticPool(slots_per_node=1)
SPOT = AwsPool(instance_types=("g5.xlarge",), max_nodes=2)
FUNCTION, HERE = Aws(region="us-east-1"), Aws(region="us-east-1", runner="here")


@pytest.mark.parametrize(
    ("aws", "pools", "function"),
    [
        (None, {"local": LOCAL}, set()),
        (FUNCTION, {"local": LOCAL, "spot": SPOT}, {"spot"}),
        (FUNCTION, {"onprem": STATIC, "spot": SPOT}, {"spot"}),
        (HERE, {"onprem": STATIC, "spot": SPOT}, set()),
    ],
)
def test_a_pool_in_aws_is_the_functions_where_there_is_one(
    aws: Aws | None, pools: dict[str, LocalPool | StaticPool | AwsPool], function: set[str],
) -> None:  # fmt: skip
    cluster = ClusterConfig(cluster="lab", aws=aws, pools=dict(pools))
    assert left_to_the_function(cluster) == function
    assert left_to_people(cluster) == {name for name in pools if name == "local"}


def test_of_a_persons_machine_the_function_knows_the_size_at_the_most(tmp_path: Path) -> None:
    house = House(tmp_path)
    given = {"desk": LocalPool(slots=3), "other": LOCAL}
    cluster = ClusterConfig(cluster="lab", aws=FUNCTION, pools=dict(given))
    found = pools_of_the_function(Workspace(tmp_path, cluster, house.store, house.ws.blobs))
    assert found["desk"].limits.slots_per_node == 3
    assert found["other"].limits.slots_per_node > 100, "so that no trial is said not to fit"


def test_a_runner_leaves_the_machines_of_a_pool_that_another_acts_for(tmp_path: Path) -> None:
    house = House(tmp_path)
    pool = FakePool("local", house.clock, costs=True)
    elsewhere = Runner(house.ws, house.clock, {"local": pool}, frozenset({"local"}))
    house.submit()
    for _ in range(5):
        elsewhere.step()
        house.clock.advance(30)
    assert pool.calls == []
    assert house.store.live(Node) == []
    acting = Runner(house.ws, house.clock, {"local": pool}, frozenset())
    acting.step()
    (node,) = house.store.live(Node)
    assert pool.alive == [node.id]
    calls = list(pool.calls)
    for _ in range(40):  # for longer than a node may take to boot
        elsewhere.step()
        house.clock.advance(30)
    assert pool.calls == calls, "it neither watches nor ends what is not its own"
    assert house.store.get(Node, node.id).state is not NodeState.GONE
    assert house.trial().state is TrialState.WAITING


def test_it_still_gives_trials_to_nodes_that_are_there(tmp_path: Path) -> None:
    house = House(tmp_path)
    acting = Runner(house.ws, house.clock, {"local": house.pool}, frozenset())
    elsewhere = Runner(house.ws, house.clock, {"local": house.pool}, frozenset({"local"}))
    house.runner = acting
    house.submit()
    house.run(until=lambda: any(node.ready is not None for node in house.store.live(Node)))
    house.runner = elsewhere
    house.run(until=lambda: house.trial().state is TrialState.COMPLETED)
