"""`burst run --key`, `--timeout` and `--on-interrupt`, as a person or a job types them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from burst.cli import driver, driving, handing_over, pushing, watching
from burst.core.model import Experiment, Trial
from burst.core.states import ExperimentState, TrialState
from burst.core.store.port import Put
from tests.cli import world
from tests.cli.conftest import Burst
from tests.cli.test_interrupting import after_the_commit, before_the_commit, ctrl_c, heard

__all__ = ["heard"]

CLOUD = """
cluster: lab
aws: {region: us-east-1, account: "123456789012", runner: RUNNER}
pools:
  spot: {kind: aws, instance_types: [c5.large], max_nodes: 2}
  desk: {kind: local}
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runners that were started, wherever that is asked for; none really is."""
    runners: list[str] = []

    def start(*given: Any) -> int:
        runners.append("started")
        return 1

    for module in (handing_over, driving, pushing):
        monkeypatch.setattr(module, "start_runner", start)

    def drive(workspace: Any) -> nullcontext[None]:
        runners.append("here")
        return nullcontext()

    monkeypatch.setattr(driver, "Driver", drive)
    return runners


@pytest.fixture
def folder(burst: Burst, tmp_path: Path, started: list[str]) -> Path:
    burst("init", str(tmp_path / "new"))
    return tmp_path / "new"


def only(burst: Burst) -> Experiment:
    (found,) = burst.store.children(Experiment, "")
    return found


def put_state(burst: Burst, state: ExperimentState) -> None:
    burst.store.commit(Put(only(burst).model_copy(update={"state": state})))


@pytest.fixture
def ends(burst: Burst, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is watched is found completed."""
    watch = watching.watch

    def seen(*given: Any, **named: Any) -> Any:
        put_state(burst, ExperimentState.COMPLETED)
        return watch(*given, **named)

    monkeypatch.setattr(watching, "watch", seen)


def test_under_a_key_it_is_submitted_once_and_completed_it_is_reported_again(
    burst: Burst, folder: Path, ends: None
) -> None:
    file = str(folder / "exp.yaml")
    assert "this key" not in burst("run", file, "--key", "nightly").stderr
    again = burst("run", file, "--key", "nightly")
    assert "is completed under this key; --new starts another" in again.stderr
    assert "✔ completed" in again.stdout
    assert only(burst).state is ExperimentState.COMPLETED


def test_detached_under_a_key_the_same_id_is_printed_and_it_is_driven_while_it_lives(
    burst: Burst, folder: Path, started: list[str]
) -> None:
    command = ("run", str(folder / "exp.yaml"), "--key", "nightly", "--detach")
    first, second = (burst(*command).stdout.strip() for _ in range(2))
    assert first == second == only(burst).id
    assert started == ["started", "started"]
    put_state(burst, ExperimentState.COMPLETED)
    assert burst(*command).stdout.strip() == first
    assert started == ["started", "started"]


def test_what_is_paused_under_the_key_is_resumed(burst: Burst, folder: Path) -> None:
    command = ("run", str(folder / "exp.yaml"), "--key", "nightly", "--detach")
    burst(*command)
    burst("pause", "key:nightly")
    assert only(burst).state is ExperimentState.PAUSED
    assert "resumed" in burst(*command).stderr
    assert only(burst).state is ExperimentState.ACTIVE


def test_other_settings_under_the_key_are_said_to_count_for_nothing(
    burst: Burst, folder: Path
) -> None:
    command = ("run", str(folder / "exp.yaml"), "--key", "nightly", "--detach")
    burst(*command)
    assert "what it has counts" not in burst(*command).stderr
    assert "what it has counts" in burst(*command, "--set", "max_restarts=1").stderr


@pytest.mark.parametrize("name", ["", "  ", "nightly.t3"])
def test_a_key_that_is_missing_or_reads_like_a_trial_is_refused(
    burst: Burst, folder: Path, name: str
) -> None:
    said = burst("run", str(folder / "exp.yaml"), "--key", name, status=2).stderr
    assert "is empty, or ends like a trial's id" in said
    assert burst.store.children(Experiment, "") == []


