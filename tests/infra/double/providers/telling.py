"""What tells people and keeps messages, of the double's AWS provider: SNS, SQS, budgets."""

from __future__ import annotations

import json
from typing import Any

from tests.infra.double.kinds import Kind, kind
from tests.infra.double.providers.base import pairs, quietly
from tests.infra.double.values import Props


class SnsKind(Kind):
    @property
    def sns(self) -> Any:
        return self.cloud.client("sns")


@kind("aws:sns/topic:Topic")
class Topic(SnsKind):
    what = "SNS Topic"
    replaces = frozenset({"fifoTopic"})
    name = "name"

    def create(self, inputs: Props) -> str:
        tags = self.cloud.tags(inputs)
        asked = {"Tags": pairs(tags)} if tags else {}
        return str(self.sns.create_topic(Name=inputs["name"], **asked)["TopicArn"])

    def settle(self, id: str, inputs: Props) -> None:
        names = {
            "displayName": "DisplayName",
            "policy": "Policy",
            "kmsMasterKeyId": "KmsMasterKeyId",
        }
        for ours, theirs in names.items():
            if inputs.get(ours) is not None:
                self.sns.set_topic_attributes(
                    TopicArn=id, AttributeName=theirs, AttributeValue=inputs[ours]
                )

    def update(self, id: str, old: Props, new: Props) -> None:
        before, after = self.cloud.tags(old), self.cloud.tags(new)
        if gone := [key for key in before if key not in after]:
            self.sns.untag_resource(ResourceArn=id, TagKeys=gone)
        if after and after != before:
            self.sns.tag_resource(ResourceArn=id, Tags=pairs(after))
        self.settle(id, new)

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.sns.get_topic_attributes, TopicArn=id)
        if found is None:
            return None
        told = {"arn": id, "owner": self.cloud.account, "name": id.rpartition(":")[2]}
        return {**told, "tagsAll": self.cloud.tags(known)}

    def find(self, inputs: Props) -> str | None:
        arn = self.cloud.arn("sns", inputs["name"])
        return arn if quietly(self.sns.get_topic_attributes, TopicArn=arn) else None

    def delete(self, id: str, known: Props) -> None:
        quietly(self.sns.delete_topic, TopicArn=id)


@kind("aws:sns/topicPolicy:TopicPolicy")
class TopicPolicy(SnsKind):
    """Ends as the real provider ends it: the topic has the policy that topics begin with."""

    what = "SNS Topic Policy"
    replaces = frozenset({"arn"})
    json = frozenset({"policy"})

    def _put(self, arn: str, policy: Any) -> None:
        text = policy if isinstance(policy, str) else json.dumps(policy)
        quietly(
            self.sns.set_topic_attributes,
            TopicArn=arn,
            AttributeName="Policy",
            AttributeValue=text,
        )

    def create(self, inputs: Props) -> str:
        self._put(inputs["arn"], inputs["policy"])
        return str(inputs["arn"])

    def update(self, id: str, old: Props, new: Props) -> None:
        self._put(id, new["policy"])

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.sns.get_topic_attributes, TopicArn=id)
        return None if found is None else {"owner": self.cloud.account}

    def find(self, inputs: Props) -> str | None:
        return str(inputs["arn"])  # putting it again is harmless

    def delete(self, id: str, known: Props) -> None:
        statement = {
            "Sid": "__default_statement_ID",
            "Effect": "Allow",
            "Principal": {"AWS": "*"},
            "Action": ["SNS:Publish", "SNS:Subscribe"],
            "Resource": id,
            "Condition": {"StringEquals": {"AWS:SourceOwner": self.cloud.account}},
        }
        self._put(id, {"Version": "2008-10-17", "Statement": [statement]})


@kind("aws:sns/topicSubscription:TopicSubscription")
class TopicSubscription(SnsKind):
    """One by mail waits until somebody confirms it, here for ever."""

    what = "SNS Topic Subscription"
    replaces = frozenset({"topic", "protocol", "endpoint"})

    def create(self, inputs: Props) -> str:
        made = self.sns.subscribe(
            TopicArn=inputs["topic"],
            Protocol=inputs["protocol"],
            Endpoint=inputs["endpoint"],
            ReturnSubscriptionArn=True,
        )
        return str(made["SubscriptionArn"])

    def _one(self, known: Props) -> Props | None:
        told = quietly(self.sns.list_subscriptions_by_topic, TopicArn=known["topic"])
        for each in told["Subscriptions"] if told else ():
            if (each["Protocol"], each["Endpoint"]) == (known["protocol"], known["endpoint"]):
                return dict(each)
        return None

    def read(self, id: str, known: Props) -> Props | None:
        if self._one(known) is None:
            return None
        waits = known["protocol"] == "email"
        told = {"arn": id, "ownerId": self.cloud.account, "pendingConfirmation": waits}
        return {**told, "confirmationWasAuthenticated": not waits}

    def find(self, inputs: Props) -> str | None:
        found = self._one(inputs)
        return str(found["SubscriptionArn"]) if found else None

    def delete(self, id: str, known: Props) -> None:
        quietly(self.sns.unsubscribe, SubscriptionArn=id)


_QUEUE = (
    "delaySeconds",
    "maxMessageSize",
    "messageRetentionSeconds",
    "visibilityTimeoutSeconds",
    "receiveWaitTimeSeconds",
    "policy",
    "redrivePolicy",
    "redriveAllowPolicy",
    "sqsManagedSseEnabled",
)
_RENAMED = {
    "maxMessageSize": "MaximumMessageSize",
    "messageRetentionSeconds": "MessageRetentionPeriod",
    "visibilityTimeoutSeconds": "VisibilityTimeout",
    "receiveWaitTimeSeconds": "ReceiveMessageWaitTimeSeconds",
}


