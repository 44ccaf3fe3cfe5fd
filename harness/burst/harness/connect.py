"""Connects a rank to its gang, the store and checkpoints: those that its launch names, or, for a
script on its own, a folder of its own that works the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from burst.core.checkpoints.moved import settle_in
from burst.core.clock import Clock, SystemClock
from burst.core.errors import UsageError
from burst.core.ids import new_id, trial_id
from burst.core.launch import LaunchSpec, StopFlag, Tier, mark_connected
from burst.core.model import Allocation, Code, Experiment, Trial
from burst.core.state_mark import STATE_MARK
from burst.core.store import Store, open_store, update
from burst.core.store.port import Fence, Put, Write
from burst.harness.agreement import Alone, Together
from burst.harness.checkpoints.port import CheckpointEngine
from burst.harness.chunks import Origin
from burst.harness.distributed import DistributedContext, Place, join_gang
from burst.harness.progress import Progress, StoreSink
from burst.harness.reporting import Reporter
from burst.harness.session import Session


@dataclass(frozen=True)
class Link:
    """Where a trial's state is kept, and the right to write it."""

    store_url: str
    checkpoints_url: str
    experiment: str
    trial: str
    attempt: int
    token: int
    allocation: str = ""
    warm_start: str = ""
    """The checkpoint to start from if the trial has none of its own."""
    weights_only: bool = False
    """Whether the trial wants no more of that one than the models."""
    node: str = ""
    tiers: tuple[Tier, ...] = ()
    """The places for checkpoints, fastest first; empty is `checkpoints_url` alone."""
    keep: int | None = None
    """How many of the newest checkpoints this process keeps; None leaves that to others."""


def launch_link(spec: LaunchSpec) -> Link:
    mark_connected(spec.path)
    return Link(
        store_url=spec.store_url,
        checkpoints_url=spec.checkpoints_url,
        experiment=spec.experiment,
        trial=spec.trial,
        attempt=spec.attempt,
        token=spec.token,
        allocation=spec.allocation,
        warm_start=spec.latest_checkpoint,
        node=spec.node,
        tiers=spec.tiers,
    )


def folder_link(folder: Path, gang: DistributedContext, clock: Clock | None = None) -> Link:
    """State in a folder: one trial, which every process that opens it continues; the newest opener
    fences the others. Collective; rank 0's folder counts.

    Raises:
        UsageError: it cannot be made or written to, on every rank.
    """
    from burst.harness.checkpoints.agreement import on_all_ranks

    def act() -> Any:
        return asdict(_open_folder(folder.absolute(), clock or SystemClock()))

    made = on_all_ranks(gang, act if gang.rank == 0 else lambda: None)
    return Link(**made[0])


def _open_folder(folder: Path, clock: Clock) -> Link:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STATE_MARK).touch()
    except OSError as error:
        raise UsageError(
            f"{folder!s:.200} cannot be the folder of a script's state",
            why=_cause(folder, error),
            mend="give `folder` a path that can be made and written to",
        ) from None
    store = open_store(f"sqlite://{folder / 'burst.db'}")
    settle_in(folder, store)
    experiments = store.children(Experiment, "", limit=1)
    trial = _new_trial(store, folder, clock) if not experiments else experiments[0].id
    opened = update(store, Trial, trial_id(trial, 0), _one_more_attempt)
    store.close()
    return Link(
        store_url=f"sqlite://{folder / 'burst.db'}",
        checkpoints_url=f"file://{folder}",
        experiment=opened.experiment,
        trial=opened.id,
        attempt=opened.attempts,
        token=opened.token,
    )


def _cause(folder: Path, error: OSError) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        above = (folder, *folder.parents)
        files = (path for path in above if path.exists() and not path.is_dir())
        return f"{next(files, folder)} is not a folder"
    return error.strerror or str(error)


def _one_more_attempt(trial: Trial) -> Trial:
    return trial.model_copy(update={"attempts": trial.attempts + 1, "token": trial.token + 1})


def _new_trial(store: Store, folder: Path, clock: Clock) -> str:
    now, experiment = clock.now(), new_id("exp", clock)
    store.commit(
        Put(
            Experiment(
                id=experiment,
                name=folder.name,
                owner="",
                created=now,
                state_since=now,
                config={},
                code=Code(digest="", size=0),
                trials=1,
            )
        ),
        Put(
            Trial(
                id=trial_id(experiment, 0),
                experiment=experiment,
                number=0,
                seed=0,
                slots=1,
                pools=(),
                created=now,
                queued=now,
                state_since=now,
            )
        ),
    )
    return experiment


def meet(device: str) -> DistributedContext:
    """The gang that this process's environment speaks of. Collective."""
    return join_gang(Place.from_environment(), device)


def open_session(
    link: Link | None,
    gang: DistributedContext,
    asked: Callable[[], bool] = lambda: False,
    grace: float = 600.0,
    clock: Clock | None = None,
) -> Session:
    """This rank's session, without checkpoints yet; nothing is kept without a link. Collective."""
    clock = clock or SystemClock()
    session = Session(
        distributed=gang,
        agreement=Together() if gang.size > 1 else Alone(),
        progress=Progress(clock),
        asked=asked,
        grace=grace,
        clock=clock,
    )
    if link is None:
        return session
    session.experiment, session.trial = link.experiment, link.trial
    session.store = store = open_store(link.store_url)
    if gang.rank == 0:
        sink = StoreSink(store, link.trial, link.token, session.progress)
        session.reporter = Reporter(sink, Origin(link.trial, link.attempt), clock)
        if link.allocation:
            session.restored = lambda checkpoint, batches: _note_restored(
                store, link, checkpoint, batches
            )
    return session


def open_engine(link: Link, session: Session) -> CheckpointEngine:
    """The trial's checkpoints. Collective in all that it does; imports torch."""
    from burst.core.checkpoints.tiers.places import Tiers
    from burst.harness.checkpoints.engine import BlobCheckpointEngine, Identity
    from burst.harness.keeping import keeping

    if session.store is None:
        raise ValueError("a session without a store has no checkpoints")
    engine = BlobCheckpointEngine(
        session.store,
        Tiers(link.tiers or [Tier(url=link.checkpoints_url)], link.node, session.clock),
        Identity(link.experiment, link.trial, link.attempt, link.token),
        session.distributed,
        session.clock,
        warm_start=link.warm_start,
        weights_only=link.weights_only,
    )
    if link.keep is None:
        return engine
    return keeping(engine, session, link.checkpoints_url, link.keep)


def asked_by(spec: LaunchSpec, terminated: Callable[[], bool]) -> Callable[[], bool]:
    """Whether the agent has set the stop flag, or this process was told to end (SIGTERM)."""
    flag = StopFlag(spec.path / "stop")
    return lambda: flag.is_set or terminated()


def _note_restored(store: Store, link: Link, checkpoint: str, batches: int) -> None:
    """Write down in the allocation what it continued from."""

    def change(allocation: Allocation) -> list[Write]:
        noted = {"restored_from": checkpoint, "restored_batches": batches}
        return [Fence(link.trial, link.token), Put(allocation.model_copy(update=noted))]

    update(store, Allocation, link.allocation, change)
