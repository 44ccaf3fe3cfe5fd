"""From a file to an experiment: read, pack, submit."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from burst.cli.loading import load
from burst.cli.planning import Plan, plan_of
from burst.cli.session import Session
from burst.core.code.archive import PackedCode, pack_code
from burst.core.config.load import LoadedExperiment
from burst.core.errors import Refused
from burst.core.model import Experiment
from burst.core.states import ExperimentState
from burst.runner.commands import Submission, check_experiment


@dataclass(frozen=True)
class Prepared:
    """Everything about an experiment that can be known before it is submitted."""

    loaded: LoadedExperiment
    packed: PackedCode
    plan: Plan
    folder: Path
    owner: str


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
    return Prepared(loaded, packed, plan, folder, getpass.getuser())


def submit(
    session: Session, prepared: Prepared, *, new: bool = False, key: str = ""
) -> Submission:
    """Upload the code and write the experiment, unless the same one is live, or one counts under
    `key`, and not `new`.

    Raises:
        Refused: it could never run; nothing was written.
        Unreachable: the store or the blobs did not answer; nothing was started.
    """
    from burst.runner.commands import submit

    return submit(
        session.workspace,
        prepared.loaded,
        prepared.folder,
        owner=prepared.owner,
        new=new,
        key=key,
        clock=session.clock,
    )


def go_on(session: Session, submission: Submission) -> Experiment:
    """What was submitted; of one that is paused, after it was resumed."""
    from burst.runner.commands import resume

    experiment = submission.experiment
    if not submission.attached or experiment.state is not ExperimentState.PAUSED:
        return experiment
    with suppress(Refused):  # it was ended meanwhile, and is reported as it is
        resume(session.workspace, experiment.id, clock=session.clock)
    return session.store.get(Experiment, experiment.id)
