"""What botocore raises without an answer from AWS, told apart for S3 and DynamoDB alike."""

from __future__ import annotations

import binascii
from json import JSONDecodeError

DAMAGED = (UnicodeDecodeError, JSONDecodeError, binascii.Error)
"""What botocore lets through where an answer was damaged on its way, which it finds out later."""

UNKNOWN_KEYS = (
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "InvalidToken",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
"""Codes of all services for credentials that are none, not accepted, or no longer."""
DENIED = (
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "AuthorizationErrorException",
    "Client.UnauthorizedOperation",
    "UnauthorizedOperation",
)
"""Codes of all services for what whoever asks may not do."""

LOGIN = "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or log in with `aws sso login`"
WHO = "check which credentials are used with `aws sts get-caller-identity`"


def code_in(error: BaseException | None) -> str:
    """AWS's own code of an error of botocore's; empty for any other."""
    from botocore.exceptions import ClientError

    return str(error.response["Error"].get("Code", "")) if isinstance(error, ClientError) else ""


def has_no_credentials(error: Exception) -> bool:
    """Whether it says that there are none, or that they could not be fetched."""
    from botocore.exceptions import (
        CredentialRetrievalError,
        NoCredentialsError,
        PartialCredentialsError,
        SSOError,
        TokenRetrievalError,
    )

    kinds = (
        CredentialRetrievalError,
        NoCredentialsError,
        PartialCredentialsError,
        SSOError,
        TokenRetrievalError,
    )
    return isinstance(error, kinds)


def may_pass(error: Exception) -> bool:
    """Whether the network is to blame, so that the same request may succeed a moment later."""
    from botocore.exceptions import (
        ChecksumError,
        FlexibleChecksumError,
        HTTPClientError,
        IncompleteReadError,
        ResponseStreamingError,
        SSLError,
    )
    from botocore.exceptions import ConnectionError as NotConnected
    from botocore.parsers import ResponseParserError

    kinds = (
        *DAMAGED,
        ChecksumError,
        FlexibleChecksumError,
        HTTPClientError,
        IncompleteReadError,
        NotConnected,
        ResponseParserError,
        ResponseStreamingError,
    )
    return isinstance(error, kinds) and not isinstance(error, SSLError)
