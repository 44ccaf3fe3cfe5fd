"""What a machine in EC2 can ask about itself: the instance metadata service, version 2.

Plain HTTP to a link-local address, or to AWS_EC2_METADATA_SERVICE_ENDPOINT. Every answer has a
date, which is AWS's own: what a notice says is compared with that, never with the clock here.
"""

from __future__ import annotations

import email.utils
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from burst.core.errors import Unreachable

ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
DEFAULT_ENDPOINT = "http://169.254.169.254"
_TOKEN_LIFE_S = 21_600
_TIMEOUT_S = 1.0
_DATA = "/latest/meta-data/"
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Never through a proxy: the address means this machine."""


@dataclass(frozen=True)
class Identity:
    """Which instance this is, and whose."""

    instance: str
    type: str
    zone: str
    region: str
    address: str
    """Private."""
    image: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Warned:
    """That the instance will be taken away."""

    action: str
    """`terminate`, `stop` or `hibernate`."""
    at: float
    """When, as a date of AWS's clock."""
    left: float
    """Seconds until then, counted from the answer's own date."""


@dataclass(frozen=True)
class _Answer:
    text: str
    date: float | None


class Imds:
    """Safe for one thread at a time."""

    def __init__(self, endpoint: str | None = None, timeout: float = _TIMEOUT_S) -> None:
        """`timeout`: seconds for each request; by default the endpoint is the environment's."""
        found = endpoint or os.environ.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT
        self.endpoint = found.rstrip("/")
        self._timeout = timeout
        self._token = ""

    def identity(self) -> Identity:
        """Which instance this is.

        Raises:
            Unreachable: no metadata service answers, or it does not tell.
        """
        return Identity(
            instance=self._need("instance-id"),
            type=self._need("instance-type"),
            zone=self._need("placement/availability-zone"),
            region=self._need("placement/region"),
            address=self._need("local-ipv4"),
            image=self._read("ami-id") or "",
            tags=self._tags(),
        )

    def reclaim(self) -> Warned | None:
        """The notice that the instance will be taken away; None where there is none.

        Raises:
            Unreachable: the service does not answer, which is no notice.
        """
        answer = self._ask("spot/instance-action")
        if answer is None:
            return None
        found = self._object(answer)
        at = _date(str(found.get("time", "")))
        if at is None:
            raise self._strange(answer.text)
        left = at - (answer.date if answer.date is not None else _now())
        return Warned(action=str(found.get("action", "terminate")), at=at, left=max(0.0, left))

    def rebalance(self) -> float | None:
        """When AWS recommended to move away, as a date of its clock; None where it did not.

        Raises:
            Unreachable: the service does not answer.
        """
        answer = self._ask("events/recommendations/rebalance")
        if answer is None:
            return None
        at = _date(str(self._object(answer).get("noticeTime", "")))
        if at is None:
            raise self._strange(answer.text)
        return at

    # --- requests -----------------------------------------------------------------------------

    def _tags(self) -> dict[str, str]:
        """Empty where the instance may not read its own."""
        keys = (self._read("tags/instance") or "").split("\n")
        found = {key: self._read(f"tags/instance/{key}") for key in map(str.strip, keys) if key}
        return {key: value for key, value in found.items() if value is not None}

    def _need(self, path: str) -> str:
        found = self._read(path)
        if not found:
            raise Unreachable(
                f"the instance metadata service at {self.endpoint} does not know {path}",
                mend=f"check that {ENDPOINT_VARIABLE} names the right one, or is not set",
            )
        return found

    def _read(self, path: str) -> str | None:
        answer = self._ask(path)
        return answer.text.strip() if answer else None

    def _ask(self, path: str) -> _Answer | None:
        """The answer for `path`; None where there is no such thing."""
        for fresh in (False, True):
            if fresh or not self._token:
                self._token = self._new_token()
            headers = {"X-aws-ec2-metadata-token": self._token}
            try:
                return self._send(urllib.request.Request(self._url(path), headers=headers))
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return None
                if error.code == 401 and not fresh:
                    continue  # the token has had its time
                raise self._refused(error) from error
        raise AssertionError("the second answer is final")

    def _new_token(self) -> str:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_LIFE_S)}
        url = f"{self.endpoint}/latest/api/token"
        request = urllib.request.Request(url, headers=headers, method="PUT")
        try:
            return self._send(request).text.strip()
        except urllib.error.HTTPError as error:
            error.close()
            raise self._refused(error) from error

    def _send(self, request: urllib.request.Request) -> _Answer:
        try:
            with _OPENER.open(request, timeout=self._timeout) as response:
                date = response.headers.get("Date")
                return _Answer(response.read().decode(), _http_date(date))
        except urllib.error.HTTPError:
            raise
        except (OSError, ValueError) as error:
            raise Unreachable(
                f"no instance metadata service answers at {self.endpoint}",
                why=str(error),
                mend=f"run this on an instance in EC2, or set {ENDPOINT_VARIABLE}",
            ) from error

    def _url(self, path: str) -> str:
        return f"{self.endpoint}{_DATA}{path}"

    def _refused(self, error: urllib.error.HTTPError) -> Unreachable:
        return Unreachable(
            f"the instance metadata service at {self.endpoint} refused to answer",
            why=f"HTTP {error.code} for {error.url}",
            mend="see that the launch template enables it (HttpEndpoint: enabled)",
        )

    def _object(self, answer: _Answer) -> dict[str, Any]:
        try:
            found = json.loads(answer.text)
        except ValueError as error:
            raise self._strange(answer.text) from error
        if not isinstance(found, dict):
            raise self._strange(answer.text)
        return found

    def _strange(self, text: str) -> Unreachable:
        return Unreachable(
            f"the instance metadata service at {self.endpoint} answered something else",
            why=f"it said {text[:200]!r}",
        )


def _date(text: str) -> float | None:
    """An ISO date in UTC, as seconds since 1970."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


def _http_date(text: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() if text else None
    except ValueError:
        return None


def _now() -> float:
    return datetime.now(UTC).timestamp()
