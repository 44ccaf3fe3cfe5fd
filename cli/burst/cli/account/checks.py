"""The checks of `burst doctor --cloud`: the account, what was built in it, and the nodes there.

It needs no state: a cluster that is not built yet is looked at as `burst up` would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from burst.cli.session import Session
from burst.cli.shapes import CheckJson
from burst.core.aws.instance_types import known_type
from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.core.errors import BurstError
from burst.core.model import Allocation, Node
from burst.core.units import counted

if TYPE_CHECKING:
    from burst.infra.preflight import Check

_BUILT = "built"
"""The check that stands for all others where nothing is built."""


def check_cloud(session: Session) -> list[CheckJson]:
    """Every check, in the order in which one builds on the other.

    Raises:
        ConfigError: there is no burst.yaml, it is wrong, or its cluster has no side in AWS.
    """
    from burst.cli.account.side import cluster_file
    from burst.core.config.load import load_cluster
    from burst.infra.preflight import preflight
    from burst.infra.standing.inspecting import inspect

    config = load_cluster(cluster_file(session))
    found = preflight(config, session.environ)
    rows = [_row(each) for each in found.checks]
    if found.facts is None:
        return rows
    standing = inspect(config, found.facts, session.environ)
    rows += [_row(each) for each in standing]
    if not any(each.name == _BUILT for each in standing):
        rows += _check_nodes(session, config)
    return rows


def verdict(checks: Sequence[CheckJson]) -> str:
    """What it comes to where nothing is bad."""
    if any(each["name"] == _BUILT for each in checks):
        return "Nothing stands in the way of `burst up`."
    return "The cluster can train."


def _check_nodes(session: Session, config: ClusterConfig) -> list[CheckJson]:
    try:
        store = session.store
        return node_checks(config, store.live(Node), store.live(Allocation))
    except BurstError as error:
        return [row("nodes", False, f"{error.what}: {error.why}".rstrip(": "), error.mend)]


def node_checks(
    config: ClusterConfig, nodes: Sequence[Node], allocations: Sequence[Allocation]
) -> list[CheckJson]:
    """What the nodes that are up found when they looked at themselves, pool by pool. Pure.

    Args:
        nodes: the live ones.
        allocations: the live ones, which tell what gangs really talk over.
    """
    found = []
    for name, pool in config.pools.items():
        if not isinstance(pool, AwsPool):
            continue
        up = [each for each in nodes if each.pool == name and each.registered is not None]
        found.append(_nodes_of(name, up))
        if pool.efa and up:
            gangs = [each for each in allocations if each.pool == name and len(each.shares) > 1]
            found.append(_efa_of(name, up, gangs))
    return found


def _nodes_of(pool: str, up: Sequence[Node]) -> CheckJson:
    label = f"nodes of {pool}"
    if not up:
        return row(label, True, "none is up; a node looks at itself when it boots")
    unfit = [each for each in up if each.facts.get("problems")]
    if unfit:
        said = "; ".join(f"{each.id}: {'; '.join(each.facts['problems'])}" for each in unfit)
        return row(label, False, said, f"burst node show {unfit[0].id} has all that it found")
    return row(label, True, f"{counted(len(up), 'node')} up: table and bucket are in reach of all")


def _efa_of(pool: str, up: Sequence[Node], gangs: Sequence[Allocation]) -> CheckJson:
    """Provider and devices, as each node's own look with libfabric found them."""
    label = f"EFA of {pool}"
    without = [each for each in up if not _has_efa(each.facts)]
    mend = (
        "the image needs the EFA software and the launch template all interfaces: "
        f"burst node show {without[0].id}"
        if without
        else ""
    )
    if without:
        said = "; ".join(f"{each.id}: {_fabric(each.facts)}" for each in without)
        return row(label, False, said, mend)
    slow = {
        str(each.get("provider"))
        for gang in gangs
        for each in gang.network.values()
        if each.get("provider") != "efa"
    }
    if slow:
        said = f"gangs talk over {', '.join(sorted(slow))}, though every node has EFA"
        return row(label, False, said, "see `NCCL` in what the ranks wrote")
    devices = sorted({_fabric(each.facts) for each in up})
    talking = f"; {counted(len(gangs), 'gang')} over it" if gangs else ""
    return row(label, True, f"{'; '.join(devices)} on {counted(len(up), 'node')}{talking}")


def _has_efa(facts: Mapping[str, object]) -> bool:
    return facts.get("fabric") == "efa" and facts.get("efa") == _wanted(facts)


def _wanted(facts: Mapping[str, object]) -> object:
    """Devices that a machine of its type has; as many as there are, of a type not known here."""
    known = known_type(str(facts.get("instance_type", "")))
    return known.efa if known is not None else facts.get("efa")


def _fabric(facts: Mapping[str, object]) -> str:
    provider = facts.get("fabric") or "none"
    return f"provider {provider}, {facts.get('efa', 0)} of {_wanted(facts)} devices"


def row(name: str, ok: bool | None, found: str, mend: str = "", code: str = "") -> CheckJson:
    """
    Args:
        ok: None for a warning.
    """
    return {
        "name": name,
        "ok": ok is not False,
        "warning": ok is None,
        "found": found,
        "mend": mend or None,
        "code": code or None,
    }


def _row(check: Check) -> CheckJson:
    ok = {"ok": True, "warning": None, "failed": False}[str(check.verdict)]
    return row(check.name, ok, check.found, check.mend, check.code)
