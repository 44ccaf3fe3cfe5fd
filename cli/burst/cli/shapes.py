"""What `--json` prints. Names stay; a new one may be added; `null` is what is not known (yet).

Times are seconds since the Unix epoch. Not-a-number and infinities are the strings "NaN",
"Infinity" and "-Infinity", as in the store. `docs/cli.md` prints these shapes.
"""

from __future__ import annotations

from typing import TypedDict

from burst.cli.shapes_cloud import DownLeftJson as DownLeftJson
from burst.cli.shapes_cloud import DownResultJson as DownResultJson
from burst.cli.shapes_cloud import DownStepJson as DownStepJson
from burst.cli.shapes_cloud import UpChangeJson as UpChangeJson
from burst.cli.shapes_cloud import UpCheckJson as UpCheckJson
from burst.cli.shapes_cloud import UpPreviewJson as UpPreviewJson
from burst.cli.shapes_cloud import UpResourceJson as UpResourceJson
from burst.cli.shapes_cloud import UpResultJson as UpResultJson
from burst.core.model import Json

Number = float | int | str | None
"""A number, or one of the strings that stand for those JSON has no name for."""


class ReasonJson(TypedDict):
    code: str
    text: str


class PointJson(TypedDict):
    batches: int
    metrics: dict[str, Number]
    at: float


class FailureJson(TypedDict):
    kind: str
    message: str
    traceback: str
    rank: int | None
    node: str | None
    exit_code: int | None


class TrialJson(TypedDict):
    id: str
    experiment: str
    number: int
    state: str
    reason: ReasonJson
    state_since: float
    hparams: dict[str, Json]
    seed: int
    slots: int
    pools: list[str]
    pool: str | None
    created: float
    attempts: int
    restarts: int
    batches: int
    records: int
    epochs: float
    seconds: float
    target_batches: int | None
    progress: float | None
    validations: int
    latest: dict[str, PointJson]
    best: PointJson | None
    checkpoint: str | None
    checkpoint_at: float | None
    checkpoint_age_s: float | None
    checkpoint_interval_s: float | None
    checkpoint_late: bool
    checkpoint_problem: str | None
    proved: str | None
    unprovable: str | None
    wait: ReasonJson | None
    wait_until: float | None
    failure: FailureJson | None


class ExperimentJson(TypedDict):
    id: str
    name: str
    state: str
    reason: ReasonJson
    state_since: float
    owner: str
    created: float
    labels: list[str]
    searcher: str
    metric: str
    smaller_is_better: bool
    code: str
    commit: str | None
    trials: int
    best_trial: str | None
    best: PointJson | None


class ExperimentWholeJson(ExperimentJson):
    """`burst show EXPERIMENT --json`: the experiment, its settings and its trials."""

    config: dict[str, Json]
    trial_records: list[TrialJson]


class AllocationJson(TypedDict):
    id: str
    trial: str
    attempt: int
    state: str
    reason: ReasonJson
    pool: str
    nodes: list[str]
    slots: int
    created: float
    started: float | None
    ended: float | None
    restored_from: str | None
    restored_batches: int
    drain: str | None
    exit: str | None


class CheckpointJson(TypedDict):
    id: str
    trial: str
    experiment: str
    attempt: int
    batches: int
    created: float
    url: str
    manifest: str
    size: int
    metrics: dict[str, Number]
    pinned: bool
    pin_reason: str | None
    deleted: float | None
    deleted_because: ReasonJson | None
    damaged: str | None


class TrialWholeJson(TrialJson):
    """`burst show TRIAL --json`: the trial, its attempts and its checkpoints."""

    allocations: list[AllocationJson]
    checkpoints: list[CheckpointJson]


class NodeJson(TypedDict):
    id: str
    pool: str
    host: str | None
    state: str
    slots: int
    used: int
    devices: list[str]
    requested: float
    ready: float | None
    gone: float | None
    gone_reason: ReasonJson | None
    idle_since: float | None
    facts: dict[str, Json]


class PoolJson(TypedDict):
    name: str
    kind: str
    slots_per_node: int | None
    max_nodes: int | None
    nodes: int
    slots: int
    used: int
    waiting: int
    stopped: str | None
    """Why no more nodes are asked for, until `burst pool resume`."""
    refused: str | None
    """The newest refusal after which something of the pool rests still."""
    refused_until: float | None


class FoundJson(TypedDict):
    """One tagged thing of `burst audit --json`."""

    pool: str
    kind: str
    id: str
    launch: str | None
    owner: str | None
    age: float | None
    verdict: str
    will: str


