"""The cluster file, `burst.yaml`: pools and how they are scheduled."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from burst.core.aws.images import DEFAULT_IMAGE, DEFAULT_PYTHON, DEFAULT_PYTHON_VERSION
from burst.core.config.experiment import Section
from burst.core.units import Seconds


class Scheduler(Section):
    type: Literal["fifo", "priority", "fair_share"] = "priority"
    preemption: bool = False


class Pool(Section):
    scheduler: Scheduler | None = None
    """Of this pool alone."""
    loses_nodes: bool | None = None
    """Whether its machines may be taken away at any time; by default only those of a spot market
    are. A trial that trains elsewhere moves there once a checkpoint of it is proved to restore."""


class LocalPool(Pool):
    """This machine."""

    kind: Literal["local"] = "local"
    slots: int | None = Field(default=None, ge=1)
    """Slots to offer; by default the GPUs, or one a CPU core where there are none."""
    idle: Seconds = 60.0
    """Seconds without work after which the agent leaves."""


class StaticPool(Pool):
    """Machines that join by themselves with `burst agent --pool NAME`."""

    kind: Literal["static"] = "static"
    slots_per_node: int = Field(ge=1)
    max_nodes: int = Field(default=1000, ge=1)


class SlurmPool(Pool):
    kind: Literal["slurm"] = "slurm"
    partition: str
    slots_per_node: int = Field(ge=1)
    max_nodes: int = Field(ge=1)
    idle: Seconds = 300.0


class AwsPool(Pool):
    """Instances in the cluster's AWS account, made when trials wait and ended when none do."""

    kind: Literal["aws"] = "aws"
    market: Literal["spot", "on-demand"] = "spot"
    on_demand_after: Seconds | None = None
    """Seconds for which no spot offer gave a node after which on-demand ones are asked for too;
    by default that never happens."""
    instance_types: tuple[str, ...] = Field(min_length=1)
    """Types that may be had, all of the same number of slots."""
    zones: tuple[str, ...] = ()
    """Availability zones to stay in; by default every one that has a subnet of the cluster."""
    slots_per_node: int | None = Field(default=None, ge=1)
    """By default the GPUs of a type, or its vCPUs where it has none."""
    max_nodes: int = Field(ge=1, le=10_000)
    min_nodes: int = Field(default=0, ge=0)
    idle: Seconds = 300.0
    efa: bool = False
    max_life: Seconds = 7 * 24 * 3600.0
    """A node older than this drains and is ended, whatever it does."""
    keep_on_error: Seconds = 0.0
    """Seconds for which the node of a trial that failed stays, to be looked at."""


def loses_nodes(pool: Pool) -> bool:
    """Whether the pool's machines may be taken away at any time."""
    if pool.loses_nodes is not None:
        return pool.loses_nodes
    return isinstance(pool, AwsPool) and pool.market == "spot"


PoolConfig = Annotated[LocalPool | StaticPool | SlurmPool | AwsPool, Field(discriminator="kind")]


class Budget(Section):
    """A monthly limit of the cluster's whole cost, of which AWS tells by e-mail."""

    usd: float = Field(gt=0, le=1e9)
    email: tuple[str, ...] = Field(min_length=1, max_length=10)


class Aws(Section):
    """The account's side of the cluster, which `burst up` makes."""

    region: str
    account: str | None = None
    """The only account that it may be made in; by default that of whoever asks."""
    image: str = DEFAULT_IMAGE
    """The AMI of nodes: its id, or `resolve:ssm:NAME` of the parameter that holds it."""
    python: str = DEFAULT_PYTHON
    """The Python of that image, with torch in it."""
    python_version: str = DEFAULT_PYTHON_VERSION
    """Of that Python: what nodes are given of burst is compiled for it."""
    disk_gib: int = Field(default=200, ge=8, le=16384)
    """Root disk of a node."""
    cidr: str = "10.86.0.0/16"
    """Addresses of the network, of which each zone gets a sixteenth."""
    nat: bool = False
    """Whether nodes reach the internet, through a NAT gateway that costs by the hour and the byte.
    Without it they reach AWS's own services alone."""
    runner: Literal["function", "here"] = "function"
    """Who decides and acts for the pools of AWS: a function in the account, so that nothing has to
    stay on, or whoever runs burst."""
    endpoints: tuple[Literal["images", "sessions"], ...] = ()
    """AWS's services that nodes reach without the internet, beside S3 and DynamoDB, and that cost
    by the hour: `images` (container images in ECR), `sessions` (a shell on a node, by Session
    Manager)."""
    github: tuple[str, ...] = ()
    """Who may start runs from GitHub Actions without a key: `owner/name`, for every branch of a
    repository, or what GitHub calls a subject, `owner/name:ref:refs/heads/main`."""
    budget: Budget | None = None
    email: tuple[str, ...] = ()
    """Who is told when an alarm goes off."""


def _only_this_machine() -> dict[str, PoolConfig]:
    return {"local": LocalPool()}


class ClusterConfig(Section):
    """Without a file there is one pool, `local`."""

    cluster: str = "local"
    store: str = ""
    """URL of the store; by default the table that `burst up` makes or, without `aws`, `sqlite:`
    in BURST_HOME."""
    blobs: str = ""
    """URL of the blobs; by default the bucket that `burst up` makes or, without `aws`, a folder
    in BURST_HOME."""
    aws: Aws | None = None
    pools: dict[str, PoolConfig] = Field(default_factory=_only_this_machine)
    scheduler: Scheduler = Scheduler()
    """For every pool that has none of its own."""

    @property
    def has_function(self) -> bool:
        """Whether a function in the account acts for the pools of AWS."""
        return self.aws is not None and self.aws.runner == "function"
