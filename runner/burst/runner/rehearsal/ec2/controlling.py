"""The control calls, as the model answers them (`burst.runner.rehearsal.control` asks)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from burst.core.errors import NotFound
from burst.runner.rehearsal.control import Seen
from burst.runner.rehearsal.ec2.cloud import Cloud
from burst.runner.rehearsal.ec2.faults import Fault
from burst.runner.rehearsal.ec2.machine import Machine
from burst.runner.rehearsal.ec2.rules import CapacityRule, Kind, Quota

Body = Mapping[str, Any]


def control(cloud: Cloud, method: str, path: str, body: Body) -> Any:
    """What is answered, as JSON's values.

    Raises:
        NotFound: no such machine, or no such call.
        Refused: it cannot be.
    """
    head, _, rest = path.partition("/")
    if head == "machines" and rest:
        id, _, what = rest.partition("/")
        return _of_machine(cloud, cloud.find(id), method, what, body)
    calls: dict[tuple[str, str], Callable[[Cloud, Body], Any]] = {
        ("GET", "machines"): lambda cloud, _: {"machines": _all(cloud)},
        ("GET", "calls"): lambda cloud, _: {"calls": dict(cloud.calls)},
        ("POST", "capacity"): _capacity,
        ("POST", "quota"): _quota,
        ("POST", "refusals"): _refuse,
        ("POST", "price"): _price,
        ("POST", "delays"): _delays,
        ("POST", "faults"): _fault,
        ("POST", "throttle"): _throttle,
        ("DELETE", "rules"): _reset_rules,
        ("DELETE", "faults"): lambda cloud, _: cloud.faults.clear(),
    }
    return _chosen(calls, (method, path))(cloud, body)


def _of_machine(cloud: Cloud, machine: Machine, method: str, what: str, body: Body) -> Any:
    calls: dict[tuple[str, str], Callable[[], Any]] = {
        ("GET", ""): lambda: asdict(_seen(machine, cloud.clock.now())),
        ("GET", "console"): lambda: {"text": _console(machine)},
        ("POST", "interrupt"): lambda: {"at": cloud.interrupt(machine, body["notice"])},
        ("POST", "rebalance"): lambda: cloud.recommend_rebalance(machine),
        ("POST", "partition"): lambda: cloud.partition(machine, bool(body["cut"])),
        ("POST", "shutdown"): lambda: cloud.shutdown(
            machine, None if body.get("cancel") else float(body["after"])
        ),
    }
    return _chosen(calls, (method, what))()


def _chosen(calls: Mapping[tuple[str, str], Any], key: tuple[str, str]) -> Any:
    if key not in calls:
        raise NotFound(f"the rehearsal cloud has no call {' '.join(key)}")
    return calls[key]


def _all(cloud: Cloud) -> list[dict[str, Any]]:
    now = cloud.clock.now()
    return [asdict(_seen(machine, now)) for machine in cloud.machines.values()]


def _seen(machine: Machine, now: float) -> Seen:
    return Seen(
        id=machine.id,
        state=str(machine.state),
        type=machine.kind.type,
        zone=machine.kind.zone,
        market=machine.kind.market,
        tags=dict(machine.body.tags()),
        placement_group=machine.group,
        price=machine.price,
        seconds=machine.seconds(now),
        launched=machine.launched,
        booted=machine.booted,
        noticed=machine.noticed,
        reclaim_at=machine.reclaim_at,
        ended=machine.ended,
        gone=machine.gone,
        reason=str(machine.reason),
        partitioned=machine.partitioned,
        folder=str(machine.disk.root),
    )


def _console(machine: Machine) -> str:
    if not machine.disk.console.exists():
        return ""
    return machine.disk.console.read_text(errors="replace")


def _kind(body: Body) -> Kind:
    return Kind(body["type"], body["zone"], body["market"])


def _capacity(cloud: Cloud, body: Body) -> None:
    cloud.capacity.append(CapacityRule(_kind(body), body["machines"], body["since"]))


def _quota(cloud: Cloud, body: Body) -> None:
    quota = Quota(body["market"], body["kind"], body["vcpus"])
    same = (quota.market, quota.kind)
    cloud.quotas[:] = [each for each in cloud.quotas if (each.market, each.kind) != same]
    cloud.quotas.append(quota)


def _refuse(cloud: Cloud, body: Body) -> None:
    cloud.refusals.append((_kind(body), body["code"], body["message"]))


def _price(cloud: Cloud, body: Body) -> None:
    cloud.prices[_kind(body)] = float(body["usd"])


def _reset_rules(cloud: Cloud, _: Body) -> None:
    cloud.capacity.clear()
    cloud.quotas.clear()
    cloud.refusals.clear()
    cloud.prices.clear()


def _delays(cloud: Cloud, body: Body) -> None:
    for name, seconds in body.items():
        setattr(cloud.settings, name, float(seconds))


def _fault(cloud: Cloud, body: Body) -> None:
    fault = Fault(body["operation"], body["code"], bool(body["after"]), times=int(body["times"]))
    cloud.faults.add(fault)


def _throttle(cloud: Cloud, body: Body) -> None:
    cloud.faults.throttle(body["operation"], cloud.clock.now() + float(body["seconds"]))
