"""One experiment under one key: whoever dies, whoever races, however often it is tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import Conflict, Unreachable
from burst.core.model import Experiment, Key
from burst.core.states import ExperimentState
from burst.core.store.port import Put
from burst.core.testing import examples
from burst.core.workspace import Workspace, open_workspace
from burst.runner.commands import Submission, cancel, pause, submit
from tests.runner.house import config_of

KEY = "github/acme/vision/81/train"


@dataclass(frozen=True)
class File:
    config: ExperimentConfig = field(default_factory=config_of)
    source: str = "name: n\n"
    seed_drawn: bool = False


class Died(BaseException):
    """The process is gone: nothing of it goes on."""


class Interposed:
    """A store or blobs, with something that happens at one of the calls.

    Args:
        at: the number of the call, from 0.
        before, after: what happens then.
    """

    def __init__(
        self,
        real: Any,
        calls: list[str],
        at: int,
        before: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
    ) -> None:
        self._real, self._calls, self._at = real, calls, at
        self._before, self._after = before, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def call(*given: Any, **named: Any) -> Any:
            mine = len(self._calls) == self._at
            self._calls.append(name)
            if mine:
                self._before()
            answer = found(*given, **named)
            if mine:
                self._after()
            return answer

        return call


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return open_workspace(cwd=tmp_path)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    return folder


def send(ws: Workspace, code: Path, file: File | None = None, **how: Any) -> Submission:
    return submit(ws, file or File(), code, owner="ann", **{"key": KEY, **how})


def interposed(
    ws: Workspace, at: int, **what: Callable[[], object]
) -> tuple[Workspace, list[str]]:
    calls: list[str] = []
    store, blobs = (Interposed(each, calls, at, **what) for each in (ws.store, ws.blobs))
    return replace(ws, store=store, blobs=blobs), calls


def die() -> None:
    raise Died


def lose_the_answer() -> None:
    raise Unreachable("no answer came")


def all_of(ws: Workspace) -> list[str]:
    return [each.id for each in ws.store.children(Experiment, "")]


def steps_of(ws: Workspace, code: Path) -> list[str]:
    counting, calls = interposed(ws, -1)
    send(counting, code, key="only to count")
    return calls


def test_the_steps_that_are_tried_are_those_of_a_submission(ws: Workspace, code: Path) -> None:
    calls = steps_of(ws, code)
    assert calls[-1] == "commit"
    assert {"find", "commit"} < set(calls)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", [die, lose_the_answer])
def test_a_submitter_that_ends_at_any_step_leaves_one_experiment_to_the_next(
    tmp_path: Path, code: Path, when: str, how: Callable[[], None]
) -> None:
    counted = steps_of(open_workspace({"BURST_HOME": str(tmp_path / "count")}, tmp_path), code)
    for at in range(len(counted)):
        ws = open_workspace({"BURST_HOME": str(tmp_path / f"home-{at}")}, tmp_path)
        broken, calls = interposed(ws, at, **{when: how})
        with pytest.raises((Died, Unreachable)):
            send(broken, code)
        assert len(calls) == at + 1
        written = all_of(ws)
        again, once_more = send(ws, code), send(ws, code)
        assert all_of(ws) == [again.experiment.id] == [once_more.experiment.id]
        assert (again.attached, once_more.attached) == (bool(written), True)
        assert ws.blobs.info(f"code/{again.experiment.code.digest}.tar.gz") is not None
        ws.store.close()


def test_another_that_submits_at_any_step_gets_the_same_experiment(
    tmp_path: Path, code: Path
) -> None:
    counted = steps_of(open_workspace({"BURST_HOME": str(tmp_path / "count")}, tmp_path), code)
    for at in range(len(counted)):
        ws = open_workspace({"BURST_HOME": str(tmp_path / f"home-{at}")}, tmp_path)
        theirs: list[Submission] = []

        def submit_too(ws: Workspace = ws, theirs: list[Submission] = theirs) -> None:
            theirs.append(send(ws, code))

        racing, _ = interposed(ws, at, before=submit_too)
        mine = send(racing, code)
        assert all_of(ws) == [mine.experiment.id] == [theirs[0].experiment.id]
        assert mine.attached is True
        ws.store.close()


@pytest.mark.parametrize(
    ("state", "ending", "follows"),
    [
        (ExperimentState.ACTIVE, None, True),
        (ExperimentState.PAUSED, None, True),
        (ExperimentState.STOPPING, "completed", True),
        (ExperimentState.STOPPING, "failed", False),
        (ExperimentState.STOPPING, "cancelled", False),
        (ExperimentState.COMPLETED, "completed", True),
        (ExperimentState.FAILED, "failed", False),
        (ExperimentState.CANCELLED, "cancelled", False),
    ],
)
def test_what_failed_or_was_cancelled_is_tried_anew_and_all_else_is_followed(
    ws: Workspace, code: Path, state: ExperimentState, ending: Any, follows: bool
) -> None:
    first = send(ws, code).experiment
    ws.store.commit(Put(first.model_copy(update={"state": state, "ending": ending})))
    again = send(ws, code)
    assert again.attached is follows
    assert (again.experiment.id == first.id) is follows
    assert send(ws, code).experiment.id == again.experiment.id


def test_every_state_of_an_experiment_was_tried() -> None:
    """So that a new one has to be decided on."""
    tried = {"active", "paused", "stopping", "completed", "failed", "cancelled"}
    assert {str(each) for each in ExperimentState} == tried


def test_two_that_try_a_failed_one_again_make_one_more(ws: Workspace, code: Path) -> None:
    first = send(ws, code).experiment
    ws.store.commit(Put(first.model_copy(update={"state": ExperimentState.FAILED})))
    racing, calls = interposed(ws, -1)
    send(racing, code)
    at = calls.index("commit")
    second = ws.store.get(Experiment, all_of(ws)[-1])
    ws.store.commit(Put(second.model_copy(update={"state": ExperimentState.FAILED})))
    racing, _ = interposed(ws, at, before=lambda: send(ws, code))
    third = send(racing, code).experiment
    assert all_of(ws) == [first.id, second.id, third.id]


def test_another_key_is_another_experiment_and_no_key_attaches_to_what_lives(
    ws: Workspace, code: Path
) -> None:
    mine = send(ws, code)
    assert send(ws, code, key="").experiment.id == mine.experiment.id
    others = [send(ws, code, key="other"), send(ws, code, new=True)]
    assert len({mine.experiment.id, *(each.experiment.id for each in others)}) == 3
    assert send(ws, code).experiment.id == others[-1].experiment.id  # `new` counts from then on


def test_what_was_submitted_first_counts_and_it_is_said_that_it_differs(
    ws: Workspace, code: Path
) -> None:
    first = send(ws, code)
    same, other = send(ws, code), send(ws, code, File(config_of(max_restarts=1)))
    (code / "train.py").write_text("print(2)\n")
    changed = send(ws, code)
    assert (first.same, same.same, other.same, changed.same) == (True, True, False, False)
    assert len(all_of(ws)) == 1


def test_a_key_may_hold_anything(ws: Workspace, code: Path) -> None:
    names = ["a", "a\n", "ключ/🔑 " * 500, "../../etc", "latest"]
    assert len({send(ws, code, key=name).experiment.id for name in names}) == len(names)


def test_pausing_and_cancelling_act_on_what_the_key_names(ws: Workspace, code: Path) -> None:
    first = send(ws, code).experiment
    pause(ws, first.id)
    assert send(ws, code).experiment.state is ExperimentState.PAUSED
    cancel(ws, first.id)
    assert send(ws, code).experiment.id != first.id


def test_a_key_whose_experiment_is_gone_is_free(ws: Workspace, code: Path) -> None:
    ws.store.commit(Put(Key(id=Key.id_of(KEY), experiment=examples.EXPERIMENT)))
    assert not send(ws, code).attached


def test_where_others_are_always_faster_it_gives_up(ws: Workspace, code: Path) -> None:
    class Contended(Interposed):
        def __getattr__(self, name: str) -> Any:
            if name != "commit":
                return super().__getattr__(name)

            def refuse(*writes: Any) -> None:
                raise Conflict("taken")

            return refuse

    with pytest.raises(Conflict, match="again and again"):
        send(replace(ws, store=Contended(ws.store, [], -1)), code)
