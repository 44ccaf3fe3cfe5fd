"""What S3 said, as an error that a person can act on, and whether it may pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from burst.core.aws.answers import DAMAGED, LOGIN, UNKNOWN_KEYS, WHO, has_no_credentials, may_pass
from burst.core.errors import BurstError, NotFound, Refused, StoreError, Unauthorized, Unreachable
from burst.core.retrying import Passing

_CODE = re.compile(r"<Code>([^<]*)</Code>")
_REGION = re.compile(r"<Region>([^<]*)</Region>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")

_SPOILED = ("BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "RequestTimeout")
"""The request did not arrive as it was sent, which says nothing about the next one."""
_AT_ONCE = ("ConditionalRequestConflict", "OperationAborted")
"""Another request for the same object was under way."""


@dataclass(frozen=True)
class Answer:
    """An answer that is no success."""

    status: int
    code: str
    message: str
    region: str = ""
    """Where the bucket is, if the answer said."""

    @classmethod
    def of_xml(cls, status: int, body: str, region: str = "") -> Answer:
        code, message = _CODE.search(body), _MESSAGE.search(body)
        named = _REGION.search(body)
        return cls(
            status,
            code[1] if code else "",
            message[1] if message else body[:300] or f"HTTP {status}",
            region or (named[1] if named else ""),
        )

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a moment later."""
        if self.status == 501:
            return False
        return (
            self.status in (0, 408, 429)
            or self.status >= 500
            or self.code in (*_SPOILED, *_AT_ONCE)
        )

    def in_words(self, name: str, bucket: str) -> BurstError:
        why = f"{self.message} ({self.code or self.status})"
        if self.code == "NoSuchBucket":
            return NotFound(
                f"there is no bucket {bucket}",
                why=f"the bucket of {name} does not exist: {why}",
                mend="`burst up` makes a cluster's own; else create it, or correct the URL",
            )
        if self.status == 404:
            return NotFound(f"there is no {name}", why=why)
        if self.code in UNKNOWN_KEYS:
            return Unauthorized(
                f"S3 does not accept the AWS credentials for {name}", why=why, mend=LOGIN
            )
        if self.code == "RequestTimeTooSkewed":
            return Refused(
                f"S3 does not accept this machine's clock for {name}",
                why=why,
                mend="set the clock, and keep it with NTP",
            )
        if self.status in (301, 307) or self.code == "AuthorizationHeaderMalformed":
            return Refused(
                f"bucket {bucket} is in another region",
                why=why,
                mend=f"add ?region={self.region or '<its region>'} to the URL",
            )
        if self.status == 501:
            return Refused(
                f"the server of bucket {bucket} cannot do what burst needs for {name}",
                why=why,
                mend="use a server that knows S3's conditional writes, or a newer version of it",
            )
        if self.status in (401, 403):
            return Refused(f"S3 does not let you use {name}", why=why, mend=WHO)
        if self.code in _SPOILED:
            return StoreError(
                f"{name} did not arrive as it was sent", why=why, mend="check the network"
            )
        return no_answer(name, why)


def no_answer(name: str, why: str) -> Unreachable:
    return Unreachable(
        f"S3 did not answer for {name}",
        why=why,
        mend="check the network, the credentials and the region",
    )


@contextmanager
def told(name: str, bucket: str) -> Iterator[None]:
    """Raise what botocore raises inside in burst's words.

    Raises:
        Passing: what may be otherwise a moment later.
        BurstError: the rest.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        answer = _answer(error)
        words = answer.in_words(name, bucket)
        raise (Passing(words) if answer.passing else words) from error
    except HTTPError as error:
        raise Passing(no_answer(name, str(error))) from error
    except (BotoCoreError, *DAMAGED) as error:
        raise _without_answer(error, name) from error


def _answer(error: object) -> Answer:
    response: dict[str, dict[str, object]] = getattr(error, "response", {})
    facts, meta = response.get("Error", {}), response.get("ResponseMetadata", {})
    headers = meta.get("HTTPHeaders")
    region = headers.get("x-amz-bucket-region", "") if isinstance(headers, dict) else ""
    region = str(region or facts.get("Region", ""))
    code = str(facts.get("Code", ""))
    status = meta.get("HTTPStatusCode", 0)
    return Answer(int(str(status)), code, str(facts.get("Message", code)), region)


def _without_answer(error: Exception, name: str) -> BurstError | Passing:
    if has_no_credentials(error):
        return Unauthorized(
            f"there are no AWS credentials to use {name} with", why=str(error), mend=LOGIN
        )
    words = no_answer(name, str(error))
    return Passing(words) if may_pass(error) else words
