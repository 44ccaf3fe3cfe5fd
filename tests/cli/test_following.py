from __future__ import annotations

import pytest

from burst.cli.following import Follower, Happening, settled, succeeded
from burst.cli.reading import Picture
from burst.cli.views.lines import happening
from burst.core.model import Experiment, MetricChunk, MetricRow, Trial
from burst.core.states import ExperimentState, Reason, TrialState, advance
from burst.core.store import event_of, update
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Append, AppendMetrics, Put, Store
from tests.cli import world

TRIAL = f"{world.RUNNING}.t0000"


@pytest.fixture
def store() -> Store:
    made = MemoryStore()
    world.put(made, world.experiment(), world.trial())
    return made


def move(store: Store, to: TrialState, text: str = "") -> None:
    trial, transition = advance(
        store.get(Trial, TRIAL), to, Reason(code="test", text=text), world.NOW
    )
    store.commit(Put(trial), Append(event_of(transition, world.RUNNING)))


def report(store: Store, attempt: int, seq: int, base: int, *batches: int) -> None:
    """A validation at each of `batches`, as the harness commits it."""
    rows = tuple(
        MetricRow(batches=b, at=world.NOW + b, metrics={"validation_loss": 1 / b}) for b in batches
    )
    store.commit(
        AppendMetrics(
            MetricChunk(
                trial=TRIAL, attempt=attempt, group="validation", seq=seq, base=base, rows=rows
            )
        )
    )
    update(
        store,
        Trial,
        TRIAL,
        lambda t: t.model_copy(update={"validations": t.validations + len(batches)}),
    )


def look(follower: Follower) -> list[Happening]:
    return follower.look(world.NOW)


def test_no_change_of_state_is_missed_however_short(store: Store) -> None:
    follower = Follower(store, world.RUNNING)
    look(follower)
    for to in (TrialState.RUNNING, TrialState.WAITING, TrialState.RUNNING):
        move(store, to)
    assert [one.name for one in look(follower)] == [
        "trial.running",
        "trial.waiting",
        "trial.running",
    ]
    assert look(follower) == []


def test_more_events_than_one_page_are_all_told_in_one_look(store: Store) -> None:
    for start in range(0, 2400, 80):
        store.commit(
            *(Append(world.event("checkpoint.saved", TRIAL, str(start + n))) for n in range(80))
        )
    told = look(Follower(store, world.RUNNING))
    assert [one.text for one in told] == [str(n) for n in range(2400)]


def test_attaching_tells_only_what_comes(store: Store) -> None:
    move(store, TrialState.RUNNING)
    report(store, 1, 0, 0, 10, 20)
    follower = Follower(store, world.RUNNING, store.newest_cursor())
    assert look(follower) == []
    report(store, 1, 1, 0, 30)
    assert [one.data["batches"] for one in look(follower)] == [30]


def test_each_validation_is_told_once(store: Store) -> None:
    follower = Follower(store, world.RUNNING)
    report(store, 1, 0, 0, 10)
    assert [one.data["batches"] for one in look(follower)] == [10]
    report(store, 1, 1, 0, 20, 30)
    assert [one.data["batches"] for one in look(follower)] == [20, 30]
    assert look(follower) == []


def test_a_validation_that_is_made_again_after_a_loss_is_told_again(store: Store) -> None:
    follower = Follower(store, world.RUNNING)
    report(store, 1, 0, 0, 10, 20)
    look(follower)
    report(store, 2, 0, 10, 20)
    assert [one.data["batches"] for one in look(follower)] == [20]


def test_a_wait_is_told_once_for_every_reason(store: Store) -> None:
    follower = Follower(store, world.RUNNING)

    def wait(text: str, until: float) -> None:
        update(
            store,
            Trial,
            TRIAL,
            lambda t: t.model_copy(
                update={"wait": Reason(code="slots", text=text), "wait_until": until}
            ),
        )

    wait("local is full", world.NOW + 5)
    assert [one.text for one in look(follower)] == ["local is full"]
    wait("local is full", world.NOW + 10)
    assert look(follower) == []
    wait("local starts a machine", world.NOW + 10)
    assert [one.text for one in look(follower)] == ["local starts a machine"]


def test_trials_that_come_later_are_seen(store: Store) -> None:
    follower = Follower(store, world.RUNNING)
    look(follower)
    world.put(store, world.trial(1))
    look(follower)
    assert follower.picture is not None
    assert [t.number for t in follower.picture.trials] == [0, 1]


@pytest.mark.parametrize(
    ("experiment", "trial", "is_settled"),
    [
        (ExperimentState.ACTIVE, TrialState.RUNNING, False),
        (ExperimentState.PAUSED, TrialState.RUNNING, False),
        (ExperimentState.PAUSED, TrialState.PAUSED, True),
        (ExperimentState.PAUSED, TrialState.WAITING, True),
        (ExperimentState.STOPPING, TrialState.STOPPING, False),
        (ExperimentState.COMPLETED, TrialState.COMPLETED, True),
        (ExperimentState.FAILED, TrialState.FAILED, True),
    ],
)
def test_settled_is_when_nothing_more_happens_by_itself(
    experiment: ExperimentState, trial: TrialState, is_settled: bool
) -> None:
    picture = Picture(
        world.experiment(state=experiment), (world.trial(state=trial),), {}, {}, world.NOW
    )
    assert settled(picture) is is_settled


def test_only_what_completed_or_was_stopped_well_has_succeeded() -> None:
    good: list[Experiment | Trial] = [
        *(world.experiment(state=s) for s in ExperimentState),
        *(world.trial(state=s) for s in TrialState),
    ]
    assert {str(one.state) for one in good if succeeded(one)} == {"completed", "stopped"}


def test_a_line_says_when_who_and_what(store: Store) -> None:
    move(store, TrialState.RUNNING, "2 of 2 slots on local")
    report(store, 1, 0, 0, 10)
    lines = [happening(one, world.RUNNING, "validation_loss").plain
             for one in look(Follower(store, world.RUNNING))]  # fmt: skip
    assert [line[10:] for line in lines] == [
        "t0000  ● running  2 of 2 slots on local",
        "t0000  validation_loss 0.1  at batch 10",
    ]


def test_what_happens_to_a_trial_without_changing_its_state_is_told_in_its_words() -> None:
    trial = f"{world.RUNNING}.t0000"
    one = Happening("event", world.NOW, trial, "trial.not_finite", "the loss was not finite", {})
    assert happening(one, world.RUNNING, "validation_loss").plain[10:] == (
        "t0000  · the loss was not finite"
    )
