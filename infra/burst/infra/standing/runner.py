"""Whether the runner is called: its function, and what calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from burst.core.aws.names import function_name
from burst.core.units import counted
from burst.infra.account.of_runner import mappings_of, rules_of
from burst.infra.account.sorts import Look
from burst.infra.preflight.asking import Unknown
from burst.infra.preflight.checking import Check, failed, not_known, ok
from burst.infra.standing import BY_HAND, UP

_ON = ("Enabled", "Enabling", "Creating", "Updating")


@dataclass(frozen=True)
class Runner:
    """The function that is the runner."""

    there: bool
    calls: int = 0
    """Rules and streams that call it."""
    stopped: tuple[str, ...] = ()
    """Those of them that are switched off."""


def look_runner(look: Look) -> Runner | Unknown:
    def question() -> Runner:
        client, events = look.client("lambda"), look.client("events")
        try:
            client.get_function(FunctionName=function_name(look.cluster))
        except client.exceptions.ResourceNotFoundException:
            return Runner(there=False)
        rules: dict[str, Any] = {each: events.describe_rule(Name=each) for each in rules_of(look)}
        streams = mappings_of(look)
        stopped = [name for name, rule in rules.items() if rule.get("State") == "DISABLED"]
        if any(each.get("State") not in _ON for each in streams):
            stopped.append("the table's stream")
        return Runner(True, len(rules) + len(streams), tuple(stopped))

    what = f"cannot learn whether the runner of {look.cluster} is called"
    action = (
        "lambda:GetFunction, lambda:ListEventSourceMappings, events:ListRules, "
        "events:ListTagsForResource and events:DescribeRule"
    )
    return look.asking.ask(what, action, question)


def check_runner(cluster: str, found: Runner | Unknown) -> Check:
    label = "runner"
    if isinstance(found, Unknown):
        return not_known(label, found)
    name = function_name(cluster)
    if not found.there:
        return failed(label, f"there is no function {name}", BY_HAND)
    if found.stopped:
        said = f"switched off: {', '.join(found.stopped)}; {name} is not called by them"
        return failed(label, said, UP)
    if not found.calls:
        return failed(label, f"nothing calls {name}", BY_HAND)
    return ok(label, f"{name}, called by {counted(found.calls, 'trigger')}")
