"""What watches and wakes, of the double's AWS provider: EventBridge, CloudWatch, logs."""

from __future__ import annotations

import json
from typing import Any

from tests.infra.double.kinds import Kind, kind
from tests.infra.double.providers.base import given, pairs, quietly, upper
from tests.infra.double.values import Props


class EventsKind(Kind):
    @property
    def events(self) -> Any:
        return self.cloud.client("events")


@kind("aws:cloudwatch/eventRule:EventRule")
class EventRule(EventsKind):
    what = "EventBridge Rule"
    replaces = frozenset({"eventBusName"})
    name = "name"
    json = frozenset({"eventPattern"})
    longest = 64

    def create(self, inputs: Props) -> str:
        self._put(inputs, tagged=True)
        return str(inputs["name"])

    def _put(self, inputs: Props, *, tagged: bool) -> None:
        tags = self.cloud.tags(inputs)
        self.events.put_rule(
            Name=inputs["name"],
            **given(
                inputs,
                EventBusName="eventBusName",
                Description="description",
                EventPattern="eventPattern",
                ScheduleExpression="scheduleExpression",
                RoleArn="roleArn",
            ),
            State=inputs.get("state") or "ENABLED",
            **({"Tags": pairs(tags)} if tags and tagged else {}),
        )

    def update(self, id: str, old: Props, new: Props) -> None:
        self._put(new, tagged=False)
        before, after = self.cloud.tags(old), self.cloud.tags(new)
        arn = self.events.describe_rule(Name=id)["Arn"]
        if gone := [key for key in before if key not in after]:
            self.events.untag_resource(ResourceARN=arn, TagKeys=gone)
        if after and after != before:
            self.events.tag_resource(ResourceARN=arn, Tags=pairs(after))

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.events.describe_rule, Name=id)
        if found is None:
            return None
        return {"arn": found["Arn"], "name": id, "tagsAll": self.cloud.tags(known)}

    def find(self, inputs: Props) -> str | None:
        found = quietly(self.events.describe_rule, Name=inputs["name"])
        return str(inputs["name"]) if found else None

    def delete(self, id: str, known: Props) -> None:
        quietly(self.events.delete_rule, Name=id)


@kind("aws:cloudwatch/eventTarget:EventTarget")
class EventTarget(EventsKind):
    """Its id is `rule-target`."""

    what = "EventBridge Target"
    replaces = frozenset({"rule", "eventBusName"})
    name = "targetId"
    json = frozenset({"input"})
    longest = 64

    def create(self, inputs: Props) -> str:
        target = {"Id": inputs["targetId"], "Arn": inputs["arn"]}
        target |= given(inputs, Input="input", InputPath="inputPath", RoleArn="roleArn")
        if told := inputs.get("retryPolicy"):
            target["RetryPolicy"] = upper(told)
        if told := inputs.get("deadLetterConfig"):
            target["DeadLetterConfig"] = upper(told)
        if told := inputs.get("inputTransformer"):
            target["InputTransformer"] = {
                "InputTemplate": told["inputTemplate"],
                "InputPathsMap": told.get("inputPaths") or {},
            }
        self.events.put_targets(Rule=inputs["rule"], Targets=[target])
        return f"{inputs['rule']}-{inputs['targetId']}"

    def update(self, id: str, old: Props, new: Props) -> None:
        self.create(new)

    def read(self, id: str, known: Props) -> Props | None:
        told = quietly(self.events.list_targets_by_rule, Rule=known["rule"])
        there = {each["Id"] for each in told["Targets"]} if told else set()
        return {"targetId": known["targetId"]} if known["targetId"] in there else None

    def find(self, inputs: Props) -> str | None:
        there = self.read("", inputs) is not None
        return f"{inputs['rule']}-{inputs['targetId']}" if there else None

    def delete(self, id: str, known: Props) -> None:
        quietly(self.events.remove_targets, Rule=known["rule"], Ids=[known["targetId"]])


