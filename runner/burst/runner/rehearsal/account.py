"""What a cluster has in an AWS account, made with AWS's own API alone, for a rehearsal.

A real one has more of it, and it lasts; here it is no more than nodes need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burst.core.aws.booting import node_script
from burst.core.aws.instance_types import InstanceType, known_type, read_type
from burst.core.aws.names import tag_list, tags_of
from burst.core.aws.sessions import aws_session
from burst.core.aws.templates import (
    CLUSTER_FILE,
    NodeMachine,
    node_environ,
    template_data,
    template_for,
)
from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.core.errors import BurstError
from burst.core.store.dynamodb.items import table_schema

_NETWORK = "10.0.0.0/16"
_DEFAULT_REGION = "us-east-1"
_IMAGE = (
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/"
    "base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)


@dataclass(frozen=True)
class Account:
    """What was made, and how its store and blobs are named."""

    region: str
    store: str
    """URL of the table; its server is the environment's."""
    blobs: str
    """URL of the bucket; its server is the environment's."""
    vpc: str
    subnets: Mapping[str, str]
    """By zone."""
    security_group: str
    templates: Sequence[str]
    """Names of the launch templates."""


def build_account(config: ClusterConfig, cluster_file: str, environ: Mapping[str, str]) -> Account:
    """Make the network, launch templates of every AWS pool, the bucket and the table, and publish
    the cluster file.

    Args:
        cluster_file: the text that nodes read as burst.yaml.
        environ: where the servers are and whose credentials ask, as `servers.serve` gives it.

    Raises:
        BurstError: an AWS call failed.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return _Building(config, environ).all(cluster_file)
    except (BotoCoreError, ClientError) as error:
        raise BurstError(
            f"cluster {config.cluster} could not be made in the rehearsal cloud", why=str(error)
        ) from error


class _Building:
    def __init__(self, config: ClusterConfig, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ
        self._region = config.aws.region if config.aws else environ["AWS_DEFAULT_REGION"]
        self._session = aws_session(
            aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
            region_name=self._region,
        )
        self._ec2 = self._session.client("ec2", endpoint_url=environ["AWS_ENDPOINT_URL_EC2"])

    def all(self, cluster_file: str) -> Account:
        name = f"burst-{self._config.cluster}"
        vpc, subnets, group = self._network()
        store, blobs = f"dynamodb://{name}?region={self._region}", f"s3://{name}"
        self._storage(name, cluster_file)
        node = node_environ(store, blobs, self._region)
        templates = [
            template
            for pool, settings in self._config.pools.items()
            if isinstance(settings, AwsPool)
            for template in self._templates(pool, settings, node, group)
        ]
        return Account(self._region, store, blobs, vpc, subnets, group, templates)

    def _network(self) -> tuple[str, dict[str, str], str]:
        """A VPC, a subnet of every zone, and a group that lets its members talk."""
        vpc = self._ec2.create_vpc(CidrBlock=_NETWORK, TagSpecifications=self._tags("vpc"))
        id = vpc["Vpc"]["VpcId"]
        zones = self._ec2.describe_availability_zones()["AvailabilityZones"]
        subnets = {}
        for index, zone in enumerate(sorted(each["ZoneName"] for each in zones)):
            made = self._ec2.create_subnet(
                VpcId=id,
                AvailabilityZone=zone,
                CidrBlock=f"10.0.{index * 16}.0/20",
                TagSpecifications=self._tags("subnet"),
            )
            subnets[zone] = made["Subnet"]["SubnetId"]
        group = self._ec2.create_security_group(
            GroupName=f"burst-{self._config.cluster}",
            Description="nodes of burst among themselves",
            VpcId=id,
            TagSpecifications=self._tags("security-group"),
        )["GroupId"]
        itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
        self._ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
        # EFA needs it although all may go out: what bypasses the kernel goes by this rule alone.
        self._ec2.authorize_security_group_egress(GroupId=group, IpPermissions=itself)
        return id, subnets, group

    def _templates(
        self, pool: str, settings: AwsPool, node: Mapping[str, str], group: str
    ) -> list[str]:
        machine = NodeMachine(_IMAGE, f"burst-{self._config.cluster}-node", (group,))
        tags = tags_of(self._config.cluster, pool)
        boot = node_script(node, max_life=settings.max_life)
        made: list[str] = []
        for kind in map(self._kind, settings.instance_types):
            name = template_for(self._config.cluster, pool, kind, settings.efa)
            if name not in made:
                data = template_data(machine, tags, boot, kind=kind, efa=settings.efa)
                self._ec2.create_launch_template(
                    LaunchTemplateName=name,
                    LaunchTemplateData=data,
                    TagSpecifications=self._tags("launch-template", pool),
                )
                made.append(name)
        return made

    def _kind(self, name: str) -> InstanceType:
        known = known_type(name)
        if known is not None:
            return known
        answer = self._ec2.describe_instance_types(InstanceTypes=[name])
        return read_type(answer["InstanceTypes"][0])

    def _storage(self, name: str, cluster_file: str) -> None:
        server = self._environ["AWS_ENDPOINT_URL"]
        dynamodb = self._session.client("dynamodb", endpoint_url=server)
        dynamodb.create_table(**table_schema(name))
        dynamodb.get_waiter("table_exists").wait(TableName=name)
        s3 = self._session.client("s3", endpoint_url=server)
        there = self._region
        placed = {"CreateBucketConfiguration": {"LocationConstraint": there}}
        # S3 refuses the constraint for the region that is meant without one, and for no other.
        s3.create_bucket(Bucket=name, **({} if there == _DEFAULT_REGION else placed))
        key = CLUSTER_FILE.removeprefix("blobs:")
        s3.put_object(Bucket=name, Key=key, Body=cluster_file.encode())

    def _tags(self, resource: str, pool: str = "") -> list[dict[str, Any]]:
        tags = tag_list(tags_of(self._config.cluster, pool))
        return [{"ResourceType": resource, "Tags": tags}]
