"""Where a trial may go before one of its checkpoints is proved to restore."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.cluster import AwsPool, ClusterConfig, LocalPool, PoolConfig
from burst.core.model import Allocation, DrainCause, Exit, Experiment, Node, Trial
from burst.core.states import AllocationState, Reason, TrialState
from burst.core.store.port import Put, Store
from burst.core.testing.examples import trial
from burst.runner.loop import Runner
from burst.runner.pools.fake import FakePool
from burst.runner.pools.port import Pool
from burst.runner.proof import admitted, losing_pools, needs_proof
from burst.runner.wishes import ask_to_leave
from tests.runner.house import COMPLETED, House, forever

SPOT = AwsPool(instance_types=("p4d.24xlarge",), max_nodes=1)
POOLS: Mapping[str, PoolConfig] = {"home": LocalPool(), "spot": SPOT, "other": SPOT}
LOSING = losing_pools(POOLS)
CKPT = "ckpt-1m3k9zq4w7c"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"pools": ("home", "spot")}, ("home", "spot")),  # fresh: nothing to lose yet
        ({"pools": ("home", "spot"), "checkpoint": CKPT, "pool": "home"}, ("home",)),
        ({"pools": ("spot", "home", "other"), "checkpoint": CKPT, "pool": "home"}, ("home",)),
        (
            {"pools": ("home", "spot"), "checkpoint": CKPT, "pool": "home", "proved": CKPT},
            ("home", "spot"),
        ),
        ({"pools": ("home", "spot"), "checkpoint": CKPT, "pool": "spot"}, ("home", "spot")),
        ({"pools": ("spot",), "checkpoint": CKPT, "pool": "home"}, ("spot",)),
        ({"pools": ("gone", "spot"), "checkpoint": CKPT, "pool": "gone"}, ("gone", "spot")),
        ({"pools": ("home",), "checkpoint": CKPT, "pool": "home"}, ("home",)),
    ],
)
def test_an_unproved_trial_does_not_move_to_where_nodes_are_lost(
    fields: dict[str, Any], expected: tuple[str, ...]
) -> None:
    one = trial(**fields)
    pools, why = admitted(one, LOSING)
    assert pools == expected
    assert bool(why) is (pools != one.pools)


def test_the_reason_tells_what_is_missing() -> None:
    waiting = trial(pools=("home", "spot"), checkpoint=CKPT, pool="home")
    assert admitted(waiting, LOSING)[1] == (
        "pool spot is closed to it until a checkpoint of it is proved to restore, which is done "
        "where it trains"
    )
    bad = waiting.model_copy(update={"unprovable": "the optimizer differs"})
    assert admitted(bad, LOSING)[1].endswith(
        f"checkpoint {CKPT} did not come back as it was saved"
    )


@given(
    pools=st.lists(st.sampled_from(["home", "spot", "other", "gone"]), min_size=1, unique=True),
    pool=st.sampled_from(["", "home", "spot", "other", "gone"]),
    checkpoint=st.sampled_from(["", CKPT]),
    proved=st.sampled_from(["", CKPT]),
)
def test_the_rule_never_leaves_a_trial_without_a_pool_it_had(
    pools: list[str], pool: str, checkpoint: str, proved: str
) -> None:
    one = trial(pools=tuple(pools), pool=pool, checkpoint=checkpoint, proved=proved)
    allowed, why = admitted(one, LOSING)
    assert [name for name in pools if name in allowed] == list(allowed)
    assert any(name in LOSING for name in allowed) or not any(n in LOSING for n in pools)
    if why:
        assert not proved
        assert needs_proof(one, LOSING)
        assert not any(LOSING.get(name) for name in allowed)


class TwoPools(House):
    """This machine, and a fleet whose machines may be taken away."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, script=forever)
        self.home = self.pool
        self.spot = FakePool("spot", self.clock)
        cluster = ClusterConfig(
            pools={"local": LocalPool(idle=600.0), "spot": SPOT.model_copy(update={"idle": 600.0})}
        )
        self.ws = type(self.ws)(folder, cluster, self.store, self.ws.blobs)
        self.runner = self.new_runner()

    def new_runner(self, store: Store | None = None, pool: Pool | None = None) -> Runner:
        spot = getattr(self, "spot", None)
        pools: dict[str, Pool] = {"local": self.pool, **({"spot": spot} if spot else {})}
        return Runner(self.ws, self.clock, pools)

    def agents(self) -> None:
        for node in self.store.live(Node):
            self.pool = self.spot if node.pool == "spot" else self.home
            if self.pool.made.get(node.id) == "alive":
                self._agent(node)

    def first(self) -> Trial:
        """The trial of the experiment that was submitted first."""
        return self.trials(self.store.children(Experiment, "")[0])[0]

    def write(self, **fields: Any) -> None:
        self.store.commit(Put(self.first().model_copy(update=fields)))

    def runs_in(self, pool: str) -> bool:
        if not self.trials(self.store.children(Experiment, "")[0]):
            return False
        newest = self.attempts(self.first())[-1:]
        return any(a.pool == pool and a.state is AllocationState.RUNNING for a in newest)

    def displace(self) -> None:
        """The trial makes room for one of a better priority, which takes its place at home."""
        if self.runs_in("local"):
            self.submit(name="urgent", resources={"pools": ["local"], "priority": 1})
        (allocation,) = [each for each in self.attempts(self.first()) if each.live]
        reason, now = Reason(code="preempted", text="it makes room"), self.clock.now()
        self.store.commit(*ask_to_leave(allocation, DrainCause.PREEMPT, reason, now, 60.0))


