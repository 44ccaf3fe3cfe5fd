"""Reading and drawing together: what `show`, and the show of every noun, print."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Group, RenderableType

from burst.cli import encoding, reading
from burst.cli.following import is_for_people
from burst.cli.ids import newest_checkpoint
from burst.cli.session import Session
from burst.cli.views.experiments import experiment_page
from burst.cli.views.records import checkpoint_page, node_page
from burst.cli.views.trial import trial_page
from burst.core.errors import NotFound
from burst.core.model import Allocation, Checkpoint, Event, Experiment, Json, Node, Trial
from burst.runner.proof import losing_pools, needs_proof

LATELY = 12
"""Events on a page."""


def show_any(
    session: Session, found: Experiment | Trial | Checkpoint | Node, as_json: bool
) -> None:
    """Print the page of a record, or its JSON."""
    if as_json:
        session.json(_json(session, found))
        return
    session.show(_page(session, found))


def _json(session: Session, found: Experiment | Trial | Checkpoint | Node) -> Json:
    store, now = session.store, session.clock.now()
    if isinstance(found, Experiment):
        trials = store.children(Trial, found.id)
        best = reading.best_trial(found, trials)
        return encoding.experiment_whole_json(found, trials, best, now)
    if isinstance(found, Trial):
        attempts, saved = (
            reading.attempts_of(store, found.id),
            reading.checkpoints_of(store, found),
        )
        return encoding.trial_whole_json(found, attempts, saved, now)
    if isinstance(found, Checkpoint):
        return encoding.checkpoint_json(found)
    return encoding.node_json(found, reading.used_slots(store.live(Allocation)).get(found.id, 0))


def _page(session: Session, found: Experiment | Trial | Checkpoint | Node) -> RenderableType:
    store, now, width = session.store, session.clock.now(), session.out.width
    if isinstance(found, Experiment):
        picture = reading.picture(store, found.id, now)
        kept = [c for c in reading.checkpoints_of(store, found) if c.deleted is None]
        events = reading.events_of(store, found.id, LATELY, lambda e: is_for_people(e.name))
        return experiment_page(picture, kept, events, width)
    if isinstance(found, Trial):
        whole = reading.picture(store, found.experiment, now)
        alone = replace(whole, trials=(found,))
        attempts = reading.attempts_of(store, found.id)
        checkpoints = reading.checkpoints_of(store, found)
        events = _events_of_trial(session, found, attempts)
        unproved = needs_proof(found, losing_pools(session.workspace.cluster.pools))
        return trial_page(
            alone, found, attempts, checkpoints, events, width=width, unproved=unproved
        )
    if isinstance(found, Checkpoint):
        return checkpoint_page(found, now)
    runs = [a for a in store.live(Allocation) if any(s.node == found.id for s in a.shares)]
    return Group(node_page(found, runs, now))


def _events_of_trial(session: Session, trial: Trial, attempts: list[Allocation]) -> list[Event]:
    mine = {trial.id, *(a.id for a in attempts)}

    def wanted(event: Event) -> bool:
        return event.subject in mine or event.data.get("trial") == trial.id

    return reading.events_of(session.store, trial.experiment, LATELY, wanted)


def offered_checkpoint(session: Session, trial: Trial | None) -> Checkpoint | None:
    """The checkpoint to offer for download: the best validated one, else the newest."""
    if trial is None:
        return None
    checkpoints = session.store.children(Checkpoint, trial.id)
    kept = [c for c in checkpoints if c.deleted is None and not c.damaged]
    at_best = [c for c in kept if trial.best is not None and c.batches == trial.best.batches]
    if at_best:
        return at_best[-1]
    try:
        return newest_checkpoint(session.store, trial)
    except NotFound:
        return None
