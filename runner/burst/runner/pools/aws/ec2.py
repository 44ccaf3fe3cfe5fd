"""The calls to EC2: pages gathered, throttles waited for, credentials found anew.

botocore tries nothing again: it would repeat a request for machines after a lack of capacity, and
after an answer that was lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from burst.core.aws.answers import DAMAGED, LOGIN, UNKNOWN_KEYS, has_no_credentials, may_pass
from burst.core.aws.sessions import aws_session
from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError, Refused, Unauthorized, Unreachable
from burst.core.model import RefusalKind
from burst.core.retrying import Passing, Retries
from burst.runner.pools.aws.codes import kind_of

_RETRIES = Retries(attempts=6, first_s=0.5, longest_s=4.0, within_s=5.5)
"""A runner has more to do than to wait for EC2; what was not done now is done by its next pass."""
_PATIENT = ("create_fleet",)
"""What takes EC2 some time to answer, and must not be asked twice."""
_THROTTLED = ("RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException")


@dataclass(frozen=True)
class Waits:
    """Seconds to wait for EC2."""

    connect: float = 3.0
    look: float = 5.0
    """For the first word of an answer, and between two."""
    fleet: float = 30.0
    """The same where machines are asked for."""
    rest: float = 5.0
    """After it did not answer nothing is asked, so that a pass that has several questions waits
    for one of them alone."""


class Ec2Error(Exception):
    """What EC2 said, for whoever asked to judge."""

    def __init__(self, operation: str, code: str, message: str, date: float | None) -> None:
        """
        Args:
            date: EC2's own clock when it answered.
        """
        super().__init__(f"{operation}: {message} ({code})")
        self.operation = operation
        self.code = code
        self.message = message
        self.date = date

    def as_refused(self) -> Refused:
        return Refused(f"EC2 refused {self.operation}", why=f"{self.message} ({self.code})")


class Ec2:
    """EC2 in one region. Safe for threads, and across `fork`."""

    def __init__(
        self,
        region: str,
        retries: Retries | None = None,
        clock: Clock | None = None,
        waits: Waits = Waits(),
    ) -> None:
        """
        Args:
            region: empty for the one that the environment or the profile names.
        """
        self.region = region
        self.ahead = 0.0
        """Seconds that EC2's clock was before this machine's when it last answered."""
        self._clock = clock or SystemClock()
        self._retries = retries or _RETRIES
        self._waits = waits
        self._silent: tuple[float, Unreachable] | None = None
        self._clients: tuple[int, dict[bool, Any]] = (0, {})
        self._lock = threading.Lock()

    def call(self, operation: str, **asked: Any) -> Mapping[str, Any]:
        """EC2's answer, as botocore reads it. Waits where EC2 is asked too often or fails: for
        what may be asked any number of times.

        Raises:
            Ec2Error: what else EC2 said.
            Unreachable, Refused: there was no answer, now or some seconds ago, or nobody may ask.
        """
        self._let_rest()
        try:
            return self._retries.run(lambda: self._authorized(operation, asked))
        except Unreachable as error:
            self._silent = self._clock.monotonic(), error
            raise

    def ask_once(self, operation: str, **asked: Any) -> Mapping[str, Any]:
        """As `call`, for what must not be repeated blindly: only a throttle, which did nothing,
        is waited for, and an answer that was lost is Unreachable at once."""

        def attempt() -> Mapping[str, Any]:
            try:
                return self._authorized(operation, asked)
            except Lost as lost:
                raise lost.error from lost

        return self._retries.run(attempt)

    def guess(self, operation: str, **asked: Any) -> Mapping[str, Any] | None:
        """EC2's answer, if it gives one at once: for what is good to know and no more."""
        try:
            self._let_rest()
            return self._authorized(operation, asked)
        except (Passing, Ec2Error, BurstError):
            return None

    def pages(self, operation: str, **asked: Any) -> Iterator[Mapping[str, Any]]:
        """The answers of a call that has several pages."""
        token = ""
        while True:
            answer = self.call(operation, **asked, **({"NextToken": token} if token else {}))
            yield answer
            token = answer.get("NextToken") or ""
            if not token:
                return

    def close(self) -> None:
        with self._lock:
            (process, held), self._clients = self._clients, (0, {})
        if process == os.getpid():
            for client in held.values():
                client.close()

    def send(self, operation: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """One request, as botocore answers or raises."""
        answer: Mapping[str, Any] = getattr(self._connect(operation), operation)(**asked)
        return answer

    def _authorized(self, operation: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            answer = self._once(operation, asked)
        except Unauthorized:
            # A profile may have been logged in again, or a role's file renewed, since.
            self.close()
            answer = self._once(operation, asked)
        date = date_of(answer)
        if date is not None:
            self.ahead = date - self._clock.now()
        return answer

    def _once(self, operation: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        with _told(operation):
            return self.send(operation, asked)

    def _let_rest(self) -> None:
        if self._silent is None:
            return
        since, error = self._silent
        if self._clock.monotonic() - since < self._waits.rest:
            raise Unreachable(error.what, why=error.why, mend=error.mend)
        self._silent = None

    def _connect(self, operation: str) -> Any:
        patient = operation in _PATIENT
        with self._lock:
            if self._clients[0] != os.getpid():
                self._clients = os.getpid(), {}
            made = self._clients[1]
            if patient not in made:
                silence = self._waits.fleet if patient else self._waits.look
                made[patient] = _client(self.region, self._waits.connect, silence)
            return made[patient]


class Lost(Passing):
    """The request may have been carried out."""


def date_of(answer: Mapping[str, Any]) -> float | None:
    """EC2's own clock when it answered, in seconds since the epoch; None where it did not say."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None


@contextmanager
def _told(operation: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ClientError as error:
        raise _in_words(operation, error.response) from error
    except (BotoCoreError, ResponseParserError, *DAMAGED) as error:
        raise _without_answer(operation, error) from error


def _in_words(operation: str, response: Any) -> Exception:
    facts = response.get("Error", {})
    code, message = str(facts.get("Code", "")), str(facts.get("Message", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    why = f"{message or status} ({code or status})"
    said = Ec2Error(operation, code, message, date_of(response))
    if code in _THROTTLED:
        return Passing(_no_answer(operation, why))
    if kind_of(code) is not RefusalKind.BUG:
        return said  # a lack of capacity may come with status 500
    if code in UNKNOWN_KEYS:
        return Unauthorized("EC2 does not accept the AWS credentials", why=why, mend=LOGIN)
    if status >= 500 or status in (0, 408, 429):
        return Lost(_no_answer(operation, why))
    return said


def _without_answer(operation: str, error: Exception) -> BurstError | Passing:
    from botocore.exceptions import NoRegionError

    if has_no_credentials(error):
        what = "there are no AWS credentials to use EC2 with"
        return Unauthorized(what, why=str(error), mend=LOGIN)
    if isinstance(error, NoRegionError):
        mend = "write `aws: {region: us-east-1}` into burst.yaml, or set AWS_DEFAULT_REGION"
        return Refused("it is not said in which region the cluster is", why=str(error), mend=mend)
    words = _no_answer(operation, str(error))
    return Lost(words) if may_pass(error) else words


def _no_answer(operation: str, why: str) -> Unreachable:
    return Unreachable(
        f"EC2 did not answer {operation}",
        why=why,
        mend="check the network, the credentials and the region",
    )


def _client(region: str, connect: float, silence: float) -> Any:
    from botocore.config import Config

    config = Config(
        connect_timeout=connect,
        read_timeout=silence,
        retries={"total_max_attempts": 1},
    )
    return aws_session().client("ec2", region_name=region or None, config=config)
