"""Whose AWS account is asked, and where a cluster keeps its state in it."""

from __future__ import annotations

from collections.abc import Mapping

from burst.core.aws.names import blobs_url, store_url
from burst.core.aws.sessions import aws_session
from burst.core.aws.telling import told
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import Refused, Unreachable


def caller_account(region: str) -> str:
    """The number of the account whose credentials this process uses. Asks AWS (STS).

    Raises:
        Unauthorized, Unreachable, Refused: AWS does not say.
    """
    with told("cannot learn whose AWS account this is"):
        client = aws_session().client("sts", region_name=region)
        return str(client.get_caller_identity()["Account"])


def require_account(config: ClusterConfig, asked: str) -> None:
    """Keep one cluster from being looked for in two accounts.

    Raises:
        Refused: the cluster file names another account than the credentials are for.
    """
    named = config.aws.account if config.aws else None
    if named is not None and named != asked:
        raise Refused(
            f"cluster {config.cluster} is in AWS account {named}",
            why=f"the credentials in use are for account {asked}",
            mend="choose others with AWS_PROFILE, or correct `aws.account` in burst.yaml",
        )


def _account_for_state(config: ClusterConfig, region: str) -> str:
    """
    Raises:
        Unauthorized, Unreachable, Refused: AWS does not say.
    """
    try:
        return caller_account(region)
    except (Unreachable, Refused) as error:
        raise type(error)(
            f"cluster {config.cluster} keeps its state in AWS, in an account that is not known",
            why=error.why,
            mend=f"{error.mend}; or name the account in `aws.account` of burst.yaml; or keep the "
            "state elsewhere: `store` and `blobs` there, or BURST_STORE and BURST_BLOBS",
        ) from error


def state_urls(config: ClusterConfig, environ: Mapping[str, str]) -> tuple[str, str]:
    """Where a cluster's store and blobs are that neither its file nor the environment names: in
    the account's side, which `burst up` makes; empty for a cluster that has none.

    AWS is asked only if the name of the bucket is needed and the file does not tell the account.
    """
    store = environ.get("BURST_STORE") or config.store
    blobs = environ.get("BURST_BLOBS") or config.blobs
    if config.aws is None:
        return store, blobs
    region = config.aws.region
    if not blobs:
        account = config.aws.account or _account_for_state(config, region)
        blobs = blobs_url(config.cluster, account, region)
    return store or store_url(config.cluster, region), blobs
