"""An agent without work leaves by itself, unless the plan says that somebody waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.core.blobs import open_blobs
from burst.core.clock import ManualClock
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import Unreachable
from burst.core.model import Node
from burst.core.store import update
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put
from burst.core.testing import examples
from burst.core.workspace import Workspace
from burst.runner.agent.serving.stay import Stay
from burst.runner.agent.serving.tenure import Tenure
from burst.runner.agent.site import Site

IDLE = 60.0


class Case:
    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.store: Any = MemoryStore()
        self.node = examples.node(gone=None, launched=self.clock.now())
        self.store.commit(Put(self.node))
        blobs = open_blobs(f"file://{folder}")
        self.ws = Workspace(folder, ClusterConfig(), self.store, blobs)
        self.tenure = Tenure(Site(self.ws, self.node, clock=self.clock), Stay(idle=IDLE))

    def leaves(self, *, busy: bool = False) -> bool:
        return self.tenure.over(busy=busy, signalled=False, lease_lost="") is not None

    def want(self) -> None:
        now = self.clock.now()
        update(self.store, Node, self.node.id, lambda n: n.model_copy(update={"wanted_at": now}))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_it_leaves_when_it_had_no_work_for_as_long_as_the_pool_says(case: Case) -> None:
    assert not case.leaves(busy=True)
    case.clock.advance(IDLE - 1)
    assert not case.leaves()
    case.clock.advance(1)
    assert case.leaves()


def test_while_the_plan_says_so_anew_it_stays_and_then_it_leaves(case: Case) -> None:
    for _ in range(5):
        case.clock.advance(IDLE - 1)
        case.want()
        case.clock.advance(1)
        assert not case.leaves()
    case.clock.advance(IDLE)
    assert case.leaves(), "an old word counts once"


def test_a_word_that_is_older_than_its_work_counts_once_too(case: Case) -> None:
    case.want()
    case.clock.advance(IDLE)
    assert not case.leaves()
    case.clock.advance(IDLE)
    assert case.leaves()


def test_it_does_not_leave_for_want_of_work_while_the_store_cannot_be_asked(case: Case) -> None:
    class Away:
        def find(self, kind: Any, id: str) -> Any:
            raise Unreachable("the store did not answer")

    site = Site(
        Workspace(case.ws.home, case.ws.cluster, Away(), case.ws.blobs),  # type: ignore[arg-type]
        case.node,
        clock=case.clock,
    )
    case.tenure = Tenure(site, Stay(idle=IDLE))
    case.clock.advance(10 * IDLE)
    assert not case.leaves()
