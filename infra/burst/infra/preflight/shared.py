"""What all clusters of an account share, costs nothing, and is no cluster's to remove: spot's
service role, and GitHub as an issuer of identities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from burst.core.aws.telling import told
from burst.core.config.cluster import ClusterConfig
from burst.infra.policies.place import GITHUB_ISSUER
from burst.infra.preflight.asking import Asking, Unknown, known
from burst.infra.preflight.checking import Check, not_known, ok, warning
from burst.infra.preflight.gathering import aws_of
from burst.infra.preflight.places import pools_of

AUDIENCE = "sts.amazonaws.com"
SPOT_SERVICE = "spot.amazonaws.com"
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
_SPOT_PATH = f"/aws-service-role/{SPOT_SERVICE}/"
_MADE = "`burst up` makes it"


@dataclass(frozen=True)
class Provider:
    """GitHub, as an issuer of identities that the account believes."""

    arn: str
    """Empty if there is none."""
    audiences: tuple[str, ...] = ()


def needs_spot(config: ClusterConfig) -> bool:
    return any(pool.market == "spot" for pool in pools_of(config).values())


def look_spot_role(asking: Asking) -> bool | Unknown:
    """Whether the account has the role without which it can have no spot instances."""

    def question() -> bool:
        found = asking.client("iam").list_roles(PathPrefix=_SPOT_PATH, MaxItems=1)
        return bool(found["Roles"])

    what = "cannot learn whether the account has spot's service role"
    return asking.ask(what, "iam:ListRoles", question)


def look_github(asking: Asking) -> Provider | Unknown:
    """Whether the account believes GitHub, and for whom its tokens have to be."""

    def question() -> Provider:
        iam = asking.client("iam")
        for each in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
            arn = str(each["Arn"])
            if arn.partition("oidc-provider/")[2] == GITHUB_ISSUER:
                found = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
                return Provider(arn, tuple(found.get("ClientIDList", ())))
        return Provider("")

    what = "cannot learn whether the account knows GitHub"
    action = "iam:ListOpenIDConnectProviders and iam:GetOpenIDConnectProvider"
    return asking.ask(what, action, question)


def check_spot_role(found: bool | Unknown) -> Check:
    label = "spot role"
    if isinstance(found, Unknown):
        return not_known(label, found)
    if found:
        return ok(label, f"{SPOT_ROLE} is there")
    return warning(label, f"the account has no {SPOT_ROLE} yet", f"{_MADE}, once an account")


def check_github(found: Provider | Unknown) -> Check:
    label = "GitHub"
    if isinstance(found, Unknown):
        return not_known(label, found)
    if not found.arn:
        return warning(label, f"the account does not know {GITHUB_ISSUER} yet", _MADE)
    if AUDIENCE not in found.audiences:
        said = f"{found.arn} does not accept tokens for {AUDIENCE} yet"
        return warning(label, said, "`burst up` adds that")
    return ok(label, found.arn)


def prepare(config: ClusterConfig, environ: Mapping[str, str]) -> list[str]:
    """Make what is missing of it, in words what was made. Again, it makes nothing.

    Args:
        environ: as for `gather`.

    Raises:
        BurstError: AWS does not answer, or whoever asks may not look or make it.
    """
    asking = Asking(aws_of(config).region, environ)
    made = []
    try:
        if needs_spot(config) and not known(look_spot_role(asking)):
            _make(
                asking,
                "iam:CreateServiceLinkedRole",
                lambda iam: iam.create_service_linked_role(AWSServiceName=SPOT_SERVICE),
                lambda: known(look_spot_role(asking)),
            )
            made.append(f"the service role of spot, {SPOT_ROLE}")
        if aws_of(config).github:
            made += prepare_github(asking)
    finally:
        asking.close()
    return made


def prepare_github(asking: Asking) -> list[str]:
    """`prepare`, for GitHub alone."""
    found = known(look_github(asking))
    if not found.arn:
        _make(
            asking,
            "iam:CreateOpenIDConnectProvider",
            lambda iam: iam.create_open_id_connect_provider(
                Url=f"https://{GITHUB_ISSUER}", ClientIDList=[AUDIENCE]
            ),
            lambda: bool(known(look_github(asking)).arn),
        )
        return [f"GitHub as an issuer of identities, {GITHUB_ISSUER}"]
    if AUDIENCE not in found.audiences:
        _make(
            asking,
            "iam:AddClientIDToOpenIDConnectProvider",
            lambda iam: iam.add_client_id_to_open_id_connect_provider(
                OpenIDConnectProviderArn=found.arn, ClientID=AUDIENCE
            ),
            lambda: AUDIENCE in known(look_github(asking)).audiences,
        )
        return [f"the audience {AUDIENCE} of {found.arn}"]
    return []


def _make(
    asking: Asking, action: str, make: Callable[[Any], object], is_there: Callable[[], bool]
) -> None:
    """Make one thing; that it was there is no failure, for somebody else may make it meanwhile.

    Raises:
        BurstError: AWS refused.
    """

    from botocore.exceptions import ClientError

    with told(f"cannot do {action}, which the cluster needs once an account"):
        try:
            make(asking.client("iam"))
        except ClientError:
            # The codes of "it is there" differ, and some stand for other mistakes too.
            if not is_there():
                raise
