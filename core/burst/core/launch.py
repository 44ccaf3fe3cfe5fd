"""The process boundary between the agent and what runs inside a trial.

An agent prepares one folder per allocation and starts the ranks with `BURST_LAUNCH` naming its
`spec.json`:

    <folder>/
        spec.json         LaunchSpec, written before the ranks start
        stop              one page of memory shared with every rank: StopFlag
        code/             the user's code, the working directory of the ranks
        logs/rank<N>.log  what rank N writes to stdout and stderr; launcher.log for the launcher
        failures/rank<N>.json   a rank's Failure, written before it exits with an error
        connected         empty; left by ranks that use burst's API (`mark_connected`)
        outcome.json      Outcome, written by the node's first rank before it exits

Of a gang over several nodes each agent does so, and its folder holds the files of its own ranks.
The agent decides from exit codes and these files how the attempt ended; the ranks write metrics,
checkpoints and progress to the store themselves, under the allocation's token.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from burst.core.length import Length
from burst.core.model import ExitKind, Failure, Json

LAUNCH_VARIABLE = "BURST_LAUNCH"
"""Environment variable with the path of `spec.json`; absent outside burst."""
ALLOCATION_VARIABLE = "BURST_ALLOCATION"
"""Environment variable with the allocation's id, inherited by every process of an attempt, so
that the last of them can be found and ended whatever became of its parents."""
COMMAND_VARIABLE = "BURST_COMMAND"
"""Environment variable with the number of the process that became a trial's command, so that a
process knows whether a shell or a launcher waits for it."""

EXIT_INVALID_HP = 64
"""A rank's exit status when the trial refused its hyperparameters."""
EXIT_FENCED = 65
"""A rank's exit status when a newer allocation owns the trial."""
APART = "GangApart"
"""The kind of a failure that lies between the nodes of a gang, whichever of them tells of it."""


_CLASS = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")


def names_class(entrypoint: object) -> bool:
    """Whether an entrypoint names a trial class (`module:Class`) rather than a command."""
    return isinstance(entrypoint, str) and _CLASS.match(entrypoint) is not None


class Tier(BaseModel):
    """A place for checkpoints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    """The blobs."""
    shared: bool = True
    """Whether it outlives the node and is seen from others; else it is this node's own disk."""
    every: Length | None = None
    """How much training lies between two checkpoints that are copied there; None copies every
    one. The last one of an attempt, and one that was validated, always go to those shared."""
    keep: int | None = None
    """How many of a trial's newest checkpoints it holds at most; None leaves it to retention."""


class LaunchSpec(BaseModel):
    """Everything a rank has to know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: str
    store_url: str
    blobs_url: str
    checkpoints_url: str
    """The blobs for checkpoints: `blobs_url`, unless the experiment names its own storage. Of
    several tiers, the slowest one that is shared."""
    tiers: tuple[Tier, ...] = ()
    """The places for checkpoints, fastest first; empty is `checkpoints_url` alone."""
    experiment: str
    trial: str
    allocation: str
    node: str
    attempt: int
    token: int
    hparams: Mapping[str, Json]
    seed: int
    config: Mapping[str, Json]
    """The normalised experiment file."""
    latest_checkpoint: str = ""
    """Where to start from if the trial has no checkpoint of its own (warm start); else empty."""
    nodes: int = 1
    node_rank: int = 0
    """This node's place in the order of the ranks."""
    rendezvous: str = ""
    """Where the launchers of several nodes meet: `address:port` on the node of rank 0."""
    ranks_per_node: int = 1
    """Processes on this node, one a slot."""
    devices: tuple[str, ...] = ("cpu",)
    """One a local rank: `cpu` or `cuda:<index>` as seen by the rank."""
    threads: int = 1
    """CPU threads for each rank's tensor work. Part of what makes a run exact."""
    seconds_between_losses: float = 4 * 3600.0
    """How long the gang is expected to run until something ends it without warning."""
    early_checkpoint: bool = False
    """Whether to checkpoint soon after the start whatever the period says, so that it can be
    proved to restore before the trial depends on it."""

    @property
    def path(self) -> Path:
        return Path(self.folder)

    def log_path(self, rank: int) -> Path:
        return self.path / "logs" / f"rank{rank}.log"

    def write(self) -> Path:
        """Write `spec.json`; returns its path, the value of `BURST_LAUNCH`."""
        for part in ("logs", "failures", "code"):
            (self.path / part).mkdir(parents=True, exist_ok=True)
        return _write_json(self.path / "spec.json", self.model_dump_json())


