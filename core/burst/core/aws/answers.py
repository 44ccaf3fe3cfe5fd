"""What botocore raises without an answer from AWS, told apart for S3 and DynamoDB alike."""

from __future__ import annotations

LOGIN = "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or log in with `aws sso login`"
WHO = "check which credentials are used with `aws sts get-caller-identity`"


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
    from botocore.exceptions import ConnectionError as NotConnected
    from botocore.exceptions import (
        FlexibleChecksumError,
        HTTPClientError,
        IncompleteReadError,
        ResponseStreamingError,
        SSLError,
    )

    kinds = (
        FlexibleChecksumError,
        HTTPClientError,
        IncompleteReadError,
        NotConnected,
        ResponseStreamingError,
    )
    return isinstance(error, kinds) and not isinstance(error, SSLError)