@kind("aws:cloudwatch/logGroup:LogGroup")
class LogGroup(Kind):
    """Its id is its name."""

    what = "CloudWatch Logs Log Group"
    name = "name"
    longest = 512

    @property
    def logs(self) -> Any:
        return self.cloud.client("logs")

    def create(self, inputs: Props) -> str:
        tags = self.cloud.tags(inputs)
        self.logs.create_log_group(logGroupName=inputs["name"], **({"tags": tags} if tags else {}))
        return str(inputs["name"])

    def settle(self, id: str, inputs: Props) -> None:
        if days := inputs.get("retentionInDays"):
            self.logs.put_retention_policy(logGroupName=id, retentionInDays=days)

    def update(self, id: str, old: Props, new: Props) -> None:
        if old.get("retentionInDays") and not new.get("retentionInDays"):
            self.logs.delete_retention_policy(logGroupName=id)
        arn, tags = self.cloud.arn("logs", f"log-group:{id}"), self.cloud.tags(new)
        if tags and tags != self.cloud.tags(old):
            self.logs.tag_resource(resourceArn=arn, tags=tags)
        self.settle(id, new)

    def read(self, id: str, known: Props) -> Props | None:
        found = self.logs.describe_log_groups(logGroupNamePrefix=id)["logGroups"]
        if id not in [each["logGroupName"] for each in found]:
            return None
        arn = self.cloud.arn("logs", f"log-group:{id}")
        return {"arn": arn, "name": id, "tagsAll": self.cloud.tags(known)}

    def find(self, inputs: Props) -> str | None:
        return None if self.read(inputs["name"], inputs) is None else str(inputs["name"])

    def delete(self, id: str, known: Props) -> None:
        quietly(self.logs.delete_log_group, logGroupName=id)


class _WatchKind(Kind):
    @property
    def watch(self) -> Any:
        return self.cloud.client("cloudwatch")


@kind("aws:cloudwatch/dashboard:Dashboard")
class Dashboard(_WatchKind):
    """Its id is its name."""

    what = "CloudWatch Dashboard"
    name = "dashboardName"
    json = frozenset({"dashboardBody"})

    def create(self, inputs: Props) -> str:
        body = inputs["dashboardBody"]
        text = body if isinstance(body, str) else json.dumps(body)
        self.watch.put_dashboard(DashboardName=inputs["dashboardName"], DashboardBody=text)
        return str(inputs["dashboardName"])

    def update(self, id: str, old: Props, new: Props) -> None:
        self.create(new)

    def read(self, id: str, known: Props) -> Props | None:
        codes = ("DashboardNotFoundError", "ResourceNotFound")
        found = quietly(self.watch.get_dashboard, codes, DashboardName=id)
        if found is None:
            return None
        arn = f"arn:{self.cloud.partition}:cloudwatch::{self.cloud.account}:dashboard/{id}"
        return {"dashboardArn": arn, "dashboardName": id}

    def find(self, inputs: Props) -> str | None:
        name = str(inputs["dashboardName"])
        return None if self.read(name, inputs) is None else name

    def delete(self, id: str, known: Props) -> None:
        codes = ("DashboardNotFoundError", "ResourceNotFound")
        quietly(self.watch.delete_dashboards, codes, DashboardNames=[id])


@kind("aws:cloudwatch/metricAlarm:MetricAlarm")
class MetricAlarm(_WatchKind):
    """Its id is its name."""

    what = "CloudWatch Metric Alarm"
    name = "name"

    def create(self, inputs: Props) -> str:
        asked = given(
            inputs,
            AlarmDescription="alarmDescription",
            ActionsEnabled="actionsEnabled",
            OKActions="okActions",
            AlarmActions="alarmActions",
            InsufficientDataActions="insufficientDataActions",
            MetricName="metricName",
            Namespace="namespace",
            Statistic="statistic",
            ExtendedStatistic="extendedStatistic",
            Period="period",
            Unit="unit",
            EvaluationPeriods="evaluationPeriods",
            DatapointsToAlarm="datapointsToAlarm",
            Threshold="threshold",
            ComparisonOperator="comparisonOperator",
            TreatMissingData="treatMissingData",
        )
        if dimensions := inputs.get("dimensions"):
            asked["Dimensions"] = pairs(dimensions, key="Name")
        if inputs.get("metricQueries"):
            raise ValueError("the double knows no alarms on several metrics")
        tags = self.cloud.tags(inputs)
        tagging = {"Tags": pairs(tags)} if tags else {}
        self.watch.put_metric_alarm(AlarmName=inputs["name"], **asked, **tagging)
        return str(inputs["name"])

    def update(self, id: str, old: Props, new: Props) -> None:
        self.create(new)

    def read(self, id: str, known: Props) -> Props | None:
        found = self.watch.describe_alarms(AlarmNames=[id])["MetricAlarms"]
        if not found:
            return None
        return {"arn": found[0]["AlarmArn"], "name": id, "tagsAll": self.cloud.tags(known)}

    def find(self, inputs: Props) -> str | None:
        return None if self.read(inputs["name"], inputs) is None else str(inputs["name"])

    def delete(self, id: str, known: Props) -> None:
        quietly(self.watch.delete_alarms, ("ResourceNotFound",), AlarmNames=[id])
