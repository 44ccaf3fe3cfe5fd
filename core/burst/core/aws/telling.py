"""What AWS said to a request about the account, as an error that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from burst.core.aws.answers import (
    DAMAGED,
    DENIED,
    LOGIN,
    UNKNOWN_KEYS,
    WHO,
    code_in,
    has_no_credentials,
)
from burst.core.errors import BurstError, Refused, Unauthorized, Unreachable


@contextmanager
def told(what: str) -> Iterator[None]:
    """Raise what botocore raises inside as a BurstError that keeps AWS's own code.

    Args:
        what: what could not be done, as the beginning of a sentence: `cannot read the quotas`.

    Raises:
        Unauthorized: there are no credentials, or AWS does not accept them.
        Unreachable: no answer came.
        Refused: AWS said no.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ClientError as error:
        raise _answered(what, error.response) from error
    except (BotoCoreError, ResponseParserError, *DAMAGED) as error:
        if has_no_credentials(error):
            raise Unauthorized(what, why=str(error), mend=LOGIN) from error
        mend = "check the network and the region"
        raise Unreachable(what, why=str(error), mend=mend) from error


def code_of(error: BaseException) -> str:
    """AWS's own code of what `told` raised; empty where AWS did not answer."""
    return code_in(error.__cause__)


def is_denied(error: BaseException) -> bool:
    """Whether AWS said that whoever asks may not, or not know."""
    return code_of(error) in DENIED


def _answered(what: str, response: Any) -> BurstError:
    facts = response.get("Error", {})
    code, message = str(facts.get("Code", "")), str(facts.get("Message", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    why = f"{message or status} ({code or status})"
    if code in UNKNOWN_KEYS:
        return Unauthorized(what, why=why, mend=LOGIN)
    if code in DENIED:
        return Refused(what, why=why, mend=WHO)
    if status >= 500 or status == 429:
        return Unreachable(what, why=why, mend="try again in a minute")
    return Refused(what, why=why)
