"""What may call a Lambda function, of the double's AWS provider: permissions, streams, events."""

from __future__ import annotations

import json
from typing import Any

from tests.infra.double.cloud import until
from tests.infra.double.kinds import kind
from tests.infra.double.providers.base import given, quietly, upper
from tests.infra.double.providers.functions import LambdaKind
from tests.infra.double.values import Props


@kind("aws:lambda/permission:Permission")
class Permission(LambdaKind):
    """Its id is the statement's. Any change makes another."""

    what = "Lambda Permission"
    replaces = frozenset(
        {
            "action",
            "function",
            "principal",
            "qualifier",
            "sourceAccount",
            "sourceArn",
            "eventSourceToken",
            "principalOrgId",
        }
    )
    name = "statementId"
    longest = 100

    def create(self, inputs: Props) -> str:
        self.lam.add_permission(
            FunctionName=inputs["function"],
            StatementId=inputs["statementId"],
            Action=inputs["action"],
            Principal=inputs["principal"],
            **given(
                inputs,
                SourceArn="sourceArn",
                SourceAccount="sourceAccount",
                Qualifier="qualifier",
            ),
        )
        return str(inputs["statementId"])

    def read(self, id: str, known: Props) -> Props | None:
        told = quietly(self.lam.get_policy, FunctionName=known["function"])
        said = json.loads(told["Policy"])["Statement"] if told else []
        return {} if any(each.get("Sid") == id for each in said) else None

    def find(self, inputs: Props) -> str | None:
        id = str(inputs["statementId"])
        return None if self.read(id, inputs) is None else id

    def delete(self, id: str, known: Props) -> None:
        quietly(self.lam.remove_permission, FunctionName=known["function"], StatementId=id)


@kind("aws:lambda/eventSourceMapping:EventSourceMapping")
class EventSourceMapping(LambdaKind):
    what = "Lambda Event Source Mapping"
    replaces = frozenset({"eventSourceArn", "startingPosition", "startingPositionTimestamp"})

    def _asked(self, inputs: Props) -> Props:
        made = given(
            inputs,
            FunctionName="functionName",
            BatchSize="batchSize",
            Enabled="enabled",
            BisectBatchOnFunctionError="bisectBatchOnFunctionError",
            MaximumRetryAttempts="maximumRetryAttempts",
            MaximumRecordAgeInSeconds="maximumRecordAgeInSeconds",
            MaximumBatchingWindowInSeconds="maximumBatchingWindowInSeconds",
            ParallelizationFactor="parallelizationFactor",
            FunctionResponseTypes="functionResponseTypes",
        )
        for name in ("filterCriteria", "destinationConfig"):
            if inputs.get(name):
                made[name[0].upper() + name[1:]] = upper(inputs[name])
        return made

    def create(self, inputs: Props) -> str:
        made = self.lam.create_event_source_mapping(
            EventSourceArn=inputs["eventSourceArn"],
            **given(inputs, StartingPosition="startingPosition"),
            **self._asked(inputs),
            **({"Tags": tags} if (tags := self.cloud.tags(inputs)) else {}),
        )
        return str(made["UUID"])

    def update(self, id: str, old: Props, new: Props) -> None:
        self.lam.update_event_source_mapping(UUID=id, **self._asked(new))

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.lam.get_event_source_mapping, UUID=id)
        if found is None:
            return None
        arn = self.cloud.arn("lambda", f"event-source-mapping:{id}")
        told = {"uuid": id, "arn": arn, "functionArn": found.get("FunctionArn", "")}
        return {**told, "state": found.get("State", ""), "tagsAll": self.cloud.tags(known)}

    def find(self, inputs: Props) -> str | None:
        found = self.lam.list_event_source_mappings(
            EventSourceArn=inputs["eventSourceArn"], FunctionName=inputs["functionName"]
        )["EventSourceMappings"]
        return str(found[0]["UUID"]) if found else None

    def delete(self, id: str, known: Props) -> None:
        quietly(self.lam.delete_event_source_mapping, UUID=id)
        until(lambda: self.read(id, known) is None, f"event source mapping {id}")


@kind("aws:lambda/functionEventInvokeConfig:FunctionEventInvokeConfig")
class FunctionEventInvokeConfig(LambdaKind):
    """Its id is the function's name."""

    what = "Lambda Function Event Invoke Config"
    replaces = frozenset({"functionName", "qualifier"})

    def create(self, inputs: Props) -> str:
        asked = given(
            inputs,
            MaximumRetryAttempts="maximumRetryAttempts",
            MaximumEventAgeInSeconds="maximumEventAgeInSeconds",
            Qualifier="qualifier",
        )
        if inputs.get("destinationConfig"):
            asked["DestinationConfig"] = upper(inputs["destinationConfig"])
        self.lam.put_function_event_invoke_config(FunctionName=inputs["functionName"], **asked)
        return str(inputs["functionName"])

    def update(self, id: str, old: Props, new: Props) -> None:
        self.create(new)

    def read(self, id: str, known: Props) -> Props | None:
        named = given(known, FunctionName="functionName", Qualifier="qualifier")
        found = quietly(self.lam.get_function_event_invoke_config, **named)
        return None if found is None else {}

    def find(self, inputs: Props) -> str | None:
        return None if self.read("", inputs) is None else str(inputs["functionName"])

    def delete(self, id: str, known: Props) -> None:
        named: Any = given(known, FunctionName="functionName", Qualifier="qualifier")
        quietly(self.lam.delete_function_event_invoke_config, **named)
