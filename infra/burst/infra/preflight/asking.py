"""How the account is asked: a client a service, many questions at once, and answers that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from burst.core.aws.sessions import aws_session
from burst.core.aws.telling import code_of, is_denied, told
from burst.core.errors import BurstError, Unreachable

T = TypeVar("T")

_AT_ONCE = 12
_CONNECT_S, _SILENCE_S, _ATTEMPTS = 5.0, 15.0, 3
_KEY = "AWS_ACCESS_KEY_ID"


@dataclass(frozen=True)
class Unknown:
    """What AWS did not tell, and why."""

    error: BurstError
    action: str
    """The permission that asking needs."""

    @property
    def code(self) -> str:
        """AWS's own; empty where it did not answer."""
        return code_of(self.error)

    @property
    def denied(self) -> bool:
        """Whether whoever asks may not know."""
        return is_denied(self.error)


def known(answer: T | Unknown) -> T:
    """The answer, or the error that came instead of it."""
    if isinstance(answer, Unknown):
        raise answer.error
    return answer


class Asking:
    """The services of one region, and the account-wide ones. Safe for threads."""

    def __init__(self, region: str, environ: Mapping[str, str]) -> None:
        """
        Args:
            environ: whose credentials ask, and where servers are that are not AWS's own, as AWS's
                tools read it.
        """
        self.region = region
        self._environ = environ
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str], Any] = {}
        self._session: Any = None

    def client(self, service: str, region: str = "") -> Any:
        """boto3's client of a service, in the region or in another one."""
        key = service, region or self.region
        with self._lock:  # boto3 makes clients for one thread at a time alone
            if key not in self._clients:
                self._clients[key] = self._client(*key)
            return self._clients[key]

    def ask(self, what: str, action: str, question: Callable[[], T]) -> T | Unknown:
        """What the question gives, or why there is no answer.

        Args:
            what: what cannot be learned then, as the beginning of a sentence.
            action: the permission that it needs: `ec2:DescribeImages`.
            question: it may ask several things with `client`.
        """
        try:
            with told(what):
                return question()
        except BurstError as error:
            return Unknown(error, action)
        except (KeyError, TypeError, ValueError) as error:
            # Something between here and AWS answered in its place: a proxy, a login page.
            why = f"the answer is none of AWS's ({type(error).__name__}: {error})"
            mend = "check the network and what AWS_ENDPOINT_URL names"
            return Unknown(Unreachable(what, why=why, mend=mend), action)

    def close(self) -> None:
        with self._lock:
            held, self._clients = self._clients, {}
        for client in held.values():
            client.close()

    def _client(self, service: str, region: str) -> Any:
        from botocore.config import Config

        variable = "AWS_ENDPOINT_URL_" + service.upper().replace("-", "_")
        url = self._environ.get(variable) or self._environ.get("AWS_ENDPOINT_URL")
        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_SILENCE_S,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        )
        if self._session is None:
            self._session = _session(self._environ)
        return self._session.client(
            service, region_name=region, endpoint_url=url or None, config=config
        )


def at_once(questions: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The answers of independent questions, by their names."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = {name: pool.submit(question) for name, question in questions.items()}
        return {name: each.result() for name, each in asked.items()}


def _session(environ: Mapping[str, str]) -> Any:
    if _KEY not in environ:
        return aws_session(profile=environ.get("AWS_PROFILE") or None)
    return aws_session(
        aws_access_key_id=environ[_KEY],
        aws_secret_access_key=environ.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=environ.get("AWS_SESSION_TOKEN"),
    )
