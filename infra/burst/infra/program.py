"""The program: every resource of a cluster, from its settings alone.

    network ── nodes ┐
    storage ── function ── watching        arrows of what needs what: left before right
    access ─── github

The function comes last of what acts: when it runs first, all that it needs is there.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws

from burst.core.aws.names import bucket_name, table_name
from burst.infra.components.access import Access, AccessArgs
from burst.infra.components.function import Function, FunctionArgs
from burst.infra.components.github import Github, GithubArgs
from burst.infra.components.network import Network, NetworkArgs
from burst.infra.components.nodes import Nodes, NodesArgs
from burst.infra.components.storage import Storage, StorageArgs
from burst.infra.components.watching import Watching, WatchingArgs
from burst.infra.settings import Settings


def build(settings: Settings) -> Mapping[str, pulumi.Input[object]]:
    """Register everything, and return what the stack tells of itself.

    Must be called inside a Pulumi program: by `infra/__main__.py` or by `burst up`.
    """
    aws, facts = settings.aws, settings.facts
    # Whoever's credentials are in use when it is run again: nothing is made in another account.
    provider = pulumi_aws.Provider("aws", region=facts.region, allowed_account_ids=[facts.account])

    def after(*needed: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(providers=[provider], depends_on=list(needed))

    access = Access("access", AccessArgs(settings), after())
    storage = Storage("storage", _storage(settings), after())
    needed: list[pulumi.Resource] = [storage]
    if settings.pools:  # machines of one's own bring their network, and join by themselves
        network = Network("network", _network(settings), after())
        made_from = NodesArgs(
            settings,
            profile=access.node_profile,
            security_group=network.security_group,
            bundle_url=f"s3://{_bucket(settings)}/{_bundle_key(settings)}",
        )
        # A machine that boots from a template fetches the bundle that it names.
        needed.append(Nodes("nodes", made_from, after(storage)))
    if access.runner_role_arn is not None:
        runs = FunctionArgs(settings, access.runner_role_arn, storage.stream_arn)
        Function("function", runs, after(*needed))
    if aws.github:
        Github("github", GithubArgs(settings, access.policies["submitter"]), after())
    Watching("watching", WatchingArgs(settings), after())
    return {
        "cluster": settings.cluster,
        "account": facts.account,
        "region": facts.region,
        "store": settings.store,
        "blobs": settings.blobs,
        "pools": {name: list(config.instance_types) for name, config in settings.pools.items()},
        "policies": access.policies,
    }


def _storage(settings: Settings) -> StorageArgs:
    return StorageArgs(
        bucket=_bucket(settings),
        table=table_name(settings.cluster),
        partition=settings.facts.partition,
        cluster_file=settings.cluster_file,
        node_bundle=settings.node.path,
        node_bundle_key=_bundle_key(settings),
        tags=settings.tags(),
    )


def _network(settings: Settings) -> NetworkArgs:
    return NetworkArgs(
        cluster=settings.cluster,
        region=settings.facts.region,
        cidr=settings.aws.cidr,
        zones=list(settings.facts.zones),
        nat=settings.aws.nat,
        endpoints=settings.aws.endpoints,
        tags=settings.tags(),
    )


def _bucket(settings: Settings) -> str:
    return bucket_name(settings.cluster, settings.facts.account, settings.facts.region)


def _bundle_key(settings: Settings) -> str:
    return f"cluster/node-{settings.node.digest}.zip"
