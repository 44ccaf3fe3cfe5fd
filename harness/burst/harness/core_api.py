"""The core API, for scripts with a loop of their own.

    import burst.harness

    with burst.harness.init() as context:
        saved = context.checkpoint.restore()
        start = saved.batches if saved else 0
        ...
        for batch in range(start, context.max_batches(default=1000)):
            ...
            if (batch + 1) % 100 == 0:
                context.train.report_training_metrics(batch + 1, {"loss": loss})
            if context.should_stop():
                context.checkpoint.save({"model": model.state_dict()}, batches=batch + 1)
                break

In an experiment all of it goes to the experiment's store. Elsewhere the same script runs by
itself: metrics are printed, and with a `folder` they and the checkpoints are kept there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import UsageError
from burst.core.launch import LaunchSpec, Outcome, read_launch
from burst.core.length import Length, Unit
from burst.core.model import ExitKind, Lengths
from burst.harness import determinism
from burst.harness.agreement import Wish
from burst.harness.arguments import folder_of, metric_names, named_values, whole_number
from burst.harness.connect import (
    Link,
    asked_by,
    folder_link,
    launch_link,
    meet,
    open_engine,
    open_session,
)
from burst.harness.core_checkpoint import CheckpointApi, counted_batches
from burst.harness.distributed import DistributedContext, Place
from burst.harness.interpolate import lookup
from burst.harness.keeping import KEEP
from burst.harness.leaving import leave_badly, leave_well
from burst.harness.process import Terminated
from burst.harness.rank import others_failed
from burst.harness.searching import Search
from burst.harness.session import Session
from burst.harness.settings import device_of, max_length, needs_metric
from burst.harness.trial.goal import Goal, tell_missing
from burst.harness.values import to_floats


class TrainApi:
    """`context.train`: metrics and progress. Only what rank 0 reports counts; others may call."""

    def __init__(self, session: Session, goal: Goal) -> None:
        self._session = session
        self._goal = goal
        self._batches = 0
        self.epoch: int | None = None
        """Batches in an epoch, once the script has said so."""
        self.batch: int | None = None
        """Records in a batch, the same."""
        session.progress.metric = goal.metric
        session.progress.smaller_is_better = goal.smaller_is_better

    def report_training_metrics(
        self, steps_completed: int, metrics: Mapping[str, Any], batch_metrics: Any = None
    ) -> None:
        """Report metrics of training after so many batches. Never waits for the store.

        Raises:
            UsageError: if a name cannot be kept, or that is no number of batches.
            MetricError: if a metric is not one number.
            Fenced: a newer allocation owns the trial.
        """
        self.report_metrics("training", steps_completed, metrics)

    def report_validation_metrics(self, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """Report a validation; the searcher goes by `searcher.metric` in it."""
        self.report_metrics("validation", steps_completed, metrics)

    def report_metrics(self, group: str, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """Report metrics under a name of your own. What is refused changes nothing.

        Raises:
            ConfigError: a validation lacks the metric that the search goes by.
        """
        metric_names(group, metrics)
        values, steps_completed = to_floats(metrics), counted_batches(steps_completed)
        self.report_progress(steps_completed)
        if group == "validation":
            self._session.progress.judge(steps_completed, values)
        self._session.report(group, steps_completed, values)
        missing = group == "validation" and self._goal.metric not in values
        if missing and self._goal.needed:
            tell_missing(self._goal, values, self._session)

    def report_progress(self, batches: int) -> None:
        """Say how many batches are trained.

        Raises:
            UsageError: that is no number of batches.
        """
        self._batches = max(self._batches, counted_batches(batches))
        self._session.progress.measure = self._measure

    def _measure(self) -> Lengths:
        batches = self._batches
        return Lengths(
            batches=batches,
            records=batches * (self.batch or 0),
            epochs=batches / self.epoch if self.epoch else 0.0,
        )


class PreemptApi:
    """`context.preempt`, under Determined's name."""

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """The same as `context.should_stop`; there is nothing to acknowledge."""
        return self._should_stop()


