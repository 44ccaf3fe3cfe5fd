"""Sending whole objects to S3, each in one request that carries its SHA-256.

Ours rather than a library's for one reason: the caller knows the SHA-256 already. It signs the
request (`x-amz-content-sha256`) and is what the server checks the bytes against
(`x-amz-checksum-sha256`), so nothing is hashed twice, and the bytes go from the caller's memory to
the socket without a copy. Signing, proxies, certificates and connections are botocore's.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from burst.core.blobs.s3_place import CONNECT_S, SILENCE_S, Place, S3Url
from burst.core.blobs.s3_words import Answer, told
from burst.core.errors import StoreError
from burst.core.retrying import Passing, Retries

_SLICE = 4 * 2**20
"""What has to be sent within the time that a silence may last, so that a slow line is no error."""
_CONNECTIONS = 32
_IF_NEW = {"If-None-Match": "*"}


class Sender:
    """Safe from several threads."""

    def __init__(self, where: S3Url, place: Place, retries: Retries) -> None:
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies

        self._where = where
        self._place = place
        self._retries = retries
        bundle = place.session._session.get_config_variable("ca_bundle")
        self._http = URLLib3Session(
            verify=bundle or True,
            proxies=get_environ_proxies(place.bucket_url),
            timeout=(CONNECT_S, SILENCE_S),  # the latter for one slice to go, or for an answer
            max_pool_connections=_CONNECTIONS,
        )

    def put(self, key: str, data: memoryview, sha256: str) -> None:
        """Write one object, and compare what the store then says of it.

        Raises:
            BurstError: if it was not taken.
        """
        self._retries.run(lambda: self._put(key, data, sha256, {}))

    def put_new(self, key: str, data: memoryview, sha256: str) -> bool:
        """As `put`, if there is no such object; whether there was none.

        A repetition whose first answer was lost meets the caller's own object: False too.
        """
        return self._retries.run(lambda: self._put(key, data, sha256, _IF_NEW))

    def _put(self, key: str, data: memoryview, sha256: str, conditions: Mapping[str, str]) -> bool:
        name, bucket = self._where.name(key), self._where.bucket
        checksum = _base64(sha256)
        with told(name, bucket):
            request = self._request(key, data, sha256, conditions)
            answer = self._http.send(request.prepare())
            if answer.status_code == 412 and conditions:
                return False
            if answer.status_code != 200:
                region = answer.headers.get("x-amz-bucket-region", "")
                said = Answer.of_xml(answer.status_code, answer.text, region)
                words = said.in_words(name, bucket)
                raise Passing(words) if said.passing else words
            if answer.headers.get("x-amz-checksum-sha256") == checksum:
                return True  # as AWS answers; it stands for the size too
            found = self._place.client.head_object(
                Bucket=bucket, Key=self._where.path(key), ChecksumMode="ENABLED"
            )
        _compare(name, found, len(data), checksum)
        return True

    def _request(
        self, key: str, data: memoryview, sha256: str, conditions: Mapping[str, str]
    ) -> Any:
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(
            method="PUT",
            url=self._place.url_of(self._where.path(key)),
            headers={
                "Content-Length": str(len(data)),
                "Content-Type": "application/octet-stream",
                "x-amz-checksum-sha256": _base64(sha256),
                **conditions,
            },
            data=[data[start : start + _SLICE] for start in range(0, len(data), _SLICE)],
        )
        _signer(sha256, self._place).add_auth(request)
        return request


def _signer(sha256: str, place: Place) -> Any:
    from botocore.auth import S3SigV4Auth

    class KnownPayload(S3SigV4Auth):  # type: ignore[misc]
        def payload(self, request: Any) -> str:
            return sha256

    return KnownPayload(place.credentials.get_frozen_credentials(), "s3", place.region)


def _compare(name: str, found: Any, size: int, checksum: str) -> None:
    held = found["ContentLength"], found.get("ChecksumSHA256", checksum)
    if held != (size, checksum):
        raise Passing(
            StoreError(
                f"{name} is not what was sent",
                why=f"S3 holds {held[0]} bytes with SHA-256 {held[1]}, sent were {size} bytes "
                f"with {checksum}",
                mend="see whether something else writes there",
            )
        )


def _base64(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()
