"""The runner's function, what calls it, and what watches it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from burst.core.aws.names import function_name, table_name
from burst.infra.account.sorts import Look, Sort, is_gone, pages


def rules_of(look: Look) -> list[str]:
    """Names of the cluster's EventBridge rules."""
    events = look.client("events")
    found = pages(events, "list_rules", "Rules", NamePrefix=look.prefix)
    return [each["Name"] for each in found if _is_ours(look, events, each["Arn"])]


def mappings_of(look: Look) -> list[Any]:
    """What calls the cluster's function for the table's stream, and carries its tag."""
    client = look.client("lambda")
    asked = {"FunctionName": function_name(look.cluster)}
    try:
        found = list(pages(client, "list_event_source_mappings", "EventSourceMappings", **asked))
    except Exception as error:
        if is_gone(error):
            return []
        raise
    there = [each for each in found if each.get("State") not in ("Deleting", "Deleted")]
    return [each for each in there if look.owns(_tags_of_mapping(look, client, each))]


def _tags_of_mapping(look: Look, client: Any, mapping: Any) -> object:
    arn = mapping.get("EventSourceMappingArn") or (
        f"arn:{client.meta.partition}:lambda:{look.region}:{look.account}"
        f":event-source-mapping:{mapping['UUID']}"
    )
    return client.list_tags(Resource=arn).get("Tags") or {}


def _is_ours(look: Look, client: Any, arn: str) -> bool:
    return look.owns(client.list_tags_for_resource(ResourceARN=arn).get("Tags"))


def _remove_rule(look: Look, name: str) -> None:
    events = look.client("events")
    ids = [each["Id"] for each in pages(events, "list_targets_by_rule", "Targets", Rule=name)]
    if ids:
        events.remove_targets(Rule=name, Ids=ids)
    events.delete_rule(Name=name)


def _mappings(look: Look) -> Iterable[str]:
    return [each["UUID"] for each in mappings_of(look)]


def _remove_mapping(look: Look, id: str) -> None:
    look.client("lambda").delete_event_source_mapping(UUID=id)


def _functions(look: Look) -> Iterable[str]:
    name = function_name(look.cluster)
    try:
        found = look.client("lambda").get_function(FunctionName=name)
    except Exception as error:
        if is_gone(error):
            return []
        raise
    return [name] if look.owns(found.get("Tags") or {}) else []


def _remove_function(look: Look, name: str) -> None:
    look.client("lambda").delete_function(FunctionName=name)


def _logs(look: Look) -> Iterable[str]:
    name = f"/aws/lambda/{function_name(look.cluster)}"
    logs = look.client("logs")
    for each in pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=name):
        if each["logGroupName"] == name:
            arn = str(each["arn"]).removesuffix(":*")
            if look.owns(logs.list_tags_for_resource(resourceArn=arn).get("tags") or {}):
                yield name


def _remove_logs(look: Look, name: str) -> None:
    look.client("logs").delete_log_group(logGroupName=name)


def _alarms(look: Look) -> Iterable[str]:
    client = look.client("cloudwatch")
    found = pages(client, "describe_alarms", "MetricAlarms", AlarmNamePrefix=look.prefix)
    return [each["AlarmName"] for each in found if _is_ours(look, client, each["AlarmArn"])]


def _remove_alarm(look: Look, name: str) -> None:
    look.client("cloudwatch").delete_alarms(AlarmNames=[name])


def _dashboards(look: Look) -> Iterable[str]:
    """A dashboard has no tags: one of the cluster's very name that shows its table is its own."""
    client = look.client("cloudwatch")
    asked = {"DashboardNamePrefix": look.prefix}
    for each in list(pages(client, "list_dashboards", "DashboardEntries", **asked)):
        if each["DashboardName"] == look.prefix:
            shown = client.get_dashboard(DashboardName=look.prefix).get("DashboardBody", "")
            if f'"{table_name(look.cluster)}"' in shown:
                yield look.prefix


def _remove_dashboard(look: Look, name: str) -> None:
    look.client("cloudwatch").delete_dashboards(DashboardNames=[name])


def _topics(look: Look) -> Iterable[str]:
    sns = look.client("sns")
    for each in pages(sns, "list_topics", "Topics"):
        arn = each["TopicArn"]
        if arn.rpartition(":")[2].startswith(look.prefix):
            tags = sns.list_tags_for_resource(ResourceArn=arn).get("Tags")
            if look.owns(tags):
                yield arn


def _remove_topic(look: Look, arn: str) -> None:
    sns = look.client("sns")
    for each in list(pages(sns, "list_subscriptions_by_topic", "Subscriptions", TopicArn=arn)):
        if each["SubscriptionArn"].startswith("arn:"):  # others wait for a person's word
            sns.unsubscribe(SubscriptionArn=each["SubscriptionArn"])
    sns.delete_topic(TopicArn=arn)


def _budgets(look: Look) -> Iterable[str]:
    client = look.client("budgets")
    found = pages(client, "describe_budgets", "Budgets", AccountId=look.account)
    arn = f"arn:{client.meta.partition}:budgets::{look.account}:budget/{look.prefix}"
    for each in list(found):
        if each["BudgetName"] == look.prefix:
            tags = client.list_tags_for_resource(ResourceARN=arn).get("ResourceTags")
            if look.owns(tags):
                yield f"{look.account}:{look.prefix}"


def _remove_budget(look: Look, id: str) -> None:
    account, _, name = id.partition(":")
    look.client("budgets").delete_budget(AccountId=account, BudgetName=name)


RUNNER = (
    Sort(
        "rule",
        "aws:cloudwatch/eventRule:EventRule",
        rules_of,
        _remove_rule,
        "aws events delete-rule --name {id}",
    ),
    Sort(
        "event source mapping",
        "aws:lambda/eventSourceMapping:EventSourceMapping",
        _mappings,
        _remove_mapping,
        "aws lambda delete-event-source-mapping --uuid {id}",
    ),
    Sort(
        "function",
        "aws:lambda/function:Function",
        _functions,
        _remove_function,
        "aws lambda delete-function --function-name {id}",
    ),
    Sort(
        "log group",
        "aws:cloudwatch/logGroup:LogGroup",
        _logs,
        _remove_logs,
        "aws logs delete-log-group --log-group-name {id}",
    ),
    Sort(
        "alarm",
        "aws:cloudwatch/metricAlarm:MetricAlarm",
        _alarms,
        _remove_alarm,
        "aws cloudwatch delete-alarms --alarm-names {id}",
    ),
    Sort(
        "dashboard",
        "aws:cloudwatch/dashboard:Dashboard",
        _dashboards,
        _remove_dashboard,
        "aws cloudwatch delete-dashboards --dashboard-names {id}",
    ),
    Sort(
        "topic",
        "aws:sns/topic:Topic",
        _topics,
        _remove_topic,
        "aws sns delete-topic --topic-arn {id}",
    ),
    Sort(
        "budget",
        "aws:budgets/budget:Budget",
        _budgets,
        _remove_budget,
        "aws budgets delete-budget --account-id ACCOUNT --budget-name {id}",
    ),
)
