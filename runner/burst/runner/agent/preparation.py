"""Everything between taking an allocation and starting its ranks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burst.core.config.experiment import CheckpointStorage, ExperimentConfig
from burst.core.launch import LaunchSpec
from burst.core.model import Allocation, Experiment, Slot, Trial
from burst.core.workspace import Workspace
from burst.runner.agent import codes
from burst.runner.agent.environment import (
    CannotPrepare,
    check_versions,
    devices_for,
    marks,
    rank_environment,
    resolve_secrets,
    threads_for,
)
from burst.runner.agent.machine import cpu_count
from burst.runner.agent.site import Site
from burst.runner.agent.venvs import Run, ensure_venv, recipe_for


@dataclass(frozen=True)
class Work:
    """An allocation with the records that it belongs to."""

    allocation: Allocation
    trial: Trial
    experiment: Experiment
    config: ExperimentConfig
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, site: Site, allocation: Allocation) -> Work:
        """Reads the records.

        Raises:
            CannotPrepare: the allocation's slots are not this node's alone.
            NotFound, Unreachable: a record is missing, or the store did not answer.
        """
        slots = own_slots(site, allocation)
        trial = site.ws.store.get(Trial, allocation.trial)
        experiment = site.ws.store.get(Experiment, allocation.experiment)
        config = ExperimentConfig.model_validate(experiment.config)
        return cls(allocation, trial, experiment, config, slots)


def own_slots(site: Site, allocation: Allocation) -> tuple[Slot, ...]:
    """The slots of this node that the allocation holds, in the order of its share."""
    if len(allocation.shares) > 1:
        raise CannotPrepare(
            f"{allocation.id} spans {len(allocation.shares)} nodes",
            why="this version of burst runs a trial on one node",
            mend="set slots_per_trial to what one node has",
        )
    (share,) = allocation.shares
    own = {slot.index: slot for slot in site.node.slots}
    missing = [index for index in share.slots if index not in own]
    if missing:
        raise CannotPrepare(
            f"{allocation.id} was given slot {missing[0]}, which node {site.node.id} has not",
            why=f"the node has the slots {sorted(own)}",
        )
    return tuple(own[index] for index in share.slots)


@dataclass(frozen=True)
class Start:
    """What to start: all that a process needs but its log."""

    command: tuple[str, ...]
    environ: dict[str, str]
    folder: Path


def prepare(site: Site, work: Work, folder: Path, secrets: dict[str, str], run: Run) -> Start:
    """Unpack the code, build the environment, run the set-up, write `spec.json`.

    `run` runs one command with its output in the attempt's log.

    Raises:
        CannotPrepare: for a cause that the experiment's owner has to mend.
        OSError, BurstError: for a cause of the node's or the world's.
    """
    environment = work.config.environment
    check_versions(environment, site.node.facts)
    spec = spec_for(site, work, folder)
    path = spec.write()
    code = folder / "code"
    codes.unpack(work.experiment.code, site.ws.blobs, site.cache / "code", code)
    for command in environment.setup:
        run(("/bin/sh", "-c", command), code)
    python = sys.executable
    if environment.python is not None:
        recipe = recipe_for(environment.python, code)
        python = str(ensure_venv(recipe, site.cache / "venvs", code, run))
    environ = environment_of(site, work, secrets)
    environ.update(marks(work.allocation.id, str(path)))
    return Start((python, *site.settings.launcher), environ, code)


def environment_of(site: Site, work: Work, secrets: dict[str, str]) -> dict[str, str]:
    """What set-up commands and ranks find, but for the marks of the allocation."""
    threads = _threads(site, work)
    return rank_environment(
        site.environ, work.config.environment, secrets, slots=work.slots, threads=threads
    )


def secrets_of(site: Site, work: Work) -> dict[str, str]:
    return resolve_secrets(work.config.environment.secrets, site.environ)


def _threads(site: Site, work: Work) -> int:
    return threads_for(work.config.environment, cpus=cpu_count(), node_slots=len(site.node.slots))


def spec_for(site: Site, work: Work, folder: Path) -> LaunchSpec:
    allocation, trial, ws = work.allocation, work.trial, site.ws
    devices = devices_for(work.slots)
    return LaunchSpec(
        folder=str(folder),
        store_url=ws.store.url,
        blobs_url=ws.blobs.url,
        checkpoints_url=checkpoints_url(work.config.checkpoints.storage, ws),
        experiment=allocation.experiment,
        trial=allocation.trial,
        allocation=allocation.id,
        node=site.node.id,
        attempt=allocation.attempt,
        token=allocation.token,
        hparams=trial.hparams,
        seed=trial.seed,
        config=work.experiment.config,
        latest_checkpoint=work.config.searcher.source_checkpoint_uuid or "",
        ranks_per_node=len(devices),
        devices=devices,
        threads=_threads(site, work),
    )


def checkpoints_url(storage: CheckpointStorage | None, ws: Workspace) -> str:
    """The blobs for checkpoints: the experiment's own storage, else the workspace's blobs."""
    if storage is None:
        return ws.blobs.url
    if storage.type == "s3":
        place = "/".join(part.strip("/") for part in (storage.bucket, storage.prefix) if part)
        query = f"?endpoint_url={storage.endpoint_url}" if storage.endpoint_url else ""
        return f"s3://{place}{query}"
    return f"file://{ws.home / storage.path}"


def command_text(command: Sequence[str]) -> str:
    """A command as a person would have typed it."""
    return command[2] if command[:2] == ("/bin/sh", "-c") else " ".join(command)