@pytest.fixture
def house(tmp_path: Path) -> TwoPools:
    """A trial on this machine, and room in the fleet, where it may go as well."""
    made = TwoPools(tmp_path)
    made.submit(resources={"pools": ["local", "spot"]})
    made.run(until=lambda: made.runs_in("local"))
    made.script = _complete_in_spot
    made.submit(name="brief", resources={"pools": ["spot"]})
    made.run(until=lambda: any(n.idle_since is not None for n in made.store.live(Node, "spot")))
    made.script = forever
    return made


def _complete_in_spot(trial: Trial, allocation: Allocation, ran: float) -> Exit | str | None:
    return COMPLETED if allocation.pool == "spot" else None


def test_an_unproved_trial_waits_at_home_and_goes_on_once_it_is_proved(house: TwoPools) -> None:
    house.write(checkpoint=CKPT)
    house.displace()
    house.run(20)
    waiting = house.first()
    assert waiting.state is TrialState.WAITING
    assert str(waiting.wait).endswith("which is done where it trains")
    assert len(house.spot.alive) == 1
    house.write(proved=CKPT)
    house.run(200, until=lambda: house.runs_in("spot"))


@pytest.mark.parametrize("fields", [{}, {"checkpoint": CKPT, "proved": CKPT}])
def test_a_fresh_trial_and_a_proved_one_go_where_there_is_room(
    house: TwoPools, fields: dict[str, str]
) -> None:
    house.write(**fields)
    house.displace()
    house.run(200, until=lambda: house.runs_in("spot"))


def test_a_trial_that_is_where_nodes_are_lost_goes_on_there(tmp_path: Path) -> None:
    made = TwoPools(tmp_path)
    made.submit(resources={"pools": ["spot"]})
    made.run(until=lambda: made.runs_in("spot"))
    made.write(checkpoint=CKPT)
    made.displace()
    made.run(until=lambda: made.first().attempts == 2 and made.runs_in("spot"))


def test_a_trial_that_did_not_restore_does_not_move_either(house: TwoPools) -> None:
    house.write(checkpoint=CKPT, unprovable="the optimizer differs")
    house.displace()
    house.run(20)
    assert len(house.spot.calls) == 1
    assert "did not come back as it was saved" in str(house.first().wait)
