"""What the tests of the AWS pool share: nodes, and an EC2 that answers what a test says.

The scripted EC2 is botocore's own client with its stubber: requests and answers are checked
against EC2's service model, so that neither can be one that EC2 would not take or give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import cache
from typing import Any

from burst.core.aws.names import tag_list, tags_of
from burst.core.clock import ManualClock
from burst.core.config.cluster import AwsPool as AwsPoolConfig
from burst.core.ids import new_id
from burst.core.model import Json, Node, Supply
from burst.core.retrying import Retries
from burst.runner.pools.aws.ec2 import Ec2
from burst.runner.pools.aws.fleet import ask_for
from burst.runner.pools.aws.offers import Offer
from burst.runner.pools.aws.pool import AwsPool

CLUSTER, POOL = "lab", "spot"
EPOCH = 1_800_000_000.0
LAUNCH = "launch-1m3k9zq4w7c"
NO_WAIT = Retries(attempts=3, sleep=lambda seconds: None)
A = Offer("spot", "us-east-1a", "p5.48xlarge", "subnet-a", 8, 20.0)
B = Offer("spot", "us-east-1b", "p5.48xlarge", "subnet-b", 8, 16.0)
TEMPLATE = "burst/lab/spot"
Answer = Mapping[str, Any] | Exception | Callable[[Mapping[str, Any]], Mapping[str, Any]]


def said(code: str, message: str = "no", status: int = 400, date: float = EPOCH) -> Exception:
    """EC2's error, as botocore raises it."""
    from botocore.exceptions import ClientError

    headers = {"date": http_date(date)}
    meta: Any = {"HTTPStatusCode": status, "HTTPHeaders": headers, "RetryAttempts": 0}
    found: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": meta}
    error: Exception = ClientError(found, "Operation")
    return error


def lost() -> Exception:
    from botocore.exceptions import ReadTimeoutError

    error: Exception = ReadTimeoutError(endpoint_url="https://ec2.us-east-1.amazonaws.com")
    return error


def http_date(date: float) -> str:
    return format_datetime(datetime.fromtimestamp(date, UTC), usegmt=True)


def moment(date: float) -> datetime:
    return datetime.fromtimestamp(date, UTC)


@cache
def _checked_client() -> Any:
    from boto3.session import Session

    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return Session(**keys, region_name="us-east-1").client("ec2")


class ScriptedEc2(Ec2):
    """Answers in turn, and remembers what was asked."""

    def __init__(self, *script: tuple[str, Answer], date: float = EPOCH) -> None:
        """
        Args:
            script: (operation, answer) in the order that they have to be asked for.
            date: EC2's clock.
        """
        super().__init__("us-east-1", NO_WAIT, ManualClock(EPOCH))
        self.script = list(script)
        self.date = date
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.sessions = 0

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.asked]

    def send(self, operation: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        from botocore.stub import Stubber

        self.asked.append((operation, asked))
        assert self.script, f"{operation} was not expected"
        expected, answer = self.script.pop(0)
        assert operation == expected
        if callable(answer):
            answer = answer(asked)
        client = _checked_client()
        if isinstance(answer, Exception):
            raise answer
        meta = {"HTTPStatusCode": 200, "HTTPHeaders": {"date": http_date(self.date)}}
        with Stubber(client) as stub:
            stub.add_response(operation, {**answer, "ResponseMetadata": meta})
            found: Mapping[str, Any] = getattr(client, operation)(**asked)
            return found

    def close(self) -> None:
        self.sessions += 1


def pool_of(ec2: Ec2, clock: ManualClock | None = None, **config: Any) -> AwsPool:
    settings = {"instance_types": ("p5.48xlarge",), "max_nodes": 8, **config}
    made = AwsPoolConfig.model_validate(settings)
    return AwsPool(POOL, made, CLUSTER, ec2, clock or ManualClock(EPOCH))


def an_ask(
    count: int = 1, *offers: Offer, whole: bool = False, group: str = ""
) -> Mapping[str, Json]:
    chosen = [(offer, TEMPLATE) for offer in offers or (A, B)]
    return ask_for(count, chosen, whole=whole, group=group)


def nodes_for(ask: Mapping[str, Json], count: int = 1, **fields: Any) -> list[Node]:
    return [
        Node(
            id=new_id("node", ManualClock(EPOCH + number)),
            pool=POOL,
            expected_slots=8,
            requested=fields.get("requested", EPOCH),
            launch=LAUNCH,
            ask=ask,
        ).model_copy(update=fields)
        for number in range(count)
    ]


def gave(offer: Offer, *ids: str, **fields: Any) -> dict[str, Any]:
    """An entry of `Instances` in CreateFleet's answer."""
    return {**_came_of(offer), "InstanceIds": list(ids), "InstanceType": offer.type, **fields}


def refused(offer: Offer, code: str, message: str = "no") -> dict[str, Any]:
    """An entry of `Errors` in CreateFleet's answer."""
    return {**_came_of(offer), "ErrorCode": code, "ErrorMessage": message}


def _came_of(offer: Offer) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": {
            "LaunchTemplateSpecification": {"LaunchTemplateName": TEMPLATE, "Version": "1"},
            "Overrides": {"InstanceType": offer.type, "SubnetId": offer.subnet},
        },
        "Lifecycle": offer.market,
    }


def an_instance(id: str, offer: Offer = A, **fields: Any) -> dict[str, Any]:
    """An instance in DescribeInstances' answer.

    Args:
        fields: state, made, launch and group; the rest as EC2 names it.
    """
    state, launch = fields.pop("state", "running"), fields.pop("launch", LAUNCH)
    made = {
        "InstanceId": id,
        "InstanceType": offer.type,
        "SubnetId": offer.subnet,
        "Placement": {"AvailabilityZone": offer.zone, "GroupName": fields.pop("group", "")},
        "State": {"Name": state},
        "LaunchTime": moment(fields.pop("made", EPOCH)),
        "Tags": tag_list(tags_of(CLUSTER, POOL, launch)),
    }
    if offer.market == "spot":
        made["InstanceLifecycle"] = "spot"
    return {**made, **fields}


def listed(*instances: Mapping[str, Any], more: str = "") -> dict[str, Any]:
    """DescribeInstances' answer, an instance a reservation."""
    found: dict[str, Any] = {"Reservations": [{"Instances": [each]} for each in instances]}
    return {**found, "NextToken": more} if more else found


def supply(**fields: Any) -> Supply:
    return Supply(id=POOL, **fields)


def ids_of(nodes: Sequence[Node]) -> list[str]:
    return [str(node.handle.get("instance", "")) for node in nodes]
