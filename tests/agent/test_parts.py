"""Several agents run a gang, each its share of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from burst.core.clock import SystemClock
from burst.core.launch import LaunchSpec, Tier
from burst.core.logs import LAUNCHER, launcher_of, read_logs
from burst.core.model import Allocation, DrainCause, Exit, ExitKind, Node, Share
from burst.core.states import AllocationState
from burst.core.store import update
from burst.runner.agent.attempts import meeting
from burst.runner.agent.running.environment import CannotPrepare
from tests.agent.conftest import Cluster, Do, Running, eventually
from tests.agent.test_faults import Faulty

Start = Callable[..., Running]
CLOCK = SystemClock()
TRAIN: Do = [("say", "step"), ("until_asked", 60)]
DEAF: Do = [("deaf", None), ("sleep", 600)]


@pytest.fixture(autouse=True)
def _no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking up a route counts as reaching for another machine."""
    monkeypatch.setattr("burst.runner.agent.hardware.network.own_address", lambda peer: "")


def assign(cluster: Cluster, nodes: Sequence[Node], do: Do, **config: Any) -> Allocation:
    """An allocation of one slot on each node."""
    beside = [Share(node=node.id, slots=(0,)) for node in nodes[1:]]
    return cluster.assign(nodes[0], do, beside=beside, **config)


def lines(cluster: Cluster, allocation: Allocation, rank: int) -> list[str]:
    return [line.text for line in read_logs(cluster.ws.blobs, allocation.trial, rank=rank)]


def ends(allocation: Allocation, nodes: Sequence[Node]) -> list[Exit]:
    assert set(allocation.ends) == {node.id for node in nodes}
    return [allocation.ends[node.id] for node in nodes]


def wait_idle(cluster: Cluster, node: Node) -> None:
    """Until the node is ready for other work."""

    def idle() -> bool:
        found = cluster.ws.store.get(Node, node.id)
        return found.gone is None and found.draining is None and found.idle_since is not None

    eventually(idle)


def test_every_agent_runs_its_share_and_the_last_releases_the_whole(
    cluster: Cluster, start: Start
) -> None:
    nodes = [cluster.node(), cluster.node(), cluster.node()]
    do: Do = [
        ("spec", "nodes"),
        ("spec", "node_rank"),
        ("spec", "rendezvous"),
        ("variable", "GLOO_SOCKET_IFNAME"),
        ("print", "to the launcher"),
        ("at_node", [0, "sleep", 1.0]),
        ("outcome", "completed"),
    ]
    allocation = assign(cluster, nodes, do)
    for node in nodes:
        start(node)
    released = cluster.released(allocation.id)
    assert released.exit == Exit(kind=ExitKind.COMPLETED)
    assert ends(released, nodes) == [Exit(kind=ExitKind.COMPLETED)] * 3
    assert released.rendezvous.startswith("127.0.0.1:")
    for rank, node in enumerate(nodes):
        assert lines(cluster, released, rank) == [
            "nodes=3",
            f"node_rank={rank}",
            f"rendezvous={released.rendezvous}",
            "GLOO_SOCKET_IFNAME=lo",
        ]
        assert "to the launcher" in lines(cluster, released, launcher_of(rank))
        assert released.network[node.id]["interface"] == "lo"
    assert launcher_of(0) == LAUNCHER
    eventually(lambda: not list(cluster.ws.blobs.list(f"probes/{allocation.id}")))


def test_what_the_experiment_says_of_the_network_stands(cluster: Cluster, start: Start) -> None:
    nodes = [cluster.node(), cluster.node()]
    do: Do = [("variable", "GLOO_SOCKET_IFNAME"), ("outcome", "completed")]
    variables = {"variables": {"GLOO_SOCKET_IFNAME": "bond0"}}
    allocation = assign(cluster, nodes, do, environment=variables)
    for node in nodes:
        start(node)
    released = cluster.released(allocation.id)
    for rank, node in enumerate(nodes):
        assert lines(cluster, released, rank) == ["GLOO_SOCKET_IFNAME=bond0"]
        assert released.network[node.id]["settings"]["GLOO_SOCKET_IFNAME"] == "bond0"


@pytest.mark.parametrize("leaver", [0, 1])
def test_a_node_that_leaves_drains_all_of_the_gang(
    cluster: Cluster, start: Start, leaver: int
) -> None:
    nodes = [cluster.node(), cluster.node()]
    allocation = assign(cluster, nodes, TRAIN)
    running = [start(node) for node in nodes]
    eventually(lambda: lines(cluster, allocation, 0) and lines(cluster, allocation, 1))
    running[leaver].tell_to_leave()
    released = cluster.released(allocation.id)
    assert released.exit == Exit(kind=ExitKind.DRAINED)
    assert ends(released, nodes) == [Exit(kind=ExitKind.DRAINED)] * 2
    assert released.drain is not None
    assert released.drain.cause is DrainCause.NODE
    assert running[leaver].join() is not None
    wait_idle(cluster, nodes[1 - leaver])


