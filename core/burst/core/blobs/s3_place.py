"""Where an S3 URL leads: the bucket, its server, its region, and who asks.

boto3 answers all of this, since users have told it already: environment, profiles, SSO, container
and instance roles, FIPS and dual-stack endpoints, proxies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote

from burst.core.aws.answers import LOGIN
from burst.core.aws.regions import region_of
from burst.core.aws.sessions import aws_session
from burst.core.blobs.keys import check_key
from burst.core.errors import Unauthorized, UsageError

_OPTIONS = ("endpoint_url", "region")
_CONNECTIONS = 32
CONNECT_S, SILENCE_S = 3.0, 30.0
"""S3 has up to eight addresses, each of which is tried for so long."""
_ANY_REGION = "us-east-1"


@dataclass(frozen=True)
class S3Url:
    """`s3://bucket/prefix?endpoint_url=…&region=…`, taken apart."""

    url: str
    bucket: str
    prefix: str
    """Empty, or ends with a slash."""
    options: Mapping[str, str]

    @classmethod
    def parse(cls, url: str) -> S3Url:
        """
        Raises:
            UsageError: the URL has an option that is not known.
        """
        place, _, query = url.partition("?")
        options = dict(parse_qsl(query))
        unknown = options.keys() - set(_OPTIONS)
        if unknown:
            raise UsageError(
                f"{url!r} has an unknown option {sorted(unknown)[0]!r}",
                mend=f"known are {' and '.join(_OPTIONS)}",
            )
        bucket, _, prefix = place.removeprefix("s3://").strip("/").partition("/")
        return cls(url, bucket, f"{prefix}/" if prefix else "", options)

    def path(self, key: str) -> str:
        """The key within the bucket."""
        return self.prefix + check_key(key)

    def name(self, key: str) -> str:
        return f"s3://{self.bucket}/{self.prefix}{key}"


@dataclass(frozen=True)
class Place:
    client: Any
    """boto3's."""
    credentials: Any
    """botocore's, which renew themselves."""
    session: Any
    """boto3's."""
    region: str
    bucket_url: str
    """What the URL of every object begins with; ends with a slash."""
    virtual_host: bool
    """Whether the bucket is part of the host's name."""
    attempts: int | None
    """As the user has set it for boto3."""

    def url_of(self, path: str) -> str:
        return self.bucket_url + quote(path, safe="/-_.~")


def find(where: S3Url) -> Place:
    """Ask boto3. Sends a request only where AWS has to say in which region the bucket is.

    Raises:
        Unauthorized: there are no credentials.
        UsageError: boto3's own settings are wrong.
    """
    from botocore.exceptions import BotoCoreError

    try:
        session = aws_session()
        credentials = session.get_credentials()
        region = where.options.get("region") or region_of(session)
        client = _client(session, where, region or _ANY_REGION)
        if credentials and _is_aws(client):
            found = _region_of(client, where.bucket)
            if found and found != client.meta.region_name:
                client = _client(session, where, found)
    except (BotoCoreError, ValueError) as error:
        raise UsageError(
            f"cannot use {where.url}", why=str(error), mend="see `aws configure list`"
        ) from error
    if credentials is None:
        raise Unauthorized(
            f"there are no AWS credentials to use {where.url} with",
            mend=LOGIN,
        )
    bucket_url = _bucket_url(client, where.bucket)
    return Place(
        client=client,
        credentials=credentials,
        session=session,
        region=client.meta.region_name,
        bucket_url=bucket_url,
        virtual_host=f"//{where.bucket}." in bucket_url,
        attempts=_attempts(session),
    )


def _client(session: Any, where: S3Url, region: str) -> Any:
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=SILENCE_S,
        max_pool_connections=_CONNECTIONS,
        retries={"total_max_attempts": 1},  # burst.core.retrying does it, and more of it
        request_checksum_calculation="when_required",  # we send SHA-256 where it matters
    )
    endpoint = where.options.get("endpoint_url")
    return session.client("s3", endpoint_url=endpoint, region_name=region, config=config)


def _is_aws(client: Any) -> bool:
    return ".amazonaws.com" in client.meta.endpoint_url


def _region_of(client: Any, bucket: str) -> str:
    """Where AWS says the bucket is, which it also says to those who may not use it."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        response = client.head_bucket(Bucket=bucket)
    except ClientError as error:
        response = error.response
    except BotoCoreError:
        return ""  # the first call that matters says what is wrong
    return str(response["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", ""))


def _bucket_url(client: Any, bucket: str) -> str:
    # A signed URL is how botocore tells where it would send a request, except that those lead to
    # the one host of all regions, which turns requests away while a bucket is new.
    signed = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "x"})
    url = str(signed.partition("?")[0].removesuffix("x"))
    return url.replace("s3.amazonaws.com/", f"s3.{client.meta.region_name}.amazonaws.com/", 1)


def _attempts(session: Any) -> int | None:
    set_by_user = session._session.get_config_variable("max_attempts")
    return int(set_by_user) if set_by_user is not None else None
