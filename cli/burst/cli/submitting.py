"""From a file to an experiment: read, pack, look whether it is live already, submit."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burst.cli.loading import load
from burst.cli.planning import Plan, plan_of
from burst.cli.session import Session
from burst.core.code.archive import PackedCode, pack_code
from burst.core.config.load import LoadedExperiment
from burst.core.model import Experiment, Json
from burst.core.states import ExperimentState
from burst.runner.commands import check_experiment


@dataclass(frozen=True)
class Prepared:
    """Everything about an experiment that can be known before it is submitted."""

    loaded: LoadedExperiment
    packed: PackedCode
    plan: Plan
    folder: Path
    owner: str
    chosen_seed: bool
    """Whether the file or the command line names the seed; otherwise each reading draws one."""


def prepare(
    session: Session,
    file: Path,
    code: Path | None,
    overrides: Sequence[str],
    pools: Sequence[str],
) -> Prepared:
    """Read, check and pack; nothing is written.

    Raises:
        ConfigError: the file is wrong.
        NotFound: there is no such code folder.
        Refused: the code is too large, or no pool could ever run it.
    """
    named = [f"resources.pools=[{', '.join(pools)}]"] if pools else []
    settings = [*overrides, *named]
    loaded = load(session, file, settings)
    folder = code or file.parent
    check_experiment(session.workspace, loaded.config, folder)
    packed = pack_code(folder)
    plan = plan_of(loaded.config, session.workspace.cluster, packed.code, str(folder))
    chosen = "experiment_seed" in loaded.source or any("experiment_seed" in s for s in settings)
    return Prepared(loaded, packed, plan, folder, getpass.getuser(), chosen)


def find_same(session: Session, prepared: Prepared) -> Experiment | None:
    """The newest live experiment with the same settings, code and owner, if there is one."""
    mine = _comparable(prepared.loaded.config.model_dump(mode="json"), prepared.chosen_seed)
    for live in reversed(session.store.live(Experiment)):
        if (live.owner, live.code.digest) != (prepared.owner, prepared.packed.digest):
            continue
        if live.state is ExperimentState.STOPPING:
            continue
        if _comparable(live.config, prepared.chosen_seed) == mine:
            return live
    return None


def _comparable(config: Mapping[str, Json], with_seed: bool) -> dict[str, Json]:
    """The settings that make two experiments the same one."""
    kept = dict(config)
    if not with_seed:
        kept["reproducibility"] = {
            name: value
            for name, value in config.get("reproducibility", {}).items()
            if name != "experiment_seed"
        }
    return kept


def submit(session: Session, prepared: Prepared) -> Experiment:
    """Upload the code and write the experiment, whether or not the same one is live.

    Raises:
        Refused: it could never run; nothing was written.
        Unreachable: the store or the blobs did not answer; nothing was started.
    """
    from burst.runner.commands import submit

    submission = submit(
        session.workspace,
        prepared.loaded,
        prepared.folder,
        owner=prepared.owner,
        new=True,
        clock=session.clock,
    )
    return submission.experiment
