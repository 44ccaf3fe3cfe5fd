"""What the pages show, read from the store: each read costs what is shown, never history."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from burst.core.model import Allocation, Checkpoint, Event, Experiment, Json, Node, Trial
from burst.core.states import is_terminal
from burst.core.store.port import Store

TRIALS_IN_A_LIST = 200
"""Trials read for one row of `burst ls`; a larger search shows the best of its first ones."""
_EVENT_PAGE = 1000


@dataclass(frozen=True)
class Overview:
    """An experiment and its trials as `burst ls` sees them."""

    experiment: Experiment
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Picture:
    """An experiment at one moment, with everything that a page or a live table needs."""

    experiment: Experiment
    trials: tuple[Trial, ...]
    allocations: Mapping[str, Allocation]
    """The live allocation of each trial that has one, by trial."""
    nodes: Mapping[str, Node]
    """The nodes that these allocations are on, by id."""
    now: float

    @property
    def over(self) -> bool:
        return is_terminal(self.experiment.state)


def searcher_of(experiment: Experiment) -> Mapping[str, Json]:
    searcher: Mapping[str, Json] = experiment.config.get("searcher") or {}
    return searcher


def metric_of(experiment: Experiment) -> str:
    return str(searcher_of(experiment).get("metric", ""))


def best_trial(experiment: Experiment, trials: Iterable[Trial]) -> Trial | None:
    """The trial whose best validation is the best; not-a-number is worse than anything."""
    metric = metric_of(experiment)
    sign = 1.0 if searcher_of(experiment).get("smaller_is_better", True) else -1.0

    def cost(trial: Trial) -> float:
        value = trial.best.metrics.get(metric) if trial.best else None
        return math.inf if value is None or math.isnan(value) else sign * value

    ranked = sorted((t for t in trials if t.best is not None), key=lambda t: (cost(t), t.number))
    return ranked[0] if ranked else None


def best_checkpoint(
    experiment: Experiment, checkpoints: Iterable[Checkpoint]
) -> Checkpoint | None:
    """The one that was saved with the best validation; None where none was saved with any."""
    metric = metric_of(experiment)
    sign = 1.0 if searcher_of(experiment).get("smaller_is_better", True) else -1.0
    ranked = [
        (sign * each.metrics[metric], -each.batches, each)
        for each in checkpoints
        if each.deleted is None and not math.isnan(each.metrics.get(metric, math.nan))
    ]
    return min(ranked, key=lambda entry: entry[:2])[2] if ranked else None


def overviews(store: Store, limit: int | None) -> list[Overview]:
    """The live experiments and the newest `limit` ones (None: all), newest first."""
    recent = store.children(Experiment, "", limit=limit, newest_first=True)
    known = {e.id for e in recent}
    live = [e for e in store.live(Experiment) if e.id not in known]
    ordered = sorted([*recent, *live], key=lambda e: e.id, reverse=True)
    return [
        Overview(e, tuple(store.children(Trial, e.id, limit=TRIALS_IN_A_LIST))) for e in ordered
    ]


def picture(store: Store, experiment: str, now: float) -> Picture:
    """The whole experiment, read anew."""
    found = store.get(Experiment, experiment)
    trials = tuple(store.children(Trial, experiment))
    return _complete(store, found, trials, now)


def refresh(store: Store, before: Picture, now: float) -> Picture:
    """The same experiment now, reading again only what can have changed."""
    experiment = store.get(Experiment, before.experiment.id)
    trials = {trial.id: trial for trial in before.trials}
    last = before.trials[-1].id if before.trials else ""
    for trial in store.children(Trial, experiment.id, after=last):
        trials[trial.id] = trial
    live = {trial.id: trial for trial in store.live(Trial)}
    for trial_id, trial in trials.items():
        if trial_id in live:
            trials[trial_id] = live[trial_id]
        elif not is_terminal(trial.state):
            trials[trial_id] = store.get(Trial, trial_id)
    return _complete(store, experiment, tuple(trials.values()), now)


def _complete(
    store: Store, experiment: Experiment, trials: tuple[Trial, ...], now: float
) -> Picture:
    mine = {trial.id for trial in trials if trial.live}
    live = store.live(Allocation) if mine else []
    allocations = {a.trial: a for a in live if a.trial in mine}
    wanted = {share.node for a in allocations.values() for share in a.shares}
    nodes = {n.id: n for n in store.live(Node) if n.id in wanted} if wanted else {}
    return Picture(experiment, trials, allocations, nodes, now)


def events_of(
    store: Store, experiment: str, last: int, wanted: Callable[[Event], bool]
) -> list[Event]:
    """The `last` ones of those events of an experiment that are `wanted`, oldest first."""
    cursor, kept = "", deque[Event](maxlen=last)
    while True:
        page = store.events(cursor, limit=_EVENT_PAGE, experiment=experiment)
        kept.extend(event for event in page.events if wanted(event))
        if len(page.events) < _EVENT_PAGE:
            return list(kept)
        cursor = page.cursor


def attempts_of(store: Store, trial: str) -> list[Allocation]:
    return store.children(Allocation, trial)


def checkpoints_of(store: Store, owner: Experiment | Trial) -> list[Checkpoint]:
    """The checkpoints of a trial, or of all trials of an experiment, by trial and age."""
    trials = [owner.id] if isinstance(owner, Trial) else [
        trial.id for trial in store.children(Trial, owner.id)
    ]  # fmt: skip
    return [found for trial in trials for found in store.children(Checkpoint, trial)]


def used_slots(allocations: Sequence[Allocation]) -> dict[str, int]:
    """How many slots of each node are held, by node."""
    used: dict[str, int] = {}
    for allocation in allocations:
        for share in allocation.shares:
            used[share.node] = used.get(share.node, 0) + len(share.slots)
    return used
