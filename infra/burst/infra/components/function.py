"""The runner as a function, and what wakes it.

None of the triggers has to work for work to be done: each means no more than that somebody should
look, and the schedule looks in any case. So an event that could not be handled is dropped early
rather than kept, there is no queue of failed ones, and none blocks those behind it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import cloudwatch, lambda_

from burst.core.aws.names import function_name
from burst.core.aws.templates import CLUSTER_FILE
from burst.core.model import Experiment
from burst.core.store.dynamodb.items import news_of
from burst.infra.policies.place import log_group_name
from burst.infra.settings import Settings

HANDLER = "burst.runner.lambda_handler.handler"
TIMEOUT_S = 60
"""It works for 50 seconds of it at the most."""
MEMORY_MB = 512
"""It took 143 MB at its largest with one trial, and records of thousands have to fit. Processor
comes with memory, here two sevenths of one: the 1.2 seconds that the first call after a pause
needs of it take four. A busy cluster's call waits for most of its minute, which costs as much as
work does, so more is not better."""
_LOG_DAYS = 30
_STALE_S = 60
"""The least age that AWS lets events be dropped at; by then the schedule has called."""
_RETRIES = 1
_RESERVED = 5
_LEFT_FOR_OTHERS = 100
"""Of an account's executions AWS wants so many unreserved."""
_ENDING = ("stopping", "stopped", "shutting-down", "terminated")
"""States of machines that a runner has to hear of; of one that runs its agent tells."""


@dataclass(frozen=True)
class FunctionArgs:
    settings: Settings
    role_arn: pulumi.Input[str]
    stream_arn: pulumi.Input[str]
    """Of the table."""


class Function(pulumi.ComponentResource):
    """The function with its log, its three triggers, and their permissions to call it."""

    name: pulumi.Output[str]
    arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: FunctionArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("burst:infra:Function", name, None, opts)
        self._args = args
        self._settings = args.settings
        self._own = pulumi.ResourceOptions(parent=self)
        function = self._function()
        self.name, self.arn = function.name, function.arn
        self._news(function)
        self._rule(function, "schedule", schedule_expression="rate(1 minute)")
        for rule, pattern in event_patterns().items():
            self._rule(function, rule, event_pattern=json.dumps(pattern))
        self.register_outputs({"function": self.name})

    def _function(self) -> lambda_.Function:
        settings = self._settings
        log = cloudwatch.LogGroup(
            "log",
            name=log_group_name(settings.cluster),
            retention_in_days=_LOG_DAYS,
            tags=settings.tags(),
            opts=self._own,
        )
        function = lambda_.Function(
            "runner",
            name=function_name(settings.cluster),
            description=f"burst: the runner of cluster {settings.cluster}",
            role=self._args.role_arn,
            runtime=f"python{settings.runner.python}",
            architectures=[settings.runner.machine],
            handler=HANDLER,
            code=pulumi.FileArchive(str(settings.runner.path)),
            timeout=TIMEOUT_S,
            memory_size=MEMORY_MB,
            environment=lambda_.FunctionEnvironmentArgs(variables=environ_of(settings)),
            reserved_concurrent_executions=reserved(settings.facts.executions),
            logging_config=lambda_.FunctionLoggingConfigArgs(
                log_format="Text", log_group=log.name
            ),
            tags=settings.tags(),
            opts=self._own,
        )
        lambda_.FunctionEventInvokeConfig(
            "events",
            function_name=function.name,
            maximum_event_age_in_seconds=_STALE_S,
            maximum_retry_attempts=_RETRIES,
            opts=self._own,
        )
        return function

    def _news(self, function: lambda_.Function) -> None:
        """New experiments, told by the table itself."""
        lambda_.EventSourceMapping(
            "news",
            function_name=function.arn,
            event_source_arn=self._args.stream_arn,
            starting_position="LATEST",
            filter_criteria=lambda_.EventSourceMappingFilterCriteriaArgs(
                filters=[
                    lambda_.EventSourceMappingFilterCriteriaFilterArgs(
                        pattern=json.dumps(news_pattern())
                    )
                ]
            ),
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=_RETRIES,
            maximum_record_age_in_seconds=_STALE_S,
            tags=self._settings.tags(),
            opts=self._own,
        )

    def _rule(self, function: lambda_.Function, name: str, **when: str) -> None:
        """A rule that calls the function, and alone may in its name."""
        settings = self._settings
        rule = cloudwatch.EventRule(
            name,
            name=f"{function_name(settings.cluster)}-{name}",
            description=f"burst: wakes the runner of cluster {settings.cluster}",
            tags=settings.tags(),
            opts=self._own,
            **when,
        )
        permission = lambda_.Permission(
            name,
            statement_id=f"burst-{name}",
            action="lambda:InvokeFunction",
            function=function.name,
            principal="events.amazonaws.com",
            source_arn=rule.arn,  # which has the account in it
            opts=self._own,
        )
        cloudwatch.EventTarget(
            name,
            rule=rule.name,
            target_id="runner",
            arn=function.arn,
            retry_policy=cloudwatch.EventTargetRetryPolicyArgs(
                maximum_event_age_in_seconds=_STALE_S, maximum_retry_attempts=_RETRIES
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[permission]),
        )


def environ_of(settings: Settings) -> Mapping[str, str]:
    """What the function has to know to find the rest, as nodes do."""
    return {
        "BURST_STORE": settings.store,
        "BURST_BLOBS": settings.blobs,
        "BURST_CLUSTER": CLUSTER_FILE,
    }


def reserved(executions: int) -> int | None:
    """Calls at once that are kept for the function, and that it is kept to; None where the account
    has too few to keep any.

    Args:
        executions: of all functions at once that the account may have.
    """
    return _RESERVED if executions >= _LEFT_FOR_OTHERS + 2 * _RESERVED else None


def news_pattern() -> Mapping[str, Any]:
    """Which of the table's changes call the function: a new experiment, of which all that is done
    first is one insert. Everything else that is written, a runner has written or hears of."""
    return {
        "eventName": ["INSERT"],
        "dynamodb": {"Keys": {"pk": {"S": [news_of(Experiment)]}}},
    }


def event_patterns() -> Mapping[str, Mapping[str, Any]]:
    """Which of EC2's events do, by the name of their rule. They do not tell a machine's tags, so
    they are those of all machines of the account in the region."""
    return {
        "warning": {
            "source": ["aws.ec2"],
            "detail-type": ["EC2 Spot Instance Interruption Warning"],
        },
        "ending": {
            "source": ["aws.ec2"],
            "detail-type": ["EC2 Instance State-change Notification"],
            "detail": {"state": list(_ENDING)},
        },
    }
