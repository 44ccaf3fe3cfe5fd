"""All that is looked at of what was built, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burst.core.config.cluster import ClusterConfig
from burst.infra.account.sorts import Look
from burst.infra.facts import Facts
from burst.infra.preflight.asking import Asking, Unknown, at_once
from burst.infra.preflight.checking import Check, warning
from burst.infra.preflight.gathering import aws_of
from burst.infra.preflight.places import pools_of
from burst.infra.standing.network import check_groups, check_reach, look_groups, look_subnets
from burst.infra.standing.runner import Runner, check_runner, look_runner
from burst.infra.standing.services import check_services, look_services
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
    with_function = config.has_function
    try:
        found = at_once(
            {
                "subnets": lambda: look_subnets(asking, config.cluster),
                "templates": lambda: look_templates(asking, config, facts),
                "services": lambda: look_services(asking, config.cluster),
                "runner": lambda: look_runner(look) if with_function else None,
            }
        )
        if _nothing_is_there(config, found):
            return [
                warning("built", "nothing of the cluster is there yet", "`burst up` builds it")
            ]
        if not pools_of(config):  # machines of one's own bring their network
            return [check_runner(config.cluster, found["runner"])] if with_function else []
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
    services = check_services(aws_of(config), found["services"], found["subnets"])
    if services is not None:
        checks.insert(1, services)
    if groups:
        checks.insert(1, check_groups(rules, groups))
    if with_function:
        checks.append(check_runner(config.cluster, found["runner"]))
    return checks


def _nothing_is_there(config: ClusterConfig, found: Mapping[str, Any]) -> bool:
    """Whether no part of it is; where it has no pools in AWS, and so no network, no function."""
    if not pools_of(config):
        runner = found["runner"]
        return isinstance(runner, Runner) and not runner.there
    templates: list[Template] | Unknown = found["templates"]
    if isinstance(templates, Unknown) or found["subnets"] != []:
        return False
    return all(each.data is None for each in templates)
