"""Where a cluster is: the names that its policies are about, as ARNs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burst.core.aws.names import CLUSTER, bucket_name, function_name, role_name, table_name
from burst.infra.settings import Settings

GITHUB_ISSUER = "token.actions.githubusercontent.com"
"""Who signs what GitHub Actions say of themselves."""
_CHINA = "aws-cn"


@dataclass(frozen=True)
class Place:
    """A cluster in an account and a region."""

    cluster: str
    account: str
    region: str
    partition: str
    """`aws`, `aws-cn`, `aws-us-gov`."""

    @classmethod
    def of(cls, settings: Settings) -> Place:
        facts = settings.facts
        return cls(settings.cluster, facts.account, facts.region, facts.partition)

    def arn(
        self, service: str, resource: str, *, region: str | None = None, account: str | None = None
    ) -> str:
        """In this region and account, unless others are named; some services have none of them."""
        region = self.region if region is None else region
        account = self.account if account is None else account
        return f"arn:{self.partition}:{service}:{region}:{account}:{resource}"

    @property
    def table(self) -> str:
        return self.arn("dynamodb", f"table/{table_name(self.cluster)}")

    @property
    def bucket(self) -> str:
        return bucket_arn(self.partition, bucket_name(self.cluster, self.account, self.region))

    @property
    def function(self) -> str:
        return self.arn("lambda", f"function:{function_name(self.cluster)}")

    @property
    def log_group(self) -> str:
        """The function's."""
        return self.arn("logs", f"log-group:{log_group_name(self.cluster)}")

    @property
    def github_provider(self) -> str:
        """What lets the account believe GitHub; one for all clusters of the account."""
        return self.arn("iam", f"oidc-provider/{GITHUB_ISSUER}", region="")

    def role(self, role: str) -> str:
        return self.arn("iam", f"role/{role_name(self.cluster, role)}", region="")

    def ec2(self, *kinds: str) -> tuple[str, ...]:
        """Everything of these kinds: `instance`, `volume`."""
        return tuple(self.arn("ec2", f"{kind}/*") for kind in kinds)

    def service(self, name: str) -> str:
        """A service of AWS as a principal; China has its own name for EC2."""
        china = self.partition == _CHINA and name == "ec2"
        return f"{name}.amazonaws.com" + (".cn" if china else "")

    @property
    def owned(self) -> Mapping[str, str]:
        """The condition that a thing carries the cluster's tag."""
        return {f"aws:ResourceTag/{CLUSTER}": self.cluster}

    @property
    def tagging(self) -> Mapping[str, str]:
        """The condition that a thing is made with the cluster's tag."""
        return {f"aws:RequestTag/{CLUSTER}": self.cluster}


def bucket_arn(partition: str, bucket: str) -> str:
    return f"arn:{partition}:s3:::{bucket}"


def log_group_name(cluster: str) -> str:
    """Where AWS puts what the function prints."""
    return f"/aws/lambda/{function_name(cluster)}"
