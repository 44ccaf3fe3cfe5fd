"""What tells people that something is wrong: alarms, a page of graphs, and a budget."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import budgets, cloudwatch, sns

from burst.core.aws.names import CLUSTER
from burst.infra.components.alarms import Alarm, alarms_of
from burst.infra.components.dashboard import dashboard_body
from burst.infra.policies.documents import as_text
from burst.infra.policies.place import Place
from burst.infra.policies.topic import topic_policy
from burst.infra.settings import Settings

_TOLD_AT = ((80, "ACTUAL"), (100, "ACTUAL"), (100, "FORECASTED"))
"""Percent of the budget that was spent, or that the month will have cost by its end."""


@dataclass(frozen=True)
class WatchingArgs:
    settings: Settings


class Watching(pulumi.ComponentResource):
    """Alarms, which go to the addresses of `aws.email`; a dashboard; and `aws.budget`."""

    alarm_names: Sequence[str]
    topic_arn: pulumi.Output[str] | None
    """None where nobody is to be told."""

    def __init__(
        self, name: str, args: WatchingArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("burst:infra:Watching", name, None, opts)
        self._settings = settings = args.settings
        self._own = pulumi.ResourceOptions(parent=self)
        self.topic_arn, self.alarm_names = None, ()
        if settings.config.has_function:
            self._runner()
        if settings.aws.budget is not None:
            self._budget(settings.aws.budget.usd, settings.aws.budget.email)
        self.register_outputs({"alarms": list(self.alarm_names)})

    def _runner(self) -> None:
        """Of what the function measures; a runner elsewhere has people before it."""
        self.topic_arn = self._topic() if self._settings.aws.email else None
        alarms = alarms_of(self._settings.cluster)
        for alarm in alarms:
            self._alarm(alarm)
        self.alarm_names = tuple(alarm.name for alarm in alarms)
        cloudwatch.Dashboard(
            "dashboard",
            dashboard_name=f"burst-{self._settings.cluster}",
            dashboard_body=json.dumps(dashboard_body(self._settings)),
            opts=self._own,
        )

    def _topic(self) -> pulumi.Output[str]:
        """Without a key of its own: alarms cannot use AWS's, one of the account's would cost more
        than all else here, and what they say is no secret."""
        settings, name = self._settings, f"burst-{self._settings.cluster}-alarms"
        topic = sns.Topic("alarms", name=name, tags=settings.tags(), opts=self._own)
        arn: pulumi.Output[str] = topic.arn
        place = Place.of(settings)
        sns.TopicPolicy(
            "alarms", arn=arn, policy=as_text(topic_policy(place, name)), opts=self._own
        )
        for email in dict.fromkeys(settings.aws.email):
            sns.TopicSubscription(
                email, topic=arn, protocol="email", endpoint=email, opts=self._own
            )
        return arn

    def _alarm(self, alarm: Alarm) -> None:
        told = [self.topic_arn] if self.topic_arn is not None else []
        cloudwatch.MetricAlarm(
            alarm.part,
            name=alarm.name,
            alarm_description=alarm.means,
            namespace=alarm.metric.namespace,
            metric_name=alarm.metric.name,
            dimensions={alarm.metric.dimension: alarm.metric.of},
            statistic=alarm.statistic,
            period=alarm.period,
            evaluation_periods=alarm.periods,
            comparison_operator=alarm.comparison,
            threshold=alarm.threshold,
            treat_missing_data=alarm.missing,
            alarm_actions=told,
            ok_actions=told,
            tags=self._settings.tags(),
            opts=self._own,
        )

    def _budget(self, usd: float, emails: Sequence[str]) -> None:
        cluster = self._settings.cluster
        budgets.Budget(
            "budget",
            name=f"burst-{cluster}",
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=f"{usd:.2f}",
            limit_unit="USD",
            cost_filters=[
                budgets.BudgetCostFilterArgs(
                    name="TagKeyValue", values=[f"user:{CLUSTER}${cluster}"]
                )
            ],
            notifications=[
                budgets.BudgetNotificationArgs(
                    comparison_operator="GREATER_THAN",
                    threshold=percent,
                    threshold_type="PERCENTAGE",
                    notification_type=of,
                    subscriber_email_addresses=list(dict.fromkeys(emails)),
                )
                for percent, of in _TOLD_AT
            ],
            tags=self._settings.tags(),
            opts=self._own,
        )
