"""The pool against a model of EC2 on loopback: every pool's contract, and EC2 at its worst."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from burst.core.aws.instance_types import known_type
from burst.core.aws.names import placement_group_name, tag_list, tags_of, template_name
from burst.core.aws.templates import NodeMachine, template_data
from burst.core.clock import ManualClock, SystemClock
from burst.core.config.cluster import AwsPool as AwsPoolConfig
from burst.core.errors import BurstError, Unreachable
from burst.core.ids import new_id
from burst.core.model import Json, Node, RefusalKind, Supply
from burst.core.retrying import Retries
from burst.runner.pools.aws import AwsPool
from burst.runner.pools.aws.ec2 import Ec2
from burst.runner.pools.port import Launched, Leftover, Liveness, Pool
from burst.runner.rehearsal.ec2.images import PARAMETERS
from burst.runner.testing.pool_contract import PoolContract, eventually_dead
from tests.rehearsal.lab import NOTHING, Lab, lab

CLOCK = SystemClock()
CLUSTER, POOL = "lab", "spot"
TYPES = ("c5.large", "m5.large")
ZONES = ("us-east-1a", "us-east-1b")
QUICK = Retries(attempts=3, sleep=lambda seconds: None)
CONFIG = AwsPoolConfig(instance_types=TYPES, zones=ZONES, max_nodes=8)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A model with the subnets and the launch templates of a cluster."""
    with lab(tmp_path_factory.mktemp("ec2")) as made:
        made.ec2.create_tags(
            Resources=[made.subnets[zone] for zone in ZONES], Tags=tag_list(tags_of(CLUSTER))
        )
        group = made.ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
        image = f"resolve:ssm:{next(iter(PARAMETERS))}"
        machine = NodeMachine(image, "burst-lab-node", (group,))
        data = template_data(machine, tags_of(CLUSTER, POOL), NOTHING)
        made.ec2.create_launch_template(
            LaunchTemplateName=template_name(CLUSTER, POOL), LaunchTemplateData=data
        )
        kind = known_type("p5.48xlarge")
        assert kind is not None
        data = template_data(machine, tags_of(CLUSTER, POOL), NOTHING, kind=kind, efa=True)
        made.ec2.create_launch_template(
            LaunchTemplateName=template_name(CLUSTER, POOL, kind.name), LaunchTemplateData=data
        )
        yield made


