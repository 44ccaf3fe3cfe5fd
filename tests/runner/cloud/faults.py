"""Where a runner touches the world, counted, so that it can be ended or misled at every point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from burst.core.errors import Unreachable
from burst.core.retrying import Retries
from burst.core.store.port import Store, Write
from burst.runner.pools.aws.ec2 import Ec2
from tests.runner.cloud.model import Model, Skewed

COMMIT = "commit"
OPERATIONS = {
    "create_fleet",
    "create_placement_group",
    "delete_placement_group",
    "describe_instance_type_offerings",
    "describe_instance_types",
    "describe_instances",
    "describe_network_interfaces",
    "describe_placement_groups",
    "describe_spot_price_history",
    "describe_subnets",
    "describe_volumes",
    "get_spot_placement_scores",
    "terminate_instances",
}
"""What a life asks of EC2."""
NO_WAIT = Retries(attempts=3, sleep=lambda seconds: None)


class Ended(BaseException):
    """The runner's process is gone. Nothing of its own may catch it."""


def lost(act: str) -> BaseException:
    """What the runner sees where its answer was lost."""
    if act == COMMIT:
        return Unreachable("the store does not answer")
    from botocore.exceptions import ReadTimeoutError

    error: BaseException = ReadTimeoutError(endpoint_url="https://ec2.us-east-1.amazonaws.com")
    return error


def said(code: str, status: int = 400) -> Callable[[str], BaseException]:
    """EC2's error, as botocore raises it; the store is left alone."""
    from botocore.exceptions import ClientError

    meta: Any = {"HTTPStatusCode": status, "HTTPHeaders": {}, "RetryAttempts": 0}
    found: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": meta}
    return lambda act: ClientError(found, act)


@dataclass
class Acts:
    """The acts of runners: the commits, and the calls of EC2 by botocore's names."""

    names: list[str] = field(default_factory=list)
    at: int = 0
    """The act that goes wrong, from 1 on; 0 for none."""
    after: bool = False
    """Whether it takes effect."""
    error: Callable[[str], BaseException] = lost
    first_of: set[str] = field(default_factory=set)
    """Kinds of acts whose next one goes wrong, before it has any effect."""
    meanwhile: Callable[[int], None] | None = None
    """Called before each act with its number; its own acts do not count."""
    fired: bool = False
    _inside: bool = False

    def act(self, name: str, do: Callable[[], Any]) -> Any:
        if self._inside:
            return do()
        self.names.append(name)
        number = len(self.names)
        if self.meanwhile is not None:
            self._inside = True
            try:
                self.meanwhile(number)
            finally:
                self._inside = False
        if name in self.first_of:
            self.first_of.discard(name)
            self.fired = True
            raise self.error(name)
        if number != self.at:
            return do()
        self.fired = True
        if self.after:
            do()
        raise self.error(name)


class CountedStore:
    """A store whose commits are acts, and which may be away altogether."""

    def __init__(self, store: Store, acts: Acts, is_away: Callable[[], bool]) -> None:
        self._store = store
        self._acts = acts
        self._is_away = is_away

    def commit(self, *writes: Write) -> None:
        if self._is_away():
            raise Unreachable("the store does not answer")
        self._acts.act(COMMIT, lambda: self._store.commit(*writes))

    def __getattr__(self, name: str) -> Any:
        if self._is_away() and name != "url":
            raise Unreachable("the store does not answer")
        return getattr(self._store, name)


class CountedEc2(Ec2):
    """EC2 as the model has it; every request is an act."""

    def __init__(self, model: Model, acts: Acts, skew: float = 0.0) -> None:
        super().__init__("us-east-1", NO_WAIT, Skewed(model, skew))
        self._model = model
        self._acts = acts

    def send(self, operation: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._acts.act(
            operation, lambda: super(CountedEc2, self).send(operation, asked)
        )
        return answer

    def _connect(self, operation: str) -> Any:
        return self._model.client
