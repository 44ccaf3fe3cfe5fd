"""Submitting an experiment: check it, carry the code over, write the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from burst.core.archive import pack_code, upload_code
from burst.core.clock import Clock, SystemClock
from burst.core.config.experiment import ExperimentConfig
from burst.core.ids import new_id
from burst.core.model import Event, Experiment, Json
from burst.core.states import ExperimentState
from burst.core.store.port import Append, Put
from burst.core.workspace import Workspace
from burst.runner.admission import admit
from burst.runner.pools.open import limits_of, open_pools
from burst.runner.search.book import Book

_CLOCK = SystemClock()


class Loaded(Protocol):
    """An experiment file after reading (`burst.core.config.load.LoadedExperiment`)."""

    @property
    def config(self) -> ExperimentConfig: ...

    @property
    def source(self) -> str: ...


@dataclass(frozen=True)
class Submission:
    experiment: Experiment
    attached: bool
    """Whether an equal experiment was live already, and nothing new was started."""


def check_experiment(ws: Workspace, config: ExperimentConfig) -> None:
    """Whether this cluster could ever run the experiment; writes nothing.

    Raises:
        ConfigError, Refused: as `burst.runner.admission.admit`.
    """
    admit(config, ws.cluster, limits_of(ws.cluster, open_pools(ws)))


def submit(
    ws: Workspace,
    loaded: Loaded,
    code_folder: Path,
    *,
    owner: str,
    new: bool = False,
    clock: Clock = _CLOCK,
) -> Submission:
    """Write the experiment; whoever reconciles next begins it.

    The same settings, code and owner again, while such an experiment is live, give that one
    instead of a second (unless `new`), so a command that was interrupted may be repeated.

    Raises:
        ConfigError: the settings contradict each other, or a file of the code cannot be read.
        Refused: this cluster could never run it, or the code is too large.
        Unreachable: the store or the blobs did not answer; nothing was started.
    """
    config = loaded.config
    check_experiment(ws, config)
    packed = pack_code(code_folder)
    settings = config.model_dump(mode="json")
    if not new:
        for found in ws.store.live(Experiment):
            same = (found.owner, found.code.digest) == (owner, packed.digest)
            if same and _alike(found, settings, loaded.source):
                return Submission(found, attached=True)
    upload_code(ws.blobs, packed)
    now = clock.now()
    experiment = Experiment(
        id=new_id("exp", clock),
        state_since=now,
        name=config.name,
        owner=owner,
        created=now,
        config=settings,
        source=loaded.source,
        code=packed.code,
        labels=config.labels,
        search=Book.opened().written(),
    )
    event = Event(
        subject=experiment.id,
        experiment=experiment.id,
        name="experiment.active",
        text=f"submitted by {owner}",
        at=now,
    )
    ws.store.commit(Put(experiment), Append(event))
    return Submission(experiment.model_copy(update={"version": 1}), attached=False)


def _alike(found: Experiment, settings: Mapping[str, Json], source: str) -> bool:
    """Whether `found` trains the same. A seed that nobody wrote was drawn at each reading."""
    if found.state is ExperimentState.STOPPING or found.source != source:
        return False
    if "experiment_seed" in source:
        return found.config == settings
    return _without_seed(found.config) == _without_seed(settings)


def _without_seed(settings: Mapping[str, Json]) -> dict[str, Json]:
    reproducibility = {**settings["reproducibility"], "experiment_seed": None}
    return {**settings, "reproducibility": reproducibility}
