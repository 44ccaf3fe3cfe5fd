"""Connects a rank to what its launch names: gang, store, checkpoints, stop flag."""

from __future__ import annotations

from collections.abc import Callable

from burst.core.blobs import open_blobs
from burst.core.clock import Clock, SystemClock
from burst.core.config.experiment import ExperimentConfig
from burst.core.launch import LaunchSpec, StopFlag
from burst.core.model import Allocation
from burst.core.store import Store, open_store, update
from burst.core.store.port import Fence, Put, Write
from burst.harness.agreement import Alone, Together
from burst.harness.checkpoints.engine import BlobCheckpointEngine, Identity
from burst.harness.distributed import Place, join_gang
from burst.harness.progress import Progress, StoreSink
from burst.harness.reporting import Origin, Reporter
from burst.harness.session import Session


def device_of(spec: LaunchSpec, place: Place) -> str:
    return spec.devices[place.local_rank] if place.local_rank < len(spec.devices) else "cpu"


def connect(
    spec: LaunchSpec,
    config: ExperimentConfig,
    terminated: Callable[[], bool],
    clock: Clock | None = None,
) -> Session:
    """This rank's session. Collective: meets the other ranks.

    Args:
        terminated: whether this process was told to end (SIGTERM), which drains like the flag.
    """
    clock = clock or SystemClock()
    place = Place.from_environment()
    gang = join_gang(place, device_of(spec, place))
    store = open_store(spec.store_url)
    progress = Progress(clock)
    reporter = None
    if place.rank == 0:
        sink = StoreSink(store, spec.trial, spec.token, progress)
        reporter = Reporter(sink, Origin(spec.trial, spec.attempt), clock)
    flag = StopFlag(spec.path / "stop")
    return Session(
        distributed=gang,
        agreement=Together() if place.size > 1 else Alone(),
        progress=progress,
        reporter=reporter,
        engine=BlobCheckpointEngine(
            store,
            open_blobs(spec.checkpoints_url),
            Identity(spec.experiment, spec.trial, spec.attempt, spec.token),
            gang,
            clock,
            warm_start=spec.latest_checkpoint,
        ),
        asked=lambda: flag.is_set or terminated(),
        clock=clock,
        experiment=spec.experiment,
        trial=spec.trial,
        grace=config.drain_grace,
        restored=lambda checkpoint, batches: note_restored(store, spec, checkpoint, batches),
    )


def note_restored(store: Store, spec: LaunchSpec, checkpoint: str, batches: int) -> None:
    """Write down in the allocation what it continued from."""

    def change(allocation: Allocation) -> list[Write]:
        noted = allocation.model_copy(
            update={"restored_from": checkpoint, "restored_batches": batches}
        )
        return [Fence(spec.trial, spec.token), Put(noted)]

    update(store, Allocation, spec.allocation, change)
