"""The experiment file, normalised: one model, whichever dialect it was written in.

Field names are Determined's where it had the field. Reading a file (places of errors, dialects,
deprecations) is `burst.core.config.load`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from burst.core.length import Length, Unit
from burst.core.model import Json
from burst.core.units import Bytes, Seconds


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# --- hyperparameters: see `burst.core.config.hparams` for sampling and grids ---------------------


class ConstHp(Section):
    type: Literal["const"] = "const"
    val: Json


class IntHp(Section):
    type: Literal["int"] = "int"
    minval: int
    maxval: int
    """Inclusive."""
    count: int | None = Field(default=None, ge=1)


class DoubleHp(Section):
    type: Literal["double"] = "double"
    minval: float
    maxval: float
    count: int | None = Field(default=None, ge=1)


class LogHp(Section):
    type: Literal["log"] = "log"
    base: float = Field(default=10.0, gt=0)
    minval: float
    """An exponent: the value is `base ** x`."""
    maxval: float
    count: int | None = Field(default=None, ge=1)


class CategoricalHp(Section):
    type: Literal["categorical"] = "categorical"
    vals: tuple[Json, ...] = Field(min_length=1)


Hyperparameter = Annotated[
    ConstHp | IntHp | DoubleHp | LogHp | CategoricalHp, Field(discriminator="type")
]

# --- search --------------------------------------------------------------------------------------


class SearcherBase(Section):
    metric: str = "validation_loss"
    smaller_is_better: bool = True
    max_length: Length | None = None
    """How long each trial trains (for the ASHA searchers: the top rung)."""
    source_trial_id: str | None = None
    source_checkpoint_uuid: str | None = None


class SingleSearcher(SearcherBase):
    name: Literal["single"] = "single"


class GridSearcher(SearcherBase):
    name: Literal["grid"] = "grid"
    max_concurrent_trials: int = Field(default=16, ge=0)


class RandomSearcher(SearcherBase):
    name: Literal["random"] = "random"
    max_trials: int = Field(ge=1)
    max_concurrent_trials: int = Field(default=16, ge=0)


class AshaSearcher(SearcherBase):
    name: Literal["asha"] = "asha"
    num_rungs: int = Field(ge=1, le=30)
    max_trials: int = Field(ge=1)
    time_metric: str | None = None
    """A metric that the code reports and that counts time; replaces `max_length`."""
    max_time: int | None = Field(default=None, ge=1)
    """The top rung in `time_metric`."""
    divisor: float = Field(default=4.0, gt=1, le=1000)
    max_concurrent_trials: int = Field(default=16, ge=0)
    promote: bool = False
    """Pause at each rung and resume the best, instead of stopping the worst."""


class AdaptiveAshaSearcher(SearcherBase):
    name: Literal["adaptive_asha"] = "adaptive_asha"
    max_trials: int = Field(ge=1)
    time_metric: str | None = None
    max_time: int | None = Field(default=None, ge=1)
    mode: Literal["aggressive", "standard", "conservative"] = "standard"
    divisor: float = Field(default=4.0, gt=1, le=1000)
    max_rungs: int = Field(default=5, ge=1)
    bracket_rungs: tuple[Annotated[int, Field(ge=1, le=30)], ...] = ()
    """Replaces what `mode` would choose."""
    max_concurrent_trials: int = Field(default=16, ge=0)
    promote: bool = False


SearcherConfig = Annotated[
    SingleSearcher | GridSearcher | RandomSearcher | AshaSearcher | AdaptiveAshaSearcher,
    Field(discriminator="name"),
]

# --- the rest ------------------------------------------------------------------------------------


class Resources(Section):
    slots_per_trial: int = Field(default=1, ge=0)
    pools: tuple[str, ...] = ()
    """Best first; empty means the cluster's first pool."""
    priority: int = Field(default=42, ge=1, le=99)
    """1 goes first."""
    weight: float = Field(default=1.0, gt=0)
    max_slots: int | None = Field(default=None, ge=1)
    burst_after: Seconds = 120.0
    """Seconds of waiting after which a trial spills to the next pool."""
    shm_size: Bytes | None = None
    """Bytes."""
    is_single_node: bool = False
    devices: tuple[str, ...] = ()


class Keep(Section):
    experiment_best: int = Field(default=0, ge=0)
    trial_best: int = Field(default=1, ge=0)
    trial_latest: int = Field(default=1, ge=0)


class CheckpointStorage(Section):
    """One place for checkpoints; of several, fastest first, each is a tier."""

    type: Literal["local", "directory", "shared_fs", "s3"]
    """`local` is a folder on the disk of the node that trains; it does not outlive the node."""
    path: str = ""
    """Of a folder; an empty one of type `local` is the node's own choice."""
    bucket: str = ""
    prefix: str = ""
    endpoint_url: str | None = None
    keep: int | None = Field(default=None, ge=1)
    """How many of a trial's newest checkpoints it holds at most."""
    every: Length | None = None
    """How much training lies between two checkpoints that are copied there; None is every one."""


