"""Submitting an experiment: check it, carry the code over, write the record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.source import check_start, started
from burst.core.clock import Clock, SystemClock
from burst.core.code.archive import pack_code, upload_code
from burst.core.code.entrypoint import check_entrypoint
from burst.core.config.cluster import AwsPool
from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import BurstError, Conflict, Refused, Unreachable
from burst.core.ids import new_id
from burst.core.model import Code, Event, Experiment
from burst.core.store.port import Append, Put, Store
from burst.core.workspace import Workspace
from burst.runner.admission import admit
from burst.runner.agent.preparing.storage import tiers_for
from burst.runner.commands.meeting import Alike, Keyed, Meeting, likeness
from burst.runner.pools.choice import pools_for
from burst.runner.pools.open import limits_of, open_pools
from burst.runner.search.book import Book

_CLOCK = SystemClock()
_ATTEMPTS = 8


class Loaded(Protocol):
    """An experiment file after reading (`burst.core.config.load.LoadedExperiment`)."""

    @property
    def config(self) -> ExperimentConfig: ...

    @property
    def source(self) -> str: ...

    @property
    def seed_drawn(self) -> bool: ...


@dataclass(frozen=True)
class Submission:
    experiment: Experiment
    attached: bool
    """Whether an equal experiment was live already, or one counts under the key, and nothing new
    was started."""
    same: bool = True
    """Whether it has the settings, code and owner of what was submitted now."""


def check_experiment(ws: Workspace, config: ExperimentConfig, code_folder: Path) -> None:
    """Whether this cluster could ever run the experiment with this code; writes nothing.

    Raises:
        ConfigError, Refused: as `burst.runner.admission.admit`.
        ConfigError: as `burst.core.code.entrypoint.check_entrypoint`.
        NotFound, Refused: as `burst.core.checkpoints.exchange.source.check_start`.
    """
    check_entrypoint(config.entrypoint, code_folder)
    if config.start is not None:
        check_start(ws.store, config.start)
    admit(config, ws.cluster, limits_of(pools_for(config, ws.cluster), open_pools(ws)))
    _check_reach(ws, config)


def submit(
    ws: Workspace,
    loaded: Loaded,
    code_folder: Path,
    *,
    owner: str,
    new: bool = False,
    key: str = "",
    clock: Clock = _CLOCK,
) -> Submission:
    """Write the experiment; whoever reconciles next begins it.

    The same settings, code and owner again, while such an experiment is live, give that one
    instead of a second (unless `new`), so a command that was interrupted may be repeated. Under a
    `key` that alone decides: one experiment that is live or completed, whatever is submitted.

    Raises:
        ConfigError: the settings contradict each other, or a file of the code cannot be read.
        NotFound: there is no such checkpoint as it would start from.
        Refused: this cluster could never run it, the code is too large, or the checkpoint that it
            would start from is damaged.
        Unreachable: the store or the blobs did not answer; nothing was started.
    """
    config = loaded.config
    check_experiment(ws, config, code_folder)
    _check_storage(ws, config)
    packed = pack_code(code_folder)
    experiment = _experiment(_resolved(ws.store, config), loaded.source, packed.code, owner, clock)
    meeting: Meeting = Keyed(key, new) if key else Alike(experiment, loaded.seed_drawn, new)
    for _ in range(_ATTEMPTS):
        found = meeting.look(ws.store)
        if found is not None:
            same = likeness(found, loaded.seed_drawn) == likeness(experiment, loaded.seed_drawn)
            return Submission(found, attached=True, same=same)
        upload_code(ws.blobs, packed)
        event = Event(
            subject=experiment.id,
            experiment=experiment.id,
            name="experiment.active",
            text=f"submitted by {owner}",
            at=experiment.created,
        )
        try:
            ws.store.commit(
                meeting.claim(experiment),
                Put(experiment),
                *_start(ws.store, experiment),
                Append(event),
            )
        except Conflict:
            experiment = experiment.model_copy(update={"id": new_id("exp", clock)})
            continue
        return Submission(experiment.model_copy(update={"version": 1}), attached=False)
    raise Conflict("others submit the same experiment again and again", mend="try it once more")


def _check_reach(ws: Workspace, config: ExperimentConfig) -> None:
    """Machines in the cloud see neither a file nor a folder of this one."""
    urls = (ws.store.url, ws.blobs.url)
    here = [url for url in urls if url.startswith(("sqlite:", "memory:", "file:"))]
    for name in pools_for(config, ws.cluster):
        if here and isinstance(ws.cluster.pools.get(name), AwsPool):
            raise Refused(
                f"machines of pool {name!r} could not reach the cluster's state",
                why=f"it is kept on this machine: {' and '.join(here)}",
                mend="name a table and a bucket in burst.yaml: `store: dynamodb://TABLE"
                "?region=REGION` and `blobs: s3://BUCKET`",
            )


def _check_storage(ws: Workspace, config: ExperimentConfig) -> None:
    """Reach the experiment's own checkpoint storage, where it is this machine that will write it;
    better now than at the first checkpoint."""
    pools = [ws.cluster.pools[name] for name in pools_for(config, ws.cluster)]
    if not config.checkpoints.tiers or not any(p.kind == "local" for p in pools):
        return
    key = f"{new_id('ckpt', _CLOCK)}.probe"
    for tier in tiers_for(config.checkpoints, ws):
        try:
            blobs = open_blobs(tier.url)
            blobs.put(key, b"burst")
            blobs.delete(key)
        except BurstError as error:
            raise Unreachable(
                "the experiment's checkpoint storage cannot be written",
                why=f"{error.what}: {error.why}" if error.why else error.what,
                mend=error.mend or "correct checkpoints.storage, or remove it",
            ) from error


def _resolved(store: Store, config: ExperimentConfig) -> ExperimentConfig:
    """The settings with the very checkpoint that trials start from, so that all of them start at
    the same, whatever a trial that was named writes later."""
    if config.start is None:
        return config
    source = check_start(store, config.start)
    none = {"source_checkpoint_uuid": None, "source_trial_id": None}
    return config.model_copy(
        update={
            "warm_start": config.start.model_copy(update={"checkpoint": source.id}),
            "searcher": config.searcher.model_copy(update=none),
        }
    )


def _start(store: Store, experiment: Experiment) -> list[Put]:
    """What keeps the checkpoint that an experiment starts from."""
    start = ExperimentConfig.model_validate(experiment.config).start
    if start is None:
        return []
    return [Put(started(store, check_start(store, start), experiment.id))]


def _experiment(
    config: ExperimentConfig, source: str, code: Code, owner: str, clock: Clock
) -> Experiment:
    now = clock.now()
    return Experiment(
        id=new_id("exp", clock),
        state_since=now,
        name=config.name,
        owner=owner,
        created=now,
        config=config.model_dump(mode="json"),
        source=source,
        code=code,
        labels=config.labels,
        search=Book.opened().written(),
    )
