"""The rules between the fields of a cluster file."""

from __future__ import annotations

from burst.core.aws.instance_types import known_type
from burst.core.config.document import Node, Report
from burst.core.config.rules import POOL_NAME, POOL_NAME_RULE
from burst.core.config.rules_aws import check_aws_rules


def check_cluster_rules(root: Node, report: Report) -> None:
    """Names and bounds of pools, and what a pool in the cloud needs from the rest."""
    cluster, pools = root.child("cluster"), root.child("pools")
    if cluster and not cluster.bad and not POOL_NAME.match(cluster.value):
        report.wrong(cluster, f"`{cluster.value}` is no name of a cluster", hint=POOL_NAME_RULE)
    check_aws_rules(root, report)
    if pools is None or not isinstance(pools.value, dict):
        return
    if not pools.value and not pools.bad:
        report.wrong(pools, "`pools` is empty", hint="leave it out for this machine alone")
    for name, pool in pools.value.items():
        _pool(name, pool, root, report)


def _pool(name: str, pool: Node, root: Node, report: Report) -> None:
    if not POOL_NAME.match(name):
        report.wrong(pool, f"`{name}` is no name of a pool", hint=POOL_NAME_RULE, at_key=True)
    least, most = pool.child("min_nodes"), pool.child("max_nodes")
    if least and most and not (least.bad or most.bad) and least.value > most.value:
        said = f"`{least.path}` is more than `max_nodes`, which is {most.value}"
        report.wrong(least, said, nearest=str(most.value))
    _equal_slots(name, pool, report)
    kind = pool.child("kind")
    if kind and kind.value == "aws" and root.child("aws") is None:
        hint = "add `aws: {region: us-east-1}`"
        report.wrong(
            kind, f"`{name}` is a pool in AWS, and the file has no `aws.region`", hint=hint
        )


def _equal_slots(name: str, pool: Node, report: Report) -> None:
    """Gangs take whole nodes, so the nodes of a pool have one size. Types that the table does not
    have are compared when they are first asked for."""
    types = pool.child("instance_types")
    if types is None or types.bad or pool.child("slots_per_node") is not None:
        return
    found = [known_type(str(each)) for each in types.plain()]
    slots = {kind.name: kind.slots for kind in found if kind is not None}
    if len(set(slots.values())) > 1:
        each = ", ".join(f"{kind} has {count}" for kind, count in slots.items())
        said = f"the instance types of `{name}` differ in slots: {each}"
        hint = "make a pool of each size, or say `slots_per_node`"
        report.wrong(types, said, hint=hint)
