"""Everything between taking an allocation and starting its ranks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burst.core.checkpoints.tiers.own_disk import note_local_folders
from burst.core.config.experiment import ExperimentConfig
from burst.core.launch import LaunchSpec
from burst.core.model import Allocation, Experiment, Slot, Trial
from burst.runner.agent.ends.classify import status_text
from burst.runner.agent.ends.gang import is_gang, nodes_of
from burst.runner.agent.ends.tails import LAUNCHER_LOG, last_lines_of
from burst.runner.agent.hardware.machine import cpu_count
from burst.runner.agent.preparing import codes
from burst.runner.agent.preparing.storage import checkpoints_url, tiers_for
from burst.runner.agent.preparing.tier_folders import clear_tiers
from burst.runner.agent.preparing.venvs import ensure_venv, recipe_for
from burst.runner.agent.running.containers import PYTHON, Container, container_for, prepare_image
from burst.runner.agent.running.control import Control, Start
from burst.runner.agent.running.environment import (
    CannotPrepare,
    check_versions,
    devices_for,
    marks,
    rank_environment,
    resolve_secrets,
    threads_for,
)
from burst.runner.agent.site import Site
from burst.runner.losses import seconds_between_losses
from burst.runner.proof import losing_pools, needs_proof

_PAUSE_S = 0.2


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
        try:
            config = ExperimentConfig.model_validate(experiment.config)
        except ValueError as error:
            raise CannotPrepare(
                f"the file of {experiment.id} cannot be read by this version of burst",
                why=str(error),
                mend="run the same version of burst on the node and where you submit",
            ) from error
        return cls(allocation, trial, experiment, config, slots)


def own_slots(site: Site, allocation: Allocation) -> tuple[Slot, ...]:
    """The slots of this node that the allocation holds, in the order of its share."""
    share = next(share for share in allocation.shares if share.node == site.node.id)
    if any(len(other.slots) != len(share.slots) for other in allocation.shares):
        raise CannotPrepare(
            f"{allocation.id} has not the same number of slots on each of its nodes",
            why="every node of a gang runs as many ranks as the others",
        )
    own = {slot.index: slot for slot in site.node.slots}
    missing = [index for index in share.slots if index not in own]
    if missing:
        raise CannotPrepare(
            f"{allocation.id} was given slot {missing[0]}, which node {site.node.id} has not",
            why=f"the node has the slots {sorted(own)}",
        )
    return tuple(own[index] for index in share.slots)


class Preparation:
    """What one attempt needs before its ranks can start; also runs the commands of that."""

    def __init__(self, site: Site, work: Work, folder: Path, control: Control) -> None:
        """Resolves the secrets.

        Raises:
            CannotPrepare: one cannot be resolved.
        """
        environment = work.config.environment
        self.secrets = resolve_secrets(environment.secrets, site.environ)
        self._site = site
        self._work = work
        self._folder = folder
        self._control = control
        self.spec = spec_for(site, work, folder)
        self._log = folder / "logs" / LAUNCHER_LOG
        self._environ = {
            **rank_environment(
                site.environ,
                environment,
                self.secrets,
                slots=work.slots,
                threads=threads_of(site, work),
            ),
            **marks(work.allocation.id, str(folder / "spec.json")),
        }

    def prepare(self) -> Start:
        """Unpack the code, write `spec.json`, build the environment, run the set-up commands.

        Raises:
            Leaving: the attempt was asked to leave meanwhile.
            CannotPrepare: for a cause that the experiment's owner has to mend.
            OSError, BurstError: for a cause of the node's or the world's.
        """
        site, work, code = self._site, self._work, self._folder / "code"
        environment = work.config.environment
        check_versions(environment, site.node.facts)
        note_local_folders(site.ws.home, self.spec.tiers)
        clear_tiers(site.ws, site.clock)
        self.spec.write()
        codes.unpack(work.experiment.code, site.ws.blobs, site.cache / "code", code)
        container = container_for(site, work.config, work.slots, self.spec)
        if container is not None:
            prepare_image(container, code, self)
        for command in environment.setup:
            self.run(("/bin/sh", "-c", command), code, container)
        python = sys.executable if container is None else PYTHON
        if environment.python is not None and container is None:
            recipe = recipe_for(environment.python, code)
            python = str(ensure_venv(recipe, site.cache / "venvs", code, self))
        return Start((python, *site.settings.launcher), self._environ, code, container)

    def run(
        self, command: Sequence[str], folder: Path, container: Container | None = None
    ) -> None:
        """One command of the preparation; the log has what it says.

        Raises:
            Leaving: the attempt was asked to leave meanwhile.
            CannotPrepare: it failed; its last lines are the reason.
        """
        text = command[2] if command[:2] == ("/bin/sh", "-c") else " ".join(command)
        with self._log.open("a") as file:
            file.write(f"$ {text}\n")
            begun = file.tell()
        status = self._control.run(Start(tuple(command), self._environ, folder, container))
        if status != 0:
            raise CannotPrepare(
                f"`{text}` {status_text(status)}",
                why=last_lines_of(self._log, begun) or "it wrote nothing",
                mend="correct environment in the experiment file",
            )

    def pause(self) -> None:
        """Let a moment pass, while another process prepares the same.

        Raises:
            Leaving: the attempt was asked to leave.
        """
        self._control.check()
        self._site.clock.sleep(_PAUSE_S)


def threads_of(site: Site, work: Work) -> int:
    return threads_for(work.config.environment, cpus=cpu_count(), node_slots=len(site.node.slots))


def spec_for(site: Site, work: Work, folder: Path) -> LaunchSpec:
    allocation, trial, ws = work.allocation, work.trial, site.ws
    devices = devices_for(work.slots)
    tiers = tiers_for(work.config.checkpoints, ws)
    if is_gang(allocation):
        # every rank writes what it owns, and has to find what the others wrote
        tiers = tuple(tier for tier in tiers if tier.shared)
    if not any(tier.shared for tier in tiers):
        raise CannotPrepare(
            "every place for checkpoints is a node's own disk",
            why="what is saved there is lost with the node, and not seen from a gang's others",
            mend="add one of type `shared_fs`, `directory` or `s3` to checkpoints.storage",
        )
    return LaunchSpec(
        folder=str(folder),
        store_url=ws.store.url,
        blobs_url=ws.blobs.url,
        checkpoints_url=checkpoints_url(tiers),
        tiers=tiers,
        experiment=allocation.experiment,
        trial=allocation.trial,
        allocation=allocation.id,
        node=site.node.id,
        attempt=allocation.attempt,
        token=allocation.token,
        hparams=trial.hparams,
        seed=trial.seed,
        config=work.experiment.config,
        latest_checkpoint=start.checkpoint if (start := work.config.start) else "",
        nodes=len(allocation.shares),
        node_rank=nodes_of(allocation).index(site.node.id),
        ranks_per_node=len(devices),
        devices=devices,
        threads=threads_of(site, work),
        seconds_between_losses=seconds_between_losses(
            ws.store, ws.cluster, allocation, site.clock.now()
        ),
        early_checkpoint=needs_proof(trial, losing_pools(ws.cluster.pools)),
    )