def test_a_key_is_an_id_wherever_one_is_asked_for(burst: Burst, folder: Path) -> None:
    name = "github/acme/81/train exp.yaml"
    burst("run", str(folder / "exp.yaml"), "--key", name, "--detach")
    found = only(burst)
    burst.store.commit(Put(world.trial(0, found.id)))
    assert burst.json("show", f"key:{name}")["id"] == found.id
    assert burst.json("trial", "show", f"key:{name}.t0")["id"] == f"{found.id}.t0000"
    said = burst("show", "key:other", status=4).stderr
    assert "nothing was submitted under the key 'other'" in said
    assert "an id is missing" in burst("cancel", "key:", status=2).stderr


@pytest.mark.parametrize(
    ("wish", "state", "said"),
    [
        ("leave", ExperimentState.ACTIVE, "goes on in the background"),
        ("pause", ExperimentState.PAUSED, "is paused: it checkpoints"),
        ("cancel", ExperimentState.STOPPING, "is cancelled: it ends"),
    ],
)
def test_an_interrupt_does_what_was_asked_for_and_somebody_drives_on(
    burst: Burst,
    folder: Path,
    started: list[str],
    monkeypatch: pytest.MonkeyPatch,
    wish: str,
    state: ExperimentState,
    said: str,
) -> None:
    monkeypatch.setattr(watching, "watch", ctrl_c)
    command = ("run", str(folder / "exp.yaml"), "--on-interrupt", wish)
    assert said in burst(*command, status=130).stderr
    assert (only(burst).state, started) == (state, ["here", "started"])


@pytest.mark.parametrize("key", [(), ("--key", "nightly")])
@pytest.mark.parametrize("when", [before_the_commit, after_the_commit])
def test_an_interrupt_while_it_is_submitted_pauses_it_if_it_was(
    burst: Burst,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: Callable[[Any], Any],
    key: tuple[str, ...],
) -> None:
    commit = burst.store.commit
    once = iter([when(commit)])
    monkeypatch.setattr(burst.store, "commit", lambda *writes: next(once, commit)(*writes))
    command = ("run", str(folder / "exp.yaml"), "--on-interrupt", "pause", *key)
    said = burst(*command, status=130).stderr
    if when is before_the_commit:
        assert "nothing was submitted" in said
        assert burst.store.children(Experiment, "") == []
    else:
        assert "is paused" in said
        assert only(burst).state is ExperimentState.PAUSED