class RecoveryJson(TypedDict):
    """A loss of a rehearsal; seconds from the moment that the machine was taken, or noticed."""

    trial: str
    instance: str
    notice: float | None
    asked: float | None
    resumed: float | None
    repeated: int


class RehearsalJson(TypedDict):
    """`burst rehearse --json`, at the end."""

    type: str
    exit_code: int
    experiment: str
    recoveries: list[RecoveryJson]
    unmade: int
    first_asked: float | None
    refused: list[str]
    machines: int
    machine_seconds: float
    usd: float
    left: list[str]
    unexplained: list[str]
    given_up: str


class MetricRowJson(TypedDict):
    group: str
    batches: int
    at: float
    metrics: dict[str, Number]


class EventJson(TypedDict):
    at: float
    name: str
    subject: str
    experiment: str
    text: str
    data: dict[str, Json]


class BracketJson(TypedDict):
    """Rungs are lengths, ascending; the last is the longest that a trial trains."""

    rungs: list[float]
    trials: int
    at_once: int


class EndsJson(TypedDict):
    length: float
    trials: int


class SearchJson(TypedDict):
    """`burst search preview --json`."""

    searcher: str
    trials: int
    at_once: int
    slots_per_trial: int
    unit: str | None
    """What lengths are in; null where the trial's own code says how long it trains."""
    brackets: list[BracketJson]
    ends: list[EndsJson]
    """How many trials are to be expected to end at each length."""
    trained: float | None
    """How long all of them train in sum."""
    slot_hours: float | None
    """What that holds; null where lengths are no times."""


class PlanJson(TypedDict):
    """The first line of `burst run --json`, and all of `burst run --dry-run --json`."""

    type: str
    name: str
    searcher: str
    trials: int
    at_once: int
    slots_per_trial: int
    length: str | None
    metric: str
    smaller_is_better: bool
    pools: list[str]
    entrypoint: str
    start: str | None
    """Where trials begin, in words; null where they begin anew."""
    code: str
    code_size: int
    brackets: list[BracketJson]
    """Of a search that halves; else empty."""


class ExperimentLineJson(TypedDict):
    """The second line of `burst run --json`: the experiment that was started or attached to."""

    type: str
    attached: bool
    experiment: ExperimentJson


class EventLineJson(EventJson):
    """A line of `burst run --json`: an event of the experiment."""

    type: str


class ValidationLineJson(MetricRowJson):
    """A line of `burst run --json`: a validation."""

    type: str
    trial: str


class WaitLineJson(TypedDict):
    """A line of `burst run --json`: a trial waits, and why."""

    type: str
    trial: str
    reason: ReasonJson
    until: float | None


class LogLineJson(TypedDict):
    """A line of `burst logs --json`, and of `burst run --follow --json`.

    A rank of `null` is the launcher, or a set-up command.
    """

    type: str
    trial: str
    attempt: int
    rank: int | None
    at: float
    line: str


class ResultJson(TypedDict):
    """The last line of `burst run --json`, and what `burst wait --json` prints."""

    type: str
    exit_code: int
    experiment: ExperimentJson
    trials: list[TrialJson]
    checkpoint: CheckpointJson | None


class CurvePointJson(TypedDict):
    batches: int
    value: Number


class ReportJson(TypedDict):
    """`burst report --json`."""

    experiment: ExperimentJson
    trials: list[TrialJson]
    checkpoint: CheckpointJson | None
    """The one to take: at the best validation, else the newest of that trial."""
    value: Number
    """The best validation by the searcher's metric."""
    curve: list[CurvePointJson]
    pools: list[str]
    usd: float | None
    """What the slots cost that were held; `null` where no price is known."""
    node_hours: float
    unpriced_node_hours: float
    """Those of machines of which no price is known, which are not in `usd`."""
    uncounted_trials: int
    unacted: list[str]
    """Fields of the file that nothing acts on yet."""


class WhyJson(TypedDict):
    """`burst why --json`: an array of what waits."""

    id: str
    state: str
    reason: ReasonJson | None
    until: float | None
    checkpoint_age_s: float | None
    checkpoint_late: bool
    alarm: str | None
    pools: list[WhyPoolJson]


class WhyPoolJson(TypedDict):
    pool: str
    reason: str
    slots: int
    used: int


class CheckJson(TypedDict):
    """`burst doctor --json`: an array of what was checked."""

    name: str
    ok: bool
    warning: bool
    """This machine, or the cluster, can train, but something else may not go on."""
    found: str
    mend: str | None
    code: str | None
    """AWS's own, where it refused something."""