@pytest.fixture
def cloud(shared: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", shared.url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    yield shared
    shared.control.heal()
    shared.control.reset_rules()
    shared.control.set_delays(boot=0.05, listed_after=0, known_after=0)
    living = [each.id for each in shared.control.machines() if each.ended is None]
    if living:
        shared.ec2.terminate_instances(InstanceIds=living)


Pools = Callable[..., AwsPool]


@pytest.fixture(scope="module")
def ec2() -> Iterator[Ec2]:
    """Connections, which cost a second to make; pools have nothing else in common."""
    made = Ec2("us-east-1", QUICK)
    yield made
    made.close()


@pytest.fixture
def opened(cloud: Lab, ec2: Ec2) -> Pools:
    def make(clock: Any = CLOCK, **changes: Any) -> AwsPool:
        return AwsPool(POOL, CONFIG.model_copy(update=changes), CLUSTER, ec2, clock)

    return make


@pytest.fixture
def pools(opened: Pools) -> Pools:
    return opened


def intents(pool: Pool, count: int = 1, *, whole: bool = False, **fields: Any) -> list[Node]:
    """The nodes of one request, as they are written before it."""
    now = CLOCK.now()
    ask = pool.ask(count, whole=whole, beside=None, supply=Supply(id=POOL), now=now)
    launch = new_id("launch", CLOCK)
    found = [
        Node(
            id=new_id("node", ManualClock(now + number)),
            pool=POOL,
            expected_slots=2,
            requested=now,
            launch=launch,
            whole=whole,
            ask=ask,
        )
        for number in range(count)
    ]
    return [node.model_copy(update=fields) for node in found]


def living(cloud: Lab) -> list[str]:
    return sorted(each.id for each in cloud.control.machines() if each.ended is None)


def machines_of(launched: Launched) -> list[str]:
    return sorted(str(node.handle["instance"]) for node in launched.nodes)


class TestAwsPool(PoolContract):
    @pytest.fixture
    def pools(self, opened: Pools) -> Callable[[], Pool]:
        return opened

    @pytest.fixture
    def intend(self, opened: Pools) -> Callable[[], Node]:
        return lambda: intents(opened())[0]


def test_launching_and_watching_cost_one_request_each(cloud: Lab, pools: Pools) -> None:
    pool = pools()
    nodes = intents(pool, 3)
    before = cloud.control.calls()
    launched = pool.launch(nodes)
    pool.observe(launched.nodes)
    for node in launched.nodes:
        pool.terminate(node)
    after = cloud.control.calls()
    made = {name: count - before.get(name, 0) for name, count in after.items()}
    assert {name: count for name, count in made.items() if count} == {
        "CreateFleet": 1,
        "DescribeInstances": 1,
        "TerminateInstances": 3,
    }


def test_a_machine_costs_what_was_known_when_it_was_asked_for(cloud: Lab, pools: Pools) -> None:
    cloud.control.set_price(0.021, market="spot")
    launched = pools().launch(intents(pools(), 1))
    (node,) = launched.nodes
    assert node.price == pytest.approx(0.021)
    assert cloud.control.machine(str(node.handle["instance"])).market == "spot"


def test_a_gang_comes_whole_into_one_cell_and_its_group_goes_with_it(
    cloud: Lab, pools: Pools
) -> None:
    cloud.control.set_capacity(2, zone="us-east-1a")
    cloud.control.set_price(0.01, zone="us-east-1b")
    pool = pools()
    launched = pool.launch(intents(pool, 3, whole=True))
    assert len(launched.nodes) == 3
    (cell,) = {node.cell for node in launched.nodes}
    zone, _, group = cell.split("/")
    assert zone == "us-east-1b"
    machines = [cloud.control.machine(id) for id in machines_of(launched)]
    assert {each.placement_group for each in machines} == {group}
    for node in launched.nodes:
        pool.terminate(node)
    for node in launched.nodes:
        eventually_dead(pool, node)
        pool.terminate(node)
    assert group not in groups(cloud)


def test_a_gang_that_cannot_come_whole_does_not_come_and_leaves_no_group(
    cloud: Lab, pools: Pools
) -> None:
    cloud.control.set_capacity(2)
    pool = pools()
    nodes = intents(pool, 3, whole=True)
    launched = pool.launch(nodes)
    assert launched.nodes == ()
    (refusal,) = launched.refusals.values()
    assert refusal.kind is RefusalKind.CAPACITY
    assert living(cloud) == []
    assert placement_group_name(CLUSTER, nodes[0].launch) not in groups(cloud)


def test_machines_with_adapters_can_be_a_gang(cloud: Lab, pools: Pools) -> None:
    pool = pools(instance_types=("p5.48xlarge",), efa=True)
    assert pool.limits.slots_per_node == 8
    launched = pool.launch(intents(pool, 2, whole=True))
    assert launched.refusals == {}
    assert len(launched.nodes) == 2
    cards = cloud.state(machines_of(launched)[0])["NetworkInterfaces"]
    assert len(cards) == 32


def test_a_node_beside_another_is_in_its_zone_type_and_group(cloud: Lab, pools: Pools) -> None:
    pool = pools()
    launched = pool.launch(intents(pool, 2, whole=True))
    first = launched.nodes[0]
    ask = pool.ask(1, whole=False, beside=first, supply=Supply(id=POOL), now=CLOCK.now())
    (node,) = intents(pool, 1, ask=ask)
    (beside,) = pool.launch([node]).nodes
    assert beside.cell == first.cell
    machine = cloud.control.machine(str(beside.handle["instance"]))
    assert machine.placement_group == first.cell.split("/")[2]


def test_separate_nodes_come_as_far_as_there_are_any(cloud: Lab, pools: Pools) -> None:
    cloud.control.set_capacity(2)
    pool = pools()
    launched = pool.launch(intents(pool, 3))
    assert len(launched.nodes) == 2
    assert living(cloud) == machines_of(launched)
    assert {each.code for each in launched.refusals.values()} == {"InsufficientInstanceCapacity"}


def test_a_quota_of_nothing_is_told_from_a_lack_of_machines_and_named(
    cloud: Lab, pools: Pools
) -> None:
    cloud.control.set_quota(0)
    pool = pools()
    launched = pool.launch(intents(pool, 1))
    assert launched.nodes == ()
    ((key, refusal),) = launched.refusals.items()
    assert key == "spot/*/Standard"
    assert refusal.kind is RefusalKind.QUOTA
    assert "L-34B43A08" in refusal.text
    book = Supply(id=POOL, refusals=launched.refusals)
    assert pool.closed_until(book, CLOCK.now()) == refusal.until


def test_what_was_refused_is_gone_round_by_the_next_ask(cloud: Lab, pools: Pools) -> None:
    cloud.control.set_capacity(0, zone="us-east-1a")
    refused = pools(zones=("us-east-1a",))
    first = refused.launch(intents(refused))
    assert first.nodes == ()
    book = Supply(id=POOL, refusals=first.refusals)
    ask = pools().ask(1, whole=False, beside=None, supply=book, now=CLOCK.now())
    zones = {ask["zones"][each["SubnetId"]] for each in offers_of(ask)}
    assert zones == {"us-east-1b"}


def test_a_machine_that_is_not_listed_yet_is_neither_dead_nor_started_twice(
    cloud: Lab, pools: Pools
) -> None:
    pool = pools()
    nodes = intents(pool, 2)
    cloud.control.set_delays(listed_after=3600, known_after=3600)
    launched = pool.launch(nodes)
    assert set(pool.observe(launched.nodes).values()) == {Liveness.UNKNOWN}
    later = ManualClock(CLOCK.now() + 30)
    assert machines_of(pools(later).launch(nodes)) == machines_of(launched)
    assert living(cloud) == machines_of(launched)
    with pytest.raises(Unreachable, match="does not show"):
        pool.terminate(launched.nodes[0])
    cloud.control.set_delays(listed_after=0, known_after=0)
    for node in launched.nodes:
        pool.terminate(node)
        eventually_dead(pool, node)


def test_every_machine_is_found_and_ended_by_tags_alone(cloud: Lab, pools: Pools) -> None:
    pool = pools()
    nodes = intents(pool, 2)
    launched = pool.launch(nodes)
    found = pools().machines()
    assert [each.id for each in found] == machines_of(launched)
    assert {each.launch for each in found} == {nodes[0].launch}
    assert all(each.age is not None and each.age < 60 for each in found)
    for each in found:
        pools().end(each)
        pools().end(each)
    for node in launched.nodes:
        eventually_dead(pool, node)
    assert pools().machines() == []


def test_nothing_is_left_over_where_machines_have_ended(cloud: Lab, pools: Pools) -> None:
    pool = pools()
    nodes = intents(pool, 2, whole=True)
    launched = pool.launch(nodes)

    def left() -> list[Leftover]:
        return [each for each in pool.leftovers() if each.launch == nodes[0].launch]

    assert left() == [], "what machines use is not left over"
    for machine in pool.machines():
        pool.end(machine)
    for node in launched.nodes:
        eventually_dead(pool, node)
    (group,) = left()
    assert group.kind == "placement group"
    assert pool.remove(group)
    assert pool.remove(group)
    assert left() == []


def test_what_a_machine_wrote_before_it_could_speak_is_shown(cloud: Lab, pools: Pools) -> None:
    pool = pools()
    (node,) = pool.launch(intents(pool)).nodes
    cloud.running(str(node.handle["instance"]))
    until = time.monotonic() + 60.0
    while not (said := cloud.control.console(str(node.handle["instance"]))):
        assert time.monotonic() < until, "it wrote nothing"
    assert pool.console(node).startswith(said)


FAULTS = [
    (operation, whole, code, when)
    for operation, whole in [
        ("CreatePlacementGroup", True),
        ("CreateFleet", True),
        ("CreateFleet", False),
        ("DescribeInstances", True),
        ("DescribeInstances", False),
    ]
    for code, when in [
        ("", "before"),
        ("", "after"),
        ("InternalError", "after"),
        ("RequestLimitExceeded", "before"),
        ("RequestExpired", "before"),
    ]
]


@pytest.mark.parametrize(("operation", "whole", "code", "when"), FAULTS)
def test_whichever_call_fails_the_request_ends_with_exactly_its_machines(
    cloud: Lab, pools: Pools, operation: str, whole: bool, code: str, when: Any
) -> None:
    nodes = intents(pools(), 2, whole=whole)
    cloud.control.fail(operation, code, when=when)
    seconds = itertools.count(step=10)
    for after in itertools.islice(seconds, 4):
        try:
            launched = pools(ManualClock(nodes[0].requested + after)).launch(nodes)
        except BurstError:
            continue
        if launched.nodes:
            break
    assert len(machines_of(launched)) == 2
    assert living(cloud) == machines_of(launched)
    again = pools(ManualClock(nodes[0].requested + 400)).launch(nodes)
    assert machines_of(again) == machines_of(launched)
    assert living(cloud) == machines_of(launched)


def test_a_runner_that_ended_after_its_request_leaves_nothing_that_is_not_found(
    cloud: Lab, pools: Pools
) -> None:
    nodes = intents(pools(), 3)
    cloud.control.fail("CreateFleet", when="after")
    with pytest.raises(Unreachable):
        pools().launch(nodes)
    started = living(cloud)
    assert len(started) == 3
    assert [each.id for each in pools().machines()] == started
    late = pools(ManualClock(nodes[0].requested + 400)).launch(nodes)
    assert machines_of(late) == started


@pytest.mark.parametrize("whole", [False, True])
def test_three_runners_at_once_start_one_request_whatever_their_clocks_say(
    cloud: Lab, pools: Pools, whole: bool
) -> None:
    nodes = intents(pools(), 3, whole=whole)
    clocks = [ManualClock(nodes[0].requested + skew) for skew in (0.0, 280.0, -280.0)]
    with ThreadPoolExecutor(3) as threads:
        each = list(threads.map(lambda clock: pools(clock).launch(nodes), clocks))
    assert {tuple(machines_of(launched)) for launched in each} == {tuple(living(cloud))}
    assert len(living(cloud)) == 3
    handles = [{node.id: node.handle for node in launched.nodes} for launched in each]
    assert handles[0] == handles[1] == handles[2]


def test_a_lost_answer_of_machines_that_are_not_listed_yet_is_asked_for_again(
    cloud: Lab, pools: Pools
) -> None:
    nodes = intents(pools(), 2)
    cloud.control.set_delays(listed_after=3600, known_after=3600)
    cloud.control.fail("CreateFleet", when="after")
    with pytest.raises(Unreachable):
        pools().launch(nodes)
    launched = pools(ManualClock(nodes[0].requested + 10)).launch(nodes)
    assert machines_of(launched) == living(cloud)
    assert len(launched.nodes) == 2


def offers_of(ask: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    return [
        override
        for config in ask["request"]["LaunchTemplateConfigs"]
        for override in config["Overrides"]
    ]


def groups(cloud: Lab) -> set[str]:
    found = cloud.ec2.describe_placement_groups()["PlacementGroups"]
    return {each["GroupName"] for each in found}
