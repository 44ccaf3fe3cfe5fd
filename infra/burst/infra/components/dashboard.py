"""The page of graphs of a cluster in CloudWatch. Pure.

Source: CloudWatch API Reference, "Dashboard body structure and syntax".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burst.core.aws.metrics import (
    CHECKPOINT_AGE,
    CLUSTER_DIMENSION,
    DOLLARS_PER_HOUR,
    NAMESPACE,
    NODES,
    RUNNING,
    STRAYS,
    WAITING,
)
from burst.core.aws.names import function_name, table_name
from burst.infra.components.alarms import LAMBDA, TOO_OLD, alarms_of
from burst.infra.policies.place import Place, log_group_name
from burst.infra.settings import Settings

_WIDE, _HIGH = 12, 6
"""Of 24 columns."""
_MINUTE = 60
_TABLE = "AWS/DynamoDB"
_WARNINGS = (
    "fields @timestamp, @message | filter @message like /WARNING|ERROR/ "
    "| sort @timestamp desc | limit 50"
)


def dashboard_body(settings: Settings) -> dict[str, Any]:
    """What CloudWatch takes, before it is made JSON."""
    cluster, region = settings.cluster, settings.facts.region
    function, table = function_name(cluster), table_name(cluster)
    place = Place.of(settings)

    def own(metric: str) -> list[str]:
        return [NAMESPACE, metric, CLUSTER_DIMENSION, cluster]

    def runner(metric: str) -> list[str]:
        return [LAMBDA, metric, "FunctionName", function]

    def records(metric: str) -> list[str]:
        return [_TABLE, metric, "TableName", table]

    capacity = ("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits")
    graphs = [
        _graph(region, "Nodes and trials", [own(NODES), own(RUNNING), own(WAITING)]),
        _graph(region, "Dollars an hour", [own(DOLLARS_PER_HOUR)]),
        _graph(
            region,
            "Age of the oldest newest checkpoint, of what was asked for",
            [own(CHECKPOINT_AGE)],
            line=TOO_OLD,
        ),
        _graph(region, "Machines that nobody answers for", [own(STRAYS)]),
        _graph(
            region,
            "Calls of the runner",
            [runner("Invocations"), runner("Errors"), runner("Throttles")],
            statistic="Sum",
        ),
        _graph(region, "Milliseconds of a call", [runner("Duration")]),
        _graph(region, "The table's units", [records(unit) for unit in capacity], statistic="Sum"),
        {
            "type": "log",
            "properties": {
                "title": "What the runner warns of",
                "region": region,
                "query": f"SOURCE '{log_group_name(cluster)}' | {_WARNINGS}",
                "view": "table",
            },
        },
    ]
    names = [f"alarm:{each.name}" for each in alarms_of(cluster)]
    alarms = {
        "type": "alarm",
        "width": 2 * _WIDE,
        "height": 3,
        "properties": {
            "title": f"Cluster {cluster}",
            "alarms": [place.arn("cloudwatch", name) for name in names],
        },
    }
    return {"widgets": [alarms, *({**each, "width": _WIDE, "height": _HIGH} for each in graphs)]}


def _graph(
    region: str,
    title: str,
    metrics: Sequence[list[str]],
    *,
    statistic: str = "Maximum",
    line: float | None = None,
) -> Mapping[str, Any]:
    properties: dict[str, Any] = {
        "title": title,
        "region": region,
        "metrics": metrics,
        "stat": statistic,
        "period": _MINUTE,
        "view": "timeSeries",
        "yAxis": {"left": {"min": 0}},
    }
    if line is not None:
        properties["annotations"] = {"horizontal": [{"label": "alarm", "value": line}]}
    return {"type": "metric", "properties": properties}