def test_a_pause_drains_all_of_the_gang(cluster: Cluster, start: Start) -> None:
    nodes = [cluster.node(), cluster.node()]
    allocation = assign(cluster, nodes, TRAIN)
    for node in nodes:
        start(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.drain(allocation.id, DrainCause.PAUSE)
    released = cluster.released(allocation.id)
    assert released.exit is not None
    assert released.exit.kind is ExitKind.DRAINED


@pytest.mark.parametrize("crashing", [0, 1])
def test_a_rank_that_fails_on_one_node_ends_the_others_within_seconds(
    cluster: Cluster, start: Start, crashing: int
) -> None:
    nodes = [cluster.node(), cluster.node()]
    do: Do = [("at_node", [crashing, "fail", "the user is to see this"]), *DEAF]
    allocation = assign(cluster, nodes, do)
    for node in nodes:
        start(node)
    released = cluster.released(allocation.id)
    assert released.exit is not None
    failure = released.exit.failure
    assert failure is not None
    assert (failure.kind, failure.rank) == ("ValueError", crashing)
    assert failure.node == nodes[crashing].id
    assert f"(rank {crashing} on {nodes[crashing].id})" in str(released.reason)
    assert released.ended is not None
    assert failure.at is not None
    assert released.ended - failure.at < 60
    for node in nodes:
        wait_idle(cluster, node)


def test_the_cause_is_found_on_whichever_node_it_was(cluster: Cluster, start: Start) -> None:
    """Who lost its peer says so first; the peer's own error comes when its launcher is through."""
    nodes = [cluster.node(), cluster.node()]
    do: Do = [
        ("at_node", [1, "lose_peer", ""]),
        ("sleep", 0.5),
        ("fail", "it began here"),
    ]
    allocation = assign(cluster, nodes, do)
    for node in nodes:
        start(node)
    failure = (cluster.released(allocation.id).exit or Exit(kind=ExitKind.DRAINED)).failure
    assert failure is not None
    assert (failure.message, failure.node) == ("it began here", nodes[0].id)


def test_a_preparation_that_fails_on_one_node_keeps_none_waiting(
    cluster: Cluster, start: Start
) -> None:
    nodes = [cluster.node(), cluster.node()]
    setup = f"case $BURST_LAUNCH in *{nodes[1].id}*) echo no compiler; exit 3;; esac"
    allocation = assign(cluster, nodes, TRAIN, environment={"setup": [setup]})
    for node in nodes:
        start(node)
    released = cluster.released(allocation.id)
    assert released.exit is not None
    assert released.exit.kind is ExitKind.CRASHED
    assert released.exit.failure is not None
    assert "no compiler" in released.exit.failure.traceback
    assert released.exit.failure.node == nodes[1].id
    assert released.started is None


def test_a_node_that_never_takes_its_part_up_sends_the_gang_back_to_the_queue(
    cluster: Cluster, start: Start
) -> None:
    nodes = [cluster.node(), cluster.node()]
    allocation = assign(cluster, nodes, TRAIN)
    start(nodes[0])
    cluster.reaches(allocation.id, AllocationState.STARTING)
    update(
        cluster.ws.store,
        Node,
        nodes[1].id,
        lambda node: node.model_copy(update={"draining": CLOCK.now()}),
    )
    start(nodes[1])
    released = cluster.released(allocation.id)
    assert released.exit == Exit(kind=ExitKind.DRAINED)
    assert released.rendezvous == ""
    wait_idle(cluster, nodes[0])


def test_an_agent_that_was_replaced_in_the_middle_ends_the_gang_for_the_world_s_sake(
    cluster: Cluster, start: Start
) -> None:
    nodes = [cluster.node(), cluster.node()]
    allocation = assign(cluster, nodes, DEAF)

    def begun(record: Allocation) -> Allocation:
        noted = {nodes[1].id: {"stack": "another", "address": "127.0.0.1"}}
        return record.model_copy(update={"network": noted})

    update(cluster.ws.store, Allocation, allocation.id, begun)
    start(nodes[0])
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    start(nodes[1])
    released = cluster.released(allocation.id)
    assert released.exit is not None
    assert released.exit.kind is ExitKind.INFRASTRUCTURE
    assert released.exit.failure is not None
    assert released.exit.failure.kind == "agent"


def test_survivors_of_a_lost_gang_end_their_ranks_at_once_and_stay_ready(
    cluster: Cluster, start: Start
) -> None:
    nodes = [cluster.node(), cluster.node()]
    allocation = assign(cluster, nodes, DEAF)
    for node in nodes:
        start(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    begun = time.monotonic()
    cluster.lose(allocation.id)
    for node in nodes:
        wait_idle(cluster, node)
    left = cluster.ws.home / "nodes"
    eventually(lambda: not any(left.glob(f"*/{allocation.id}")))
    assert time.monotonic() - begun < 60
    assert cluster.allocation(allocation.id).ends == {}
    again = cluster.assign(nodes[1], [("outcome", "completed")])
    assert cluster.released(again.id).exit == Exit(kind=ExitKind.COMPLETED)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", range(7))
def test_one_commit_of_an_agent_that_fails_costs_no_gang(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch, call: int, when: str
) -> None:
    for module in ("attempt", "meeting", "releasing"):
        monkeypatch.setattr(f"burst.runner.agent.attempts.{module}._RETRY_S", 0.05)
    nodes = [cluster.node(), cluster.node()]
    stores = [Faulty(cluster.ws.store, ("commit",)) for _ in nodes]
    for node, store in zip(nodes, stores, strict=True):
        start(node, ws=replace(cluster.ws, store=store))
    for node in nodes:
        wait_idle(cluster, node)
    first = stores[call % 2].calls + call
    stores[call % 2].fail = lambda number: when if number == first else ""
    allocation = assign(cluster, nodes, [("outcome", "completed")])
    assert cluster.released(allocation.id).exit == Exit(kind=ExitKind.COMPLETED)


def test_unequal_shares_are_refused_in_words(cluster: Cluster, start: Start) -> None:
    nodes = [cluster.node(), cluster.node()]
    beside = [Share(node=nodes[1].id, slots=(0,))]
    allocation = cluster.assign(nodes[0], TRAIN, slots=(0, 1), beside=beside)
    for node in nodes:
        start(node)
    exit = cluster.released(allocation.id).exit
    assert exit is not None
    assert exit.failure is not None
    assert "not the same number of slots" in exit.failure.message


def test_folders_that_are_others_on_every_node_are_refused_in_words(cluster: Cluster) -> None:
    here, there = (str(cluster.ws.home / name) for name in ("here", "there"))
    specs = [
        LaunchSpec(
            folder="",
            store_url="",
            blobs_url="",
            checkpoints_url=f"file://{url}",
            tiers=(Tier(url=f"file://{url}"), Tier(url="s3://bucket/place")),
            experiment="",
            trial="",
            allocation="alloc-1m3k9zq4w73",
            node="",
            attempt=1,
            token=1,
            hparams={},
            seed=0,
            config={},
        )
        for url in (here, there)
    ]
    shown = meeting.show(specs[0])
    assert shown == [f"file://{here}"]
    meeting.see(specs[0], "node-a", "node-b")
    with pytest.raises(CannotPrepare, match="do not share"):
        meeting.see(specs[1], "node-a", "node-b")


def test_a_gang_that_was_taken_to_its_end_is_not_taken_up_again(
    cluster: Cluster, start: Start
) -> None:
    """The node whose part has ended stays as it is until the others are through."""
    nodes = [cluster.node(), cluster.node()]
    allocation = assign(cluster, nodes, [("at_node", [0, "sleep", 3.0]), ("outcome", "completed")])
    for node in nodes:
        start(node)
    eventually(lambda: nodes[1].id in cluster.allocation(allocation.id).ends)
    assert cluster.released(allocation.id).exit == Exit(kind=ExitKind.COMPLETED)
    starts = [event for event in cluster.ws.store.events().events if "starting" in event.name]
    assert len(starts) == 1


@pytest.mark.parametrize("over", [False, True])
def test_what_is_not_seen_counts_only_while_the_first_node_is_there(
    cluster: Cluster, start: Start, over: bool
) -> None:
    """The first node has shown something and cleared it away when its part had ended."""
    nodes = [cluster.node(), cluster.node()]
    allocation = assign(cluster, nodes, TRAIN)

    def met(record: Allocation) -> Allocation:
        ends = {nodes[0].id: Exit(kind=ExitKind.INFRASTRUCTURE, durable=False)} if over else {}
        noted = {nodes[0].id: {"stack": "another", "address": "127.0.0.1"}}
        return record.model_copy(
            update={"rendezvous": "127.0.0.1:9", "network": noted, "ends": ends}
        )

    update(cluster.ws.store, Allocation, allocation.id, met)
    start(nodes[1])
    eventually(lambda: nodes[1].id in cluster.allocation(allocation.id).ends)
    own = cluster.allocation(allocation.id).ends[nodes[1].id]
    assert own.kind is (ExitKind.DRAINED if over else ExitKind.CRASHED)
