"""What EC2 tells of its machines on the account's event bus, and who hears it.

AWS takes no event in the name of its own services from a client, and neither does ministack; so
the model does what EventBridge would with it: it finds the rules whose pattern matches, by
EventBridge's own `TestEventPattern`, and calls the functions that are their targets.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from burst.core.aws.sessions import aws_session
from burst.runner.rehearsal.ec2.machine import State

log = logging.getLogger(__name__)

ACCOUNT = "123456789012"
_BUS = "default"
_SILENCE_S = 10.0

Event = Mapping[str, Any]


class Bus(Protocol):
    """Where events go; returns at once, and never raises."""

    def put(self, event: Event) -> None: ...


class Nobody:
    """A bus without any rule."""

    def put(self, event: Event) -> None:
        pass


def state_changed(instance: str, state: State, zone: str, at: float) -> Event:
    """`EC2 Instance State-change Notification`."""
    detail = {"instance-id": instance, "state": str(state)}
    arn = f"arn:aws:ec2:{region_of(zone)}:{ACCOUNT}:instance/{instance}"
    return _event("EC2 Instance State-change Notification", detail, arn, zone, at)


def will_be_interrupted(instance: str, zone: str, at: float) -> Event:
    """`EC2 Spot Instance Interruption Warning`; as AWS's, its ARN has a zone and no account."""
    detail = {"instance-id": instance, "instance-action": "terminate"}
    arn = f"arn:aws:ec2:{zone}:instance/{instance}"
    return _event("EC2 Spot Instance Interruption Warning", detail, arn, zone, at)


def should_be_rebalanced(instance: str, zone: str, at: float) -> Event:
    """`EC2 Instance Rebalance Recommendation`."""
    arn = f"arn:aws:ec2:{zone}:instance/{instance}"
    detail = {"instance-id": instance}
    return _event("EC2 Instance Rebalance Recommendation", detail, arn, zone, at)


def region_of(zone: str) -> str:
    return zone[:-1]


def _event(what: str, detail: Mapping[str, str], arn: str, zone: str, at: float) -> Event:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": what,
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region_of(zone),
        "resources": [arn],
        "detail": dict(detail),
    }


@dataclass(frozen=True)
class Call:
    """A function that is to be called."""

    function: str
    """Its ARN."""
    payload: str


class EventBridge:
    """The account's event bus, by a thread of its own: EC2 waits for nobody who listens."""

    def __init__(self, url: str) -> None:
        """`url`: of the server that has the rules and the functions."""
        self._url = url
        self._clients: dict[tuple[str, str], Any] = {}
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        threading.Thread(target=self._deliver, name="events", daemon=True).start()

    def put(self, event: Event) -> None:
        self._queue.put(event)

    def _deliver(self) -> None:
        while True:
            event = self._queue.get()
            try:
                functions = self._client("lambda", event["region"])
                for call in calls_for(event, self._client("events", event["region"])):
                    functions.invoke(
                        FunctionName=call.function, InvocationType="Event", Payload=call.payload
                    )
            except Exception as error:  # whatever it is, EC2 goes on
                log.warning("nobody heard %s: %s", event["detail-type"], error)

    def _client(self, service: str, region: str) -> Any:
        from botocore.config import Config

        key = (service, region)
        if key not in self._clients:
            keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
            config = Config(
                connect_timeout=_SILENCE_S,
                read_timeout=_SILENCE_S,
                retries={"total_max_attempts": 2, "mode": "standard"},
            )
            self._clients[key] = aws_session(**keys, region_name=region).client(
                service, endpoint_url=self._url, config=config
            )
        return self._clients[key]


def calls_for(event: Event, events: Any) -> Iterator[Call]:
    """Whom the account's rules want to be told.

    Targets that are no functions are left out, and so is what a rule makes of an event: burst has
    neither.

    Args:
        events: a client of EventBridge.
    """
    text = json.dumps(event)
    for page in events.get_paginator("list_rules").paginate(EventBusName=_BUS):
        for rule in page["Rules"]:
            pattern = rule.get("EventPattern")
            if rule.get("State") != "ENABLED" or not pattern:
                continue
            if not events.test_event_pattern(EventPattern=pattern, Event=text)["Result"]:
                continue
            targets = events.list_targets_by_rule(Rule=rule["Name"], EventBusName=_BUS)
            for target in targets["Targets"]:
                if target["Arn"].split(":")[2] == "lambda":
                    yield Call(target["Arn"], target.get("Input", text))
