"""All that is looked at of what was built, in one call."""

from __future__ import annotations

from collections.abc import Mapping

from burst.core.config.cluster import ClusterConfig
from burst.infra.account.sorts import Look
from burst.infra.facts import Facts
from burst.infra.preflight.asking import Asking, Unknown, at_once
from burst.infra.preflight.checking import Check, warning
from burst.infra.preflight.gathering import aws_of
from burst.infra.standing.network import check_groups, check_reach, look_groups, look_subnets
from burst.infra.standing.runner import check_runner, look_runner
from burst.infra.standing.templates import (
    Template,
    check_bundles,
    check_templates,
    look_bundles,
    look_templates,
)


def inspect(config: ClusterConfig, facts: Facts, environ: Mapping[str, str]) -> list[Check]:
    """Whether nodes of the cluster will be started, as the file says, and can do their work.

    Nothing is changed. What AWS does not tell becomes a check, never an error.
    """
    asking = Asking(facts.region, environ)
    look = Look(config.cluster, facts.account, facts.region, asking)
    with_function = aws_of(config).runner == "function"
    try:
        found = at_once(
            {
                "subnets": lambda: look_subnets(asking, config.cluster),
                "templates": lambda: look_templates(asking, config, facts),
                "runner": lambda: look_runner(look) if with_function else None,
            }
        )
        if _nothing_is_there(found["subnets"], found["templates"]):
            return [
                warning("built", "nothing of the cluster is there yet", "`burst up` builds it")
            ]
        templates = found["templates"]
        known = [] if isinstance(templates, Unknown) else templates
        groups = list(dict.fromkeys(id for each in known for id in each.groups))
        rules, gone = look_groups(asking, groups), look_bundles(asking, known)
    finally:
        asking.close()
    checks = [
        check_reach(config.cluster, found["subnets"], list(facts.zones)),
        check_templates(config, facts, templates),
        check_bundles(gone),
    ]
    if groups:
        checks.insert(1, check_groups(rules, groups))
    if with_function:
        checks.append(check_runner(config.cluster, found["runner"]))
    return checks


def _nothing_is_there(subnets: object, templates: list[Template] | Unknown) -> bool:
    if isinstance(templates, Unknown) or subnets != []:
        return False
    return all(each.data is None for each in templates)
