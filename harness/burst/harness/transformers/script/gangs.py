"""Refuses a script that started a gang of processes of its own on every slot of its trial.

burst takes a launcher off `entrypoint` where it can see one. Inside a shell script it cannot: then
each of the trial's processes starts as many again, and each of those gangs would train the whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType

from burst.core.launch import LaunchSpec, read_launch
from burst.harness.errors import TrialError
from burst.harness.transformers.script.refusing import refuse


def patch(module: ModuleType) -> None:
    """Change nothing of `transformers.trainer`; end the process if it is in such a gang."""
    spec = read_launch()
    if spec is not None and in_gang_of_its_own(spec, os.environ):
        refuse(_error(spec))


def in_gang_of_its_own(spec: LaunchSpec, environ: Mapping[str, str]) -> bool:
    """Whether this process has another gang than the one that its launch made. A trial of one
    process has made none, and may."""
    ranks = spec.nodes * spec.ranks_per_node
    if ranks == 1:
        return False
    # torch's launcher, which accelerate's is too, gives its gang a name.
    named = environ.get("TORCHELASTIC_RUN_ID", spec.allocation)
    return named != spec.allocation or environ.get("WORLD_SIZE", str(ranks)) != str(ranks)


def _error(spec: LaunchSpec) -> TrialError:
    ranks = spec.nodes * spec.ranks_per_node
    return TrialError(
        f"a launcher inside the command runs once in each of the trial's {ranks} processes",
        why="burst starts one process a slot itself, and every one of them starts a gang again",
        mend="have the command start the script with `python`, or write the launcher into "
        "`entrypoint`, where burst takes it off; or set `resources.slots_per_trial: 1`",
    )
