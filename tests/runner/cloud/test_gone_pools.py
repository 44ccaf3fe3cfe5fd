"""Somebody takes a pool out of the cluster file, or names it anew, while it has machines: none of
them is out of sight, what trains goes on to its end, and then all of it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from burst.core.aws.names import tag_list, tags_of
from burst.core.config.cluster import ClusterConfig
from burst.core.ids import new_id
from burst.core.model import Allocation, Node, Supply
from burst.core.states import AllocationState, NodeState, TrialState
from burst.core.store.port import Put
from burst.runner.audit import GRACE_S, LEFTOVER_GRACE_S, Verdict, audit
from burst.runner.loop import Runner
from burst.runner.pools.aws.gone import AwsGone
from burst.runner.rehearsal.ec2.machine import State
from tests.runner.cloud.faults import Acts, CountedEc2
from tests.runner.cloud.house import CONFIG, DIE, CloudHouse
from tests.runner.cloud.life import Make
from tests.runner.cloud.model import CLUSTER, POOL, Skewed
from tests.runner.house import COMPLETED

RENAMED = "cheap"


def gone(house: CloudHouse) -> AwsGone:
    clock = Skewed(house.model)
    return AwsGone(
        CLUSTER, tuple(house.configs), lambda: CountedEc2(house.model, Acts(), 0.0), clock
    )


def change_file(house: CloudHouse, *, renamed: bool) -> None:
    """From now on the runner reads a file without the pool."""
    house.configs = {RENAMED: CONFIG} if renamed else {}
    cluster = ClusterConfig(cluster=CLUSTER, pools=dict(house.configs))
    house.ws = replace(house.ws, cluster=cluster)
    pools = {name: house.pool(name=name) for name in house.configs}
    house.runner = Runner(house.ws, Skewed(house.model), pools, gone=gone(house))


def found_of(house: CloudHouse) -> list[tuple[str, str, str, Verdict]]:
    pools = {name: house.pool(name=name) for name in house.configs}
    found = audit(house.ws, pools, gone(house))
    return [(each.pool, each.kind, each.id, each.verdict) for each in found]


def trains(house: CloudHouse) -> bool:
    return any(each.state is AllocationState.RUNNING for each in house.store.live(Allocation))


def a_node_is(state: NodeState) -> Callable[[CloudHouse], bool]:
    return lambda house: any(each.state is state for each in house.store.live(Node))


def idle(house: CloudHouse) -> bool:
    nodes = house.store.live(Node)
    return house.over() and any(node.idle_since is not None for node in nodes)


def until(house: CloudHouse, holds: Callable[[CloudHouse], bool], turns: int = 100) -> None:
    for _ in range(turns):
        if holds(house):
            return
        house.settle()
        if holds(house):
            return
        house.turn()
    raise AssertionError(house.story())


MOMENTS = {
    "booting": a_node_is(NodeState.LAUNCHED),
    "training": trains,
    "idle": idle,
    "draining": a_node_is(NodeState.DRAINING),
}


@pytest.mark.parametrize("renamed", [False, True], ids=["taken out", "renamed"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_machines_of_a_pool_that_is_gone_are_seen_and_all_leave(
    make: Make, moment: str, renamed: bool
) -> None:
    house = make(lambda trial, allocation, node, ran: COMPLETED if ran >= 60 else None)
    house.submit()
    until(house, MOMENTS[moment])
    change_file(house, renamed=renamed)
    listed = found_of(house)
    there = {each.id for each in house.model.living() if each.state is not State.TERMINATED}
    assert {id for _, kind, id, _ in listed if kind == "machine"} == there
    assert {pool for pool, *_ in listed} == {POOL}
    assert {verdict for *_, verdict in listed} == {Verdict.OWNED}
    until(house, lambda house: not house.model.living() and not house.store.live(Node))
    assert found_of(house) == []
    assert house.made() == 1
    (trial,) = house.trials()
    if moment == "booting":
        assert trial.state is TrialState.WAITING
    else:
        assert (trial.state, trial.attempts) == (TrialState.COMPLETED, 1)


def test_an_intent_of_a_pool_that_is_gone_starts_nothing(make: Make) -> None:
    house = make()
    now = house.model.clock.now()
    ask = house.pool().ask(1, whole=False, beside=None, supply=Supply(id=POOL), now=now)
    made = {"expected_slots": 1, "requested": now, "launch": new_id("launch", Skewed(house.model))}
    intent = Node(id=new_id("node", Skewed(house.model)), pool=POOL, ask=ask, **made)
    house.store.commit(Put(intent))
    change_file(house, renamed=False)
    until(house, lambda house: not house.store.live(Node))
    assert house.made() == 0


def test_a_lost_machine_of_a_pool_that_is_gone_is_noticed(make: Make) -> None:
    house = make(lambda trial, allocation, node, ran: DIE if ran >= 20 else None)
    house.submit()
    until(house, trains)
    change_file(house, renamed=False)
    until(house, lambda house: not house.store.live(Node))
    (trial,) = house.trials()
    assert trial.state is TrialState.WAITING
    assert not house.model.living()


def launch_by_hand(house: CloudHouse, tags: dict[str, str]) -> str:
    image = house.model.client.describe_images(Owners=["self"])["Images"][0]["ImageId"]
    made = house.model.client.run_instances(
        ImageId=image,
        InstanceType="c5.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tag_list(tags)}],
    )
    house.silent.add(made["Instances"][0]["InstanceId"])
    return str(made["Instances"][0]["InstanceId"])


@pytest.mark.parametrize("pool", ["spot", "of-last-year", ""])
def test_whatever_carries_the_clusters_tag_and_is_nobodys_is_listed_and_ended(
    make: Make, pool: str
) -> None:
    house = make()
    change_file(house, renamed=True)
    client = house.model.client
    volume = client.create_volume(
        AvailabilityZone="us-east-1a",
        Size=8,
        TagSpecifications=[
            {"ResourceType": "volume", "Tags": tag_list(tags_of(CLUSTER, pool, "launch-1"))}
        ],
    )["VolumeId"]
    other = client.create_volume(
        AvailabilityZone="us-east-1a",
        Size=8,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tag_list(tags_of("another", pool))}],
    )["VolumeId"]
    ours = launch_by_hand(house, tags_of(CLUSTER, pool, "launch-1"))
    theirs = launch_by_hand(house, tags_of("another", pool, "launch-1"))
    house.model.advance(max(GRACE_S, LEFTOVER_GRACE_S) * 20)
    listed = found_of(house)
    assert (pool, "machine", ours, Verdict.STRAY) in listed
    assert (pool, "volume", volume) in {each[:3] for each in listed}
    assert {id for _, _, id, _ in listed} == {ours, volume}
    for _ in range(200):
        house.turn()
    assert [each.id for each in house.model.living()] == [theirs]
    left = {each["VolumeId"] for each in client.describe_volumes()["Volumes"]}
    assert volume not in left
    assert other in left
    assert found_of(house) == []
