"""A gang over several nodes ends with the very bytes of one on a single node, whatever becomes of
its nodes meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.model import DrainCause, ExitKind
from burst.core.states import AllocationState, TrialState
from tests.exactness.gangs import Cluster, Ended

WHOLE = tuple(range(40))


def _run(folder: Path, nodes: int, slots_per_node: int, *marks: str, slots: int = 2) -> Ended:
    cluster = Cluster(folder, slots_per_node)
    with cluster.nodes(nodes) as workspace:
        cluster.submit(slots, marks)
        ended = cluster.finish(workspace)
        assert ended.trial.state is TrialState.COMPLETED, ended.trial.failure
        return ended


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Two ranks on one node, never interrupted."""
    ended = _run(tmp_path_factory.mktemp("whole") / "lab", 1, 2)
    assert ended.trained == WHOLE
    assert ended.ending.validations
    return ended


@pytest.mark.slow
def test_paused_and_resumed_two_nodes_end_as_one(tmp_path: Path, whole: Ended) -> None:
    ended = _run(tmp_path / "lab", 2, 1, "pause-17")
    assert ended.ending == whole.ending
    assert ended.trained == WHOLE
    paused, last = ended.attempts
    assert paused.exit is not None
    assert (paused.exit.kind, paused.exit.durable) == (ExitKind.DRAINED, True)
    assert len(last.ends) == 2
    assert all(ended.logged[rank] >= len(WHOLE) for rank in (0, 1))
    assert last.rendezvous != paused.rendezvous


@pytest.mark.slow
def test_an_agent_that_is_asked_to_end_drains_all_nodes_and_no_batch_is_lost(
    tmp_path: Path, whole: Ended
) -> None:
    ended = _run(tmp_path / "lab", 3, 1, "term-17")
    assert ended.ending == whole.ending
    assert ended.trained == WHOLE
    drained, last = ended.attempts
    assert drained.drain is not None
    assert drained.drain.cause is DrainCause.NODE
    assert {end.kind for end in drained.ends.values()} == {ExitKind.DRAINED}
    assert drained.exit is not None
    assert drained.exit.durable
    assert drained.shares[1].node not in [share.node for share in last.shares]


@pytest.mark.slow
def test_a_node_lost_without_warning_costs_no_more_than_the_interval_and_no_other_node(
    tmp_path: Path, whole: Ended
) -> None:
    ended = _run(tmp_path / "lab", 3, 1, "die-17")
    assert ended.ending == whole.ending
    lost, last = ended.attempts
    assert lost.state is AllocationState.LOST
    assert last.restored_batches == 10
    assert ended.trained == (*range(18), *range(10, 40))
    assert ended.trial.restarts == 0
    assert last.shares[0].node == lost.shares[0].node or lost.shares[0].node in [
        share.node for share in last.shares
    ]


@pytest.mark.slow
def test_a_rank_that_raises_on_the_second_node_is_the_gang_s_why(
    tmp_path: Path, whole: Ended
) -> None:
    ended = _run(tmp_path / "lab", 2, 1, "raise-17")
    assert ended.ending == whole.ending
    crashed, _ = ended.attempts
    node = crashed.shares[1].node
    assert crashed.exit is not None
    assert crashed.exit.kind is ExitKind.CRASHED
    failure = crashed.exit.failure
    assert failure is not None
    assert (failure.kind, failure.rank, failure.node) == ("ZeroDivisionError", 1, node)
    assert f"(rank 1 on {node})" in str(crashed.reason)
    assert "ganged.py" in failure.traceback
    assert crashed.ended is not None
    assert failure.at is not None
    assert crashed.ended - failure.at < 60, "the other node has waited for something"


@pytest.mark.slow
def test_two_nodes_of_two_slots_end_as_one_of_four(tmp_path: Path) -> None:
    four = _run(tmp_path / "four", 1, 4, slots=4)
    two = _run(tmp_path / "two", 2, 2, slots=4)
    assert four.ending.validations
    assert two.ending == four.ending
    assert all(two.logged[rank] >= len(WHOLE) for rank in range(4))


@pytest.mark.slow
def test_a_gang_goes_on_on_one_node_and_that_on_two_others_with_fresh_disks(
    tmp_path: Path, whole: Ended
) -> None:
    cluster = Cluster(tmp_path / "lab", 1)
    disks = [tmp_path / name for name in ("a", "b", "c", "d", "e")]
    tiers = f"[{{type: local}}, {{type: shared_fs, path: {cluster.bench.home}/blobs}}]"
    with cluster.nodes(0) as workspace:
        for disk in disks[:2]:
            cluster.start_agent(disk=disk)
        marks = ("pause-13", "pause-27")
        cluster.submit(2, marks, f"checkpoints.storage={tiers}")
        paused = cluster.settled(workspace)
        cluster.end_agents(gently=True)
        cluster.start_agent(pool="whole", disk=disks[2])
        cluster.bench.burst("resume", paused.id)
        cluster.settled(workspace)
        cluster.end_agents(gently=True)
        for disk in disks[3:]:
            cluster.start_agent(disk=disk)
        ended = cluster.finish(workspace)
    assert ended.ending == whole.ending
    assert ended.trained == WHOLE
    assert [len(attempt.shares) for attempt in ended.attempts] == [2, 1, 2]
    kept = [disk.name for disk in disks if (disk / "tier" / "checkpoints").exists()]
    assert kept == ["c"], "only what one node trains alone goes to its own disk first"
