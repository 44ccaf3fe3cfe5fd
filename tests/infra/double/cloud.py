"""How the double of Pulumi's engine reaches AWS, and how it words what AWS refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from tests.infra.double.values import Props

_READING = ("Describe", "Get", "List", "Head", "Search")
_PATIENCE_S, _PAUSE_S = 60.0, 0.05


class ProviderError(Exception):
    """A provider cannot do what it was asked; the text is what the real one would say."""


Tick = Callable[[str], None]
"""Told of every moment at which the process may die: a fuse for tests."""


@cache
def _models() -> Any:
    """botocore's descriptions of services, read once in a process."""
    from botocore.loaders import create_loader

    return create_loader()


class Cloud:
    """Clients of one provider's settings: region, allowed accounts, tags of everything."""

    def __init__(self, settings: Mapping[str, Any], tick: Tick) -> None:
        from boto3.session import Session
        from botocore.session import get_session

        own = get_session()
        own.register_component("data_loader", _models())
        self._session: Any = Session(
            region_name=settings.get("region") or None, botocore_session=own
        )
        if not self._session.region_name:
            raise ProviderError(
                "Missing region configuration: set it with `pulumi config set aws:region`, "
                "AWS_REGION or AWS_DEFAULT_REGION"
            )
        self._tick = tick
        self._clients: dict[str, Any] = {}
        self._last = threading.local()
        self._identity: Props = {}
        told = settings.get("defaultTags") or {}
        self.default_tags: dict[str, str] = dict(told.get("tags") or {})
        events = self._session.events
        events.register("before-call", self._before)
        events.register("after-call", self._after)
        allowed = settings.get("allowedAccountIds") or []
        if allowed and self.account not in allowed:
            raise ProviderError(f"AWS account ID not allowed: {self.account}")

    def _before(self, model: Any, **_: Any) -> None:
        self._last.model = model
        if not model.name.startswith(_READING):
            self._tick(f"before {model.name}")

    def _after(self, model: Any, **_: Any) -> None:
        if not model.name.startswith(_READING):
            self._tick(f"after {model.name}")

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.client(service)
        return self._clients[service]

    @property
    def region(self) -> str:
        return str(self._session.region_name)

    @property
    def partition(self) -> str:
        return str(self._session.get_partition_for_region(self.region))

    @property
    def identity(self) -> Props:
        if not self._identity:
            self._identity = dict(self.client("sts").get_caller_identity())
        return self._identity

    @property
    def account(self) -> str:
        return str(self.identity["Account"])

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def tags(self, inputs: Mapping[str, Any]) -> dict[str, str]:
        """Of a thing: the provider's, and over them its own."""
        return {**self.default_tags, **(inputs.get("tags") or {})}

    def worded(self, doing: str, error: Exception) -> str:
        """As the real provider words it; `doing`: `creating EC2 VPC`."""
        told: Any = getattr(error, "response", None)
        model = getattr(self._last, "model", None)
        if told is None or model is None:
            return f"{doing}: {error}"
        about, meta = told.get("Error", {}), told.get("ResponseMetadata", {})
        code, text = about.get("Code", "Unknown"), about.get("Message", "")
        known = {str(shape.error_code) for shape in model.service_model.error_shapes} | {
            str(shape.name) for shape in model.service_model.error_shapes
        }
        kind = code if code in known else f"api error {code}"
        return (
            f"{doing}: operation error {model.service_model.service_id}: {model.name}, "
            f"https response error StatusCode: {meta.get('HTTPStatusCode', 400)}, "
            f"RequestID: {meta.get('RequestId', '')}, {kind}: {text}"
        )


def code_of(error: Exception) -> str:
    """AWS's code in an error; empty if it is none of AWS's."""
    told: Any = getattr(error, "response", None) or {}
    return str(told.get("Error", {}).get("Code", ""))


def is_gone(error: Exception) -> bool:
    """Whether an error says that the thing is not there."""
    code = code_of(error)
    ends = (".NotFound", "NotFoundException", "NotFound", ".Malformed")
    return code.endswith(ends) or code in ("NoSuchEntity", "NoSuchBucket", "NoSuchKey", "404")


def until(ready: Callable[[], bool], what: str) -> None:
    """Wait for AWS.

    Raises:
        ProviderError: it takes too long.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while not ready():
        if time.monotonic() > deadline:
            raise ProviderError(f"{what}: timeout while waiting for state to become 'ready'")
        time.sleep(_PAUSE_S)