@kind("aws:sqs/queue:Queue")
class Queue(Kind):
    """Its id is its URL."""

    what = "SQS Queue"
    replaces = frozenset({"fifoQueue"})
    name = "name"
    json = frozenset({"policy", "redrivePolicy", "redriveAllowPolicy"})
    longest = 80

    @property
    def sqs(self) -> Any:
        return self.cloud.client("sqs")

    def _attributes(self, inputs: Props) -> dict[str, str]:
        made = {}
        for name in _QUEUE:
            value = inputs.get(name)
            if value is not None:
                theirs = _RENAMED.get(name, name[0].upper() + name[1:])
                made[theirs] = value if isinstance(value, str) else json.dumps(value)
        return made

    def create(self, inputs: Props) -> str:
        tags = self.cloud.tags(inputs)
        made = self.sqs.create_queue(
            QueueName=inputs["name"],
            Attributes=self._attributes(inputs),
            **({"tags": tags} if tags else {}),
        )
        return str(made["QueueUrl"])

    def update(self, id: str, old: Props, new: Props) -> None:
        self.sqs.set_queue_attributes(QueueUrl=id, Attributes=self._attributes(new))
        if tags := self.cloud.tags(new):
            self.sqs.tag_queue(QueueUrl=id, Tags=tags)

    def read(self, id: str, known: Props) -> Props | None:
        codes = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
        found = quietly(
            self.sqs.get_queue_attributes, codes, QueueUrl=id, AttributeNames=["QueueArn"]
        )
        if found is None:
            return None
        arn = found["Attributes"]["QueueArn"]
        return {
            "arn": arn,
            "url": id,
            "name": id.rpartition("/")[2],
            "tagsAll": self.cloud.tags(known),
        }

    def find(self, inputs: Props) -> str | None:
        codes = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
        found = quietly(self.sqs.get_queue_url, codes, QueueName=inputs["name"])
        return str(found["QueueUrl"]) if found else None

    def delete(self, id: str, known: Props) -> None:
        codes = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
        quietly(self.sqs.delete_queue, codes, QueueUrl=id)


@kind("aws:budgets/budget:Budget")
class Budget(Kind):
    """Its id is `account:name`."""

    what = "Budget"
    replaces = frozenset({"accountId"})
    name = "name"
    longest = 100

    @property
    def budgets(self) -> Any:
        return self.cloud.client("budgets")

    def _account(self, inputs: Props) -> str:
        return str(inputs.get("accountId") or self.cloud.account)

    def _asked(self, inputs: Props) -> Props:
        limit = {"Amount": str(inputs["limitAmount"]), "Unit": inputs["limitUnit"]}
        made: Props = {
            "BudgetName": inputs["name"],
            "BudgetType": inputs["budgetType"],
            "TimeUnit": inputs["timeUnit"],
            "BudgetLimit": limit,
        }
        if filters := inputs.get("costFilters"):
            made["CostFilters"] = {each["name"]: each["values"] for each in filters}
        return made

    def create(self, inputs: Props) -> str:
        account, tags = self._account(inputs), self.cloud.tags(inputs)
        self.budgets.create_budget(
            AccountId=account,
            Budget=self._asked(inputs),
            NotificationsWithSubscribers=[
                _notice(each) for each in inputs.get("notifications") or []
            ],
            **({"ResourceTags": pairs(tags)} if tags else {}),
        )
        return f"{account}:{inputs['name']}"

    def update(self, id: str, old: Props, new: Props) -> None:
        account, named = self._account(new), {"BudgetName": new["name"]}
        self.budgets.update_budget(AccountId=account, NewBudget=self._asked(new))
        before, after = old.get("notifications") or [], new.get("notifications") or []
        for each in before:
            if each not in after:
                notice = _notice(each)["Notification"]
                quietly(
                    self.budgets.delete_notification,
                    AccountId=account,
                    Notification=notice,
                    **named,
                )
        for each in after:
            if each not in before:
                self.budgets.create_notification(AccountId=account, **named, **_notice(each))

    def read(self, id: str, known: Props) -> Props | None:
        account, name = id.split(":", 1)
        found = quietly(self.budgets.describe_budget, AccountId=account, BudgetName=name)
        if found is None:
            return None
        arn = f"arn:{self.cloud.partition}:budgets::{account}:budget/{name}"
        return {"arn": arn, "name": name, "accountId": account, "tagsAll": self.cloud.tags(known)}

    def find(self, inputs: Props) -> str | None:
        id = f"{self._account(inputs)}:{inputs['name']}"
        return None if self.read(id, inputs) is None else id

    def delete(self, id: str, known: Props) -> None:
        account, name = id.split(":", 1)
        quietly(self.budgets.delete_budget, AccountId=account, BudgetName=name)


def _notice(told: Props) -> Props:
    subscribers = [
        {"SubscriptionType": kind, "Address": each}
        for kind, name in (
            ("EMAIL", "subscriberEmailAddresses"),
            ("SNS", "subscriberSnsTopicArns"),
        )
        for each in told.get(name) or []
    ]
    notice = {
        "NotificationType": told["notificationType"],
        "ComparisonOperator": told["comparisonOperator"],
        "Threshold": told["threshold"],
        "ThresholdType": told["thresholdType"],
    }
    return {"Notification": notice, "Subscribers": subscribers}
