"""Before anything is removed: work is paused with a checkpoint, and machines are ended."""

from __future__ import annotations

from typing import Any

import pytest

from burst.cli.account import emptying
from burst.cli.account.emptying import end_machines, live_in, machines_of, pause_all
from burst.core.aws.names import tag_list, tags_of
from burst.core.clock import ManualClock, SystemClock
from burst.core.errors import Refused, Unreachable
from burst.core.model import Experiment
from burst.core.states import ExperimentState
from burst.core.store.port import Put
from burst.runner.pools.aws.machines import Machines
from tests.cli import world
from tests.cli.conftest import Burst, burst
from tests.infra.account.conftest import REGION, Person

__all__ = ["burst"]


class Deaf:
    """A runner that brings nothing forward."""

    error = None

    def __init__(self, workspace: object) -> None: ...

    def __enter__(self) -> Deaf:
        return self

    def __exit__(self, *_: object) -> None: ...


def launch(cluster: str, pool: str) -> str:
    from boto3.session import Session

    ec2: Any = Session().client("ec2", region_name=REGION)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    tags = tag_list(tags_of(cluster, pool))
    made = ec2.run_instances(
        ImageId=image,
        InstanceType="c5.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    return str(made["Instances"][0]["InstanceId"])


def test_every_machine_of_the_cluster_ends_whatever_its_pool_and_no_other(
    person: Person,
) -> None:
    mine = {launch(person.cluster, "spot"), launch(person.cluster, "a-pool-that-was")}
    other = launch(f"{person.cluster}-b", "spot")
    told: list[str] = []
    assert end_machines(person.cluster, REGION, SystemClock(), told.append) == 2
    assert all(id in told[0] for id in mine)
    assert machines_of(person.cluster, REGION) == []
    assert machines_of(f"{person.cluster}-b", REGION) == [other]
    assert end_machines(person.cluster, REGION, SystemClock(), told.append) == 0
    end_machines(f"{person.cluster}-b", REGION, SystemClock(), told.append)


def test_machines_that_do_not_end_are_named(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = launch(person.cluster, "spot")
    with monkeypatch.context() as patched:
        patched.setattr(Machines, "end", lambda *_: None)
        with pytest.raises(Unreachable, match=id) as raised:
            end_machines(person.cluster, REGION, ManualClock(0.0), lambda words: None)
    assert "`burst down` again" in raised.value.mend
    end_machines(person.cluster, REGION, SystemClock(), lambda words: None)


def test_what_waits_is_paused_and_told_how_it_goes_on(burst: Burst) -> None:
    world.fill(burst.store)
    live = live_in(burst.session.workspace)
    waiting = [each for each in live.experiments if each.state is ExperimentState.ACTIVE]
    assert waiting
    assert all(each.id in live.words for each in live.experiments)


def test_what_does_not_checkpoint_in_time_is_not_ended(
    burst: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill(burst.store)
    whole = {"name": "digits", "reproducibility": {"experiment_seed": 1}}
    for found in burst.store.live(Experiment):
        config = {**found.config, **whole}
        burst.store.commit(Put(found.model_copy(update={"config": config})))
    workspace, clock = burst.session.workspace, ManualClock(world.NOW)
    monkeypatch.setattr(emptying, "Driver", Deaf)
    live, told = live_in(workspace), list[str]()
    assert live.trials
    with pytest.raises(Refused, match="has not checkpointed within") as raised:
        pause_all(workspace, live, clock, told.append)
    assert "nothing was removed" in raised.value.what
    assert "--now" in raised.value.mend
    found = burst.store.get(Experiment, world.RUNNING)
    assert found.state is ExperimentState.PAUSED
    assert f"`burst resume {world.RUNNING}` goes on with it" in told[0]
