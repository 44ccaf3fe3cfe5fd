"""What DynamoDB said, as an error that a person can act on, and whether it may pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from burst.core.aws.answers import DAMAGED, LOGIN, UNKNOWN_KEYS, WHO, has_no_credentials, may_pass
from burst.core.errors import BurstError, NoStore, Refused, StoreError, Unauthorized, Unreachable
from burst.core.retrying import Passing

_THROTTLED = (
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TransactionInProgressException",
)


@contextmanager
def told(table: str) -> Iterator[None]:
    """Raise what botocore raises inside in burst's words; a cancelled transaction passes through.

    Raises:
        Passing: what may be otherwise a moment later.
        BurstError: the rest.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        if error.response["Error"].get("Code") == "TransactionCanceledException":
            raise
        words, passing = _in_words(error.response, table)
        raise (Passing(words) if passing else words) from error
    except (BotoCoreError, *DAMAGED) as error:
        raise _without_answer(error, table) from error


def no_answer(table: str, why: str) -> Unreachable:
    return Unreachable(
        f"DynamoDB did not answer for table {table}",
        why=why,
        mend="check the network, the credentials and the region",
    )


def _in_words(response: Any, table: str) -> tuple[BurstError, bool]:
    facts = response.get("Error", {})
    code, message = str(facts.get("Code", "")), str(facts.get("Message", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    why = f"{message or status} ({code or status})"
    if code == "ResourceNotFoundException":
        mend = "`burst up` makes it; or correct BURST_STORE, or `store` in burst.yaml"
        return NoStore(f"there is no table {table}", why=why, mend=mend), False
    if code in UNKNOWN_KEYS:
        what = f"DynamoDB does not accept the AWS credentials for table {table}"
        return Unauthorized(what, why=why, mend=LOGIN), False
    if code in ("AccessDeniedException", "AccessDenied"):
        what = f"DynamoDB does not let you use table {table}"
        return Refused(what, why=why, mend=WHO), False
    if code in _THROTTLED or status >= 500 or status in (0, 408, 429):
        return no_answer(table, why), True
    return StoreError(f"DynamoDB refused a request for table {table}", why=why), False


def _without_answer(error: Exception, table: str) -> BurstError | Passing:
    from botocore.exceptions import NoRegionError

    if has_no_credentials(error):
        what = f"there are no AWS credentials to use table {table} with"
        return Unauthorized(what, why=str(error), mend=LOGIN)
    if isinstance(error, NoRegionError):
        what = f"it is not said in which region table {table} is"
        mend = "add ?region=us-east-1 to the store's URL, or set AWS_DEFAULT_REGION"
        return Refused(what, why=str(error), mend=mend)
    words = no_answer(table, str(error))
    return Passing(words) if may_pass(error) else words