class Checkpoints(Section):
    every: Length | Literal["auto"] | None = "auto"
    policy: Literal["best", "all", "none"] = "best"
    """Which validations are followed by a checkpoint."""
    keep: Keep = Keep()
    storage: CheckpointStorage | tuple[CheckpointStorage, ...] | None = None

    @property
    def tiers(self) -> tuple[CheckpointStorage, ...]:
        """The places that `storage` names, fastest first; none where the blobs are used."""
        if isinstance(self.storage, CheckpointStorage):
            return (self.storage,)
        return self.storage or ()


class WarmStart(Section):
    """Where trials begin that have no checkpoint of their own."""

    checkpoint: str
    """A checkpoint's id, a trial's (its newest durable one), or the name of an imported one. In a
    submitted experiment it is a checkpoint's id."""
    what: Literal["weights", "everything"] = "weights"
    """Parameters and buffers of the models alone, from batch 0; or the whole state, as if the
    trial that wrote it continued."""
    partial: bool = False
    """Whether to load the weights that fit and leave the others as the trial made them."""


class Validate(Section):
    every: Length | None = Length(amount=1, unit=Unit.EPOCHS)
    at_start: bool = False


class Reproducibility(Section):
    experiment_seed: int = Field(ge=0, lt=2**31)
    mode: Literal["off", "seeded", "strict"] = "seeded"


class Budget(Section):
    usd: float | None = Field(default=None, gt=0)
    deadline: Seconds | None = None
    """Seconds after submission."""


class Image(Section):
    cpu: str | None = None
    cuda: str | None = None
    rocm: str | None = None


class PythonEnvironment(Section):
    version: str | None = None
    requirements: tuple[str, ...] = ()
    """Requirement lines, or one path ending in .txt relative to the code folder."""


class Environment(Section):
    image: Image | None = None
    python: PythonEnvironment | None = None
    variables: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)
    """Name to `ssm:…`, `secretsmanager:…` or `env:…`; resolved on the node, masked in logs."""
    setup: tuple[str, ...] = ()
    """Shell commands run in the code folder before the ranks start."""
    cuda: str | None = None
    driver: str | None = None


class Webhooks(Section):
    webhook_id: tuple[int, ...] = ()
    webhook_name: tuple[str, ...] = ()
    exclude: bool = False


class Integrations(Section):
    pachyderm: dict[str, Json] | None = None
    webhooks: Webhooks | None = None


class Slurm(Section):
    gpu_type: str | None = None
    sbatch_args: tuple[str, ...] = ()
    slots_per_node: int | None = Field(default=None, ge=1)


class Pbs(Section):
    gpu_type: str | None = None
    pbsbatch_args: tuple[str, ...] = ()
    slots_per_node: int | None = Field(default=None, ge=1)


class BindMount(Section):
    host_path: str
    container_path: str
    read_only: bool = False
    propagation: Literal["rprivate", "private", "rshared", "shared", "rslave", "slave"] = (
        "rprivate"
    )


class Profiling(Section):
    enabled: bool = False
    begin_on_batch: int = Field(default=0, ge=0)
    end_after_batch: int | None = Field(default=None, ge=0)
    sync_timings: bool = True


class LogPolicy(Section):
    name: str = ""
    pattern: str
    action: Literal["cancel_retries", "exclude_node"] | None = None


class Retention(Section):
    log_days: int | None = Field(default=None, ge=-1, le=32767)


class Optimizations(Section):
    aggregation_frequency: int = Field(default=1, ge=1)
    """Batches whose gradients are summed for one optimizer step."""
    average_aggregated_gradients: bool = True
    mixed_precision: Literal["off", "fp16", "bf16"] = "off"


class ExperimentConfig(Section):
    """An experiment file after reading, in burst's own form and with every default filled in."""

    name: str
    description: str = ""
    labels: tuple[str, ...] = ()
    workspace: str = ""
    project: str = ""
    entrypoint: str | tuple[str, ...]
    """`module:Class` of a PyTorchTrial, or a command (a list, or a shell line)."""
    data: dict[str, Json] = Field(default_factory=dict)
    hyperparameters: dict[str, Json] = Field(default_factory=dict)
    """Nested; leaves are hyperparameters (dicts with `type`) or constants."""
    searcher: SearcherConfig
    resources: Resources = Resources()
    checkpoints: Checkpoints = Checkpoints()
    warm_start: WarmStart | None = None
    validate_: Validate = Field(default=Validate(), alias="validate")
    report_every: Length = Length(amount=100, unit=Unit.BATCHES)
    """How often averaged training metrics are reported."""
    reproducibility: Reproducibility
    budget: Budget = Budget()
    environment: Environment = Environment()
    bind_mounts: tuple[BindMount, ...] = ()
    optimizations: Optimizations = Optimizations()
    profiling: Profiling = Profiling()
    log_policies: tuple[LogPolicy, ...] = ()
    retention: Retention = Retention()
    max_restarts: int = Field(default=5, ge=0)
    drain_grace: Seconds = 120.0
    """Seconds a drain may take before its processes are killed (`preemption_timeout`)."""
    integrations: Integrations = Integrations()
    slurm: Slurm = Slurm()
    pbs: Pbs = Pbs()

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True
    )

    @property
    def start(self) -> WarmStart | None:
        """Where its trials begin, also where it is written in Determined's way."""
        if self.warm_start is not None:
            return self.warm_start
        source = self.searcher.source_checkpoint_uuid or self.searcher.source_trial_id
        return WarmStart(checkpoint=source) if source else None