class CoreContext:
    """What `init` gives. Use it with `with`, or call `close` at the end."""

    def __init__(self, session: Session, link: Link | None, spec: LaunchSpec | None,
                 hparams: Mapping[str, Any], config: ExperimentConfig | None) -> None:  # fmt: skip
        self._session = session
        self._spec = spec
        self._config = config
        self._stopping = False
        self._closed = False
        self.hparams: dict[str, Any] = dict(hparams)
        """The hyperparameters of this trial."""
        self.train = TrainApi(session, _goal(config))
        self.preempt = PreemptApi(self.should_stop)
        opened = None if link is None else lambda: open_engine(link, session)
        start = config.start if config else None
        self.checkpoint = CheckpointApi(session, opened, self.train.report_progress, start)

    @property
    def distributed(self) -> DistributedContext:
        """The gang: rank, size, allgather, broadcast, …"""
        return self._session.distributed

    @property
    def info(self) -> LaunchSpec | None:
        """The launch this process belongs to: ids, seed, devices, config; None elsewhere."""
        return self._spec

    @property
    def seed(self) -> int:
        return self._spec.seed if self._spec else 0

    @property
    def device(self) -> str:
        """This rank's device: `cpu` or `cuda:<index>`."""
        return device_of(self._spec, Place.from_environment()) if self._spec else "cpu"

    @property
    def max_length(self) -> Length | None:
        """How long the experiment trains each trial; None elsewhere."""
        return max_length(self._config) if self._config else None

    def get_hparam(self, name: str) -> Any:
        """A hyperparameter by name, or by dotted path into nested ones.

        Raises:
            ConfigError: if there is none, with the nearest names.
        """
        return lookup(name, self.hparams)

    def max_batches(self, default: int, *, epoch: int | None = None, batch: int = 1) -> int:
        """The length of training in batches: the experiment's, or `default` elsewhere.

        Args:
            epoch: batches in an epoch, for a length in epochs.
            batch: records in a batch, for a length in records.

        Raises:
            UsageError: for a length in time, which only the script can measure; or an argument is
                no such number.
        """
        from burst.harness.trial.units import Scale

        default = counted_batches(default)
        epoch = None if epoch is None else whole_number("epoch", epoch, least=1)
        batch = whole_number("batch", batch, least=1)
        length = self.max_length
        counts = batch > 1 or (length is not None and length.unit is Unit.RECORDS)
        self.train.epoch, self.train.batch = epoch, batch if counts else None
        if length is None:
            return default
        if length.unit is Unit.SECONDS:
            raise UsageError("the experiment's length is a time", mend="use context.max_length")
        batches = Scale(epoch, batch).batches(length) or 0
        self._session.progress.target_batches = batches
        return batches

    def should_stop(self) -> bool:
        """Whether to checkpoint and leave now. Cheap enough for every batch. Over several ranks,
        every rank asks at the same batches, and all get the same answer."""
        if self._session.reporter is not None:
            self._session.reporter.check()
        wish = Wish.DRAIN if self._session.asked() else Wish.NOTHING
        if self._session.agreement.poll(int(wish)) & Wish.DRAIN:
            self._stopping = True
        return self._stopping

    def close(self) -> None:
        """Make all reports durable and say how it ended. Again does nothing.

        Raises:
            Unreachable: the last metrics could not be stored.
        """
        if self._closed:
            return
        self._closed = True
        self.checkpoint.close()
        kind = ExitKind.DRAINED if self._stopping else ExitKind.COMPLETED
        batches = self._session.progress.measure().batches
        saved = self.checkpoint.saved_at
        durable = not self._stopping or (saved is not None and saved >= batches)
        leave_well(self._session, self._spec, Outcome(kind=kind, batches=batches, durable=durable))

    def __enter__(self) -> CoreContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
            return
        self._closed = True
        status = leave_badly(self._session, self._spec, error)
        if self._spec is not None and status not in (0, 1, 130):
            sys.excepthook(type(error), error, trace)
            raise SystemExit(status) from None


def _goal(config: ExperimentConfig | None) -> Goal:
    if config is None:
        return Goal()
    searcher = config.searcher
    return Goal(
        metric=searcher.metric,
        smaller_is_better=searcher.smaller_is_better,
        needed=needs_metric(config),
    )


def init(
    *,
    hparams: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    keep: int | None = KEEP,
) -> CoreContext:
    """Connect this script to its experiment, or let it run by itself. Collective: with several
    ranks (`torchrun`), every one calls it, before any process group is made.

    Args:
        hparams: the hyperparameters outside an experiment.
        folder: where metrics and checkpoints are kept outside an experiment; a script that is
            started again with the same folder continues. None keeps nothing.
        keep: how many of the newest checkpoints stay in `folder`. So do, of each metric that they
            were saved with, the ones with the lowest and the highest value, and those that are
            pinned or registered. None keeps all. In an experiment, `checkpoints.keep` says it.

    Raises:
        UsageError: these are not such, or the folder cannot be used.
    """
    given, own_folder = named_values("hparams", hparams), folder_of(folder)
    kept = None if keep is None else whole_number("keep", keep, least=1)
    spec = read_launch()
    if spec is None:
        gang = meet("cpu")
        link = None if own_folder is None else replace(folder_link(own_folder, gang), keep=kept)
        session = open_session(link, gang)
        session.loud = True
        return CoreContext(session, link, None, given, None)
    config = ExperimentConfig.model_validate(spec.config)
    if config.reproducibility.mode != "off":
        determinism.seed_loaded(spec.seed)
    place = Place.from_environment()
    terminated = Terminated(lambda: others_failed(spec, place.rank))
    link = launch_link(spec)
    session = open_session(
        link,
        meet(device_of(spec, place)),
        asked=asked_by(spec, lambda: terminated.asked),
        grace=config.drain_grace,
    )
    session.progress.search = Search.of(config)
    return CoreContext(session, link, spec, spec.hparams, config)
