"""From a file to an experiment: read, pack, look whether it is live already, submit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burst.cli.loading import load
from burst.cli.planning import Plan, plan_of
from burst.cli.session import Session
from burst.core.archive import PackedCode, pack_code
from burst.core.config.load import LoadedExperiment
from burst.core.model import Experiment, Json


@dataclass(frozen=True)
class Prepared:
    """Everything about an experiment that can be known before it is submitted."""

    loaded: LoadedExperiment
    packed: PackedCode
    plan: Plan
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
        NotFound, Refused: the code folder is not there, or too large.
    """
    named = [f"resources.pools=[{', '.join(pools)}]"] if pools else []
    settings = [*overrides, *named]
    loaded = load(session, file, settings)
    folder = code or file.parent
    packed = pack_code(folder)
    plan = plan_of(loaded.config, session.workspace.cluster, packed.code, str(folder))
    chosen = "experiment_seed" in loaded.source or any("experiment_seed" in s for s in settings)
    return Prepared(loaded, packed, plan, chosen)


def find_same(session: Session, prepared: Prepared) -> Experiment | None:
    """The live experiment with the same settings and code, if there is one; the newest."""
    mine = _comparable(prepared.loaded.config.model_dump(mode="json"), prepared.chosen_seed)
    for live in reversed(session.store.live(Experiment)):
        same_code = live.code.digest == prepared.packed.digest
        if same_code and _comparable(live.config, prepared.chosen_seed) == mine:
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