def read_launch(environ: Mapping[str, str] | None = None) -> LaunchSpec | None:
    """The launch this process belongs to, or None outside burst."""
    path = (os.environ if environ is None else environ).get(LAUNCH_VARIABLE)
    return LaunchSpec.model_validate_json(Path(path).read_bytes()) if path else None


class Outcome(BaseModel):
    """What a node's first rank says of how training ended, if it came so far."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # an agent may be older than ranks

    kind: ExitKind
    batches: int = 0
    durable: bool = True
    """Whether everything trained so far is in a durable checkpoint."""
    text: str = ""
    """Why, where it ended itself early."""
    code: str = ""
    """The same as one word: `early_stopping`."""
    status_to_come: bool = False
    """Whether the program said it while it was leaving and its exit status was its own to choose:
    one that is not 0 then still means that it failed."""

    part: bool = False
    """Whether it was said by a program that the command had started, such as one of several in a
    shell script: how the command itself ends then decides, unless it was asked to leave."""

    def write(self, folder: Path) -> None:
        _write_json(folder / "outcome.json", self.model_dump_json())

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        path = folder / "outcome.json"
        return cls.model_validate_json(path.read_bytes()) if path.exists() else None


def mark_connected(folder: Path) -> None:
    """Leave a mark that the ranks speak burst: they say themselves how they ended, and one that
    ends without a word while it was asked to leave has not finished."""
    (folder / "connected").touch()


def is_connected(folder: Path) -> bool:
    return (folder / "connected").exists()


def write_failure(folder: Path, rank: int, failure: Failure, at: float) -> None:
    """Leave a rank's error for the agent, which shows the one that the others came of."""
    payload = {"at": at, "failure": json.loads(failure.model_dump_json())}
    (folder / "failures").mkdir(exist_ok=True)
    _write_json(folder / "failures" / f"rank{rank}.json", json.dumps(payload))


def failures_left(folder: Path) -> dict[int, tuple[float, Failure]]:
    """What ranks of this gang left of their errors, each with its date, by rank."""
    found = {}
    for path in (folder / "failures").glob("rank*.json"):
        payload = json.loads(path.read_bytes())
        rank = int(path.stem.removeprefix("rank"))
        found[rank] = (float(payload["at"]), Failure.model_validate(payload["failure"]))
    return found


class Stop(IntEnum):
    """What the agent asks of the ranks."""

    RUN = 0
    DRAIN = 1
    """Finish the batch, checkpoint, make it durable, leave with status 0."""


class StopFlag:
    """A word of memory shared between the agent, which sets it, and the ranks, which look.

    Looking costs well under a microsecond, so it is done at every batch. The deadline is in
    seconds since the Unix epoch, 0 for none.
    """

    _LAYOUT = struct.Struct("<qd")

    def __init__(self, path: Path) -> None:
        """Opens the flag at `path`, creating it unset."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, self._LAYOUT.size)
            self._memory = mmap.mmap(descriptor, self._LAYOUT.size)
        finally:
            os.close(descriptor)

    def set(self, stop: Stop, deadline: float = 0.0) -> None:
        self._LAYOUT.pack_into(self._memory, 0, 0, deadline)
        self._memory[0] = int(stop)

    def get(self) -> Stop:
        return Stop(self._memory[0])

    @property
    def is_set(self) -> bool:
        return self._memory[0] != 0

    @property
    def deadline(self) -> float:
        deadline: float = self._LAYOUT.unpack_from(self._memory, 0)[1]
        return deadline

    def close(self) -> None:
        self._memory.close()


def _write_json(path: Path, text: str) -> Path:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    os.replace(partial, path)
    return path