def test_the_wish_is_written_before_what_drives_here_is_ended(
    burst: Burst, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may take seconds, and whoever interrupted kills soon after."""
    found: list[ExperimentState] = []

    @contextmanager
    def slow(workspace: Any) -> Iterator[None]:
        try:
            yield None
        finally:
            found.append(only(burst).state)

    monkeypatch.setattr(driver, "Driver", slow)
    monkeypatch.setattr(watching, "watch", ctrl_c)
    burst("run", str(folder / "exp.yaml"), "--on-interrupt", "pause", status=130)
    assert found == [ExperimentState.PAUSED]


def test_an_interrupt_does_nothing_to_what_was_going_to_end(
    burst: Burst, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending(*given: Any, **named: Any) -> Any:
        put_state(burst, ExperimentState.STOPPING)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(watching, "watch", ending)
    command = ("run", str(folder / "exp.yaml"), "--on-interrupt", "pause")
    assert "goes on in the background" in burst(*command, status=130).stderr


def test_after_its_time_it_is_paused_and_watched_until_it_has_given_back_its_slots(
    burst: Burst, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    busy: list[ExperimentState] = []
    sleep = burst.session.clock.sleep

    def lives_on(seconds: float) -> None:
        nonlocal looks
        looks += 1
        found = only(burst)
        if looks == 1:
            burst.store.commit(Put(world.training(0, found.id)))
        trials = [t for t in burst.store.children(Trial, found.id) if t.live]
        if found.state is ExperimentState.PAUSED and trials:
            busy.append(found.state)
            if len(busy) == 3:  # the agent has checkpointed
                paused = {"state": TrialState.PAUSED, "wanted": None}
                burst.store.commit(Put(trials[0].model_copy(update=paused)))
        sleep(seconds)

    monkeypatch.setattr(burst.session.clock, "sleep", lives_on)
    ended = burst("run", str(folder / "exp.yaml"), "--timeout", "10s", status=1)
    assert f"{only(burst).id} is not over after 10s: it is paused" in ended.stderr
    assert "‖ paused" in ended.stdout
    assert only(burst).reason.text == "paused because its time, 10s, was over"
    assert "burst resume" in ended.stdout
    assert len(busy) == 3


def test_what_is_over_in_time_is_not_paused(burst: Burst, folder: Path, ends: None) -> None:
    ended = burst("run", str(folder / "exp.yaml"), "--timeout", "10s")
    assert "paused" not in ended.stderr
    assert only(burst).state is ExperimentState.COMPLETED


@pytest.mark.parametrize("wish", ["pause", "cancel"])
def test_nobody_who_leaves_can_be_interrupted(burst: Burst, folder: Path, wish: str) -> None:
    command = ("run", str(folder / "exp.yaml"), "--detach", "--on-interrupt", wish)
    assert "--on-interrupt is for who stays" in burst(*command, status=2).stderr
    assert burst.store.children(Experiment, "") == []


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (ExperimentState.ACTIVE, "active under this key; it would be followed"),
        (ExperimentState.PAUSED, "paused under this key; it would be resumed"),
        (ExperimentState.COMPLETED, "completed under this key; it would be reported"),
        (ExperimentState.FAILED, "failed under this key; another would be submitted"),
        (ExperimentState.CANCELLED, "cancelled under this key; another would be submitted"),
    ],
)
def test_a_dry_run_says_what_is_there_under_the_key_and_changes_nothing(
    burst: Burst, folder: Path, state: ExperimentState, words: str
) -> None:
    command = ("run", str(folder / "exp.yaml"), "--key", "nightly")
    assert "Nothing was submitted under this key" in burst(*command, "--dry-run").stderr
    burst(*command, "--detach")
    put_state(burst, state)
    before = only(burst)
    assert f"{before.id} is {words}" in burst(*command, "--dry-run").stderr
    assert "another would be submitted" in burst(*command, "--dry-run", "--new").stderr
    assert only(burst) == before
    assert "key" not in burst("run", str(folder / "exp.yaml"), "--dry-run").stderr


def test_nobody_who_leaves_can_watch_the_time(burst: Burst, folder: Path) -> None:
    command = ("run", str(folder / "exp.yaml"), "--detach", "--timeout", "1h")
    assert "--timeout is for who stays" in burst(*command, status=2).stderr
    assert burst.store.children(Experiment, "") == []


def test_a_time_that_is_none_is_told(burst: Burst, folder: Path) -> None:
    said = burst("run", str(folder / "exp.yaml"), "--timeout", "soon", status=2).stderr
    assert "'soon' is not a duration" in said


@pytest.mark.parametrize(
    ("pools", "runner", "elsewhere"),
    [
        (("spot",), "function", True),
        (("spot", "desk"), "function", False),
        (("spot",), "here", False),
    ],
)
def test_where_the_function_drives_nobody_here_does(
    tmp_path: Path, started: list[str], pools: tuple[str, ...], runner: str, elsewhere: bool
) -> None:
    from burst.cli.elsewhere import driver_for, hand_over, is_driven_elsewhere, see_driven
    from burst.cli.session import Session

    (tmp_path / "burst.yaml").write_text(CLOUD.replace("RUNNER", runner))
    session = Session(environ={"BURST_HOME": str(tmp_path / "home")}, cwd=tmp_path)
    config = {**world.experiment().config, "resources": {"pools": list(pools)}}
    experiment = world.experiment(config=config)
    assert is_driven_elsewhere(session, pools) is elsewhere
    see_driven(session, experiment)
    hand_over(session, experiment)
    with driver_for(session, experiment):
        pass
    assert started == ([] if elsewhere else ["started", "started", "here"])
