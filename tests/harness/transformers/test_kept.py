"""What of a Trainer's training is kept, and where a script has its say in it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainerCallback, TrainerState

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.download import download
from burst.core.errors import ConfigError
from burst.core.launch import failures_left
from burst.harness.errors import TrialError
from burst.harness.transformers import BurstCallback
from burst.harness.transformers.script.refusing import refuse_if_kept
from burst.harness.transformers.trainer import connection
from burst.harness.transformers.trainer.memory import TrainerMemory
from tests.harness.transformers.house import (
    TIMINGS,
    House,
    Rows,
    alone,
    arguments,
    classifier,
    differing,
    everything,
    padded,
    script,
    untimed,
)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    return House(tmp_path, monkeypatch)


def logged(trainer: Trainer, name: str) -> dict[int, dict[str, Any]]:
    """What a Trainer logged with this value, by step, without the timings."""
    return {
        int(row["step"]): {k: v for k, v in row.items() if k != "step" and not k.endswith(TIMINGS)}
        for row in trainer.state.log_history
        if name in row
    }


def test_logged_values_are_metrics_at_their_steps_under_their_names(house: House) -> None:
    trainer = house.attempt(script())
    training, validation = dict(house.rows("training")), dict(house.rows("validation"))
    last = logged(trainer, "loss")[18] | logged(trainer, "train_loss")[18]
    assert training == {**logged(trainer, "loss"), 18: last}
    assert validation == logged(trainer, "eval_loss")


def test_evaluations_of_several_sets_at_a_step_are_one_row(house: House) -> None:
    def make(folder: Path, more: list[TrainerCallback]) -> Trainer:
        trainer = script()(folder, more)
        trainer.eval_dataset = {"near": Rows(5), "far": Rows(7)}
        return trainer

    house.attempt(make)
    assert [at for at, _ in house.rows("validation")] == [6, 12, 18]
    assert {"eval_near_loss", "eval_far_loss"} <= dict(house.rows("validation"))[18].keys()


def test_what_a_script_evaluates_and_predicts_after_training_is_reported(house: House) -> None:
    class Then(Trainer):
        def train(self, *args: Any, **kwargs: Any) -> Any:
            result = super().train(*args, **kwargs)
            self.evaluate(Rows(4), metric_key_prefix="held_out")
            self.predict(Rows(4))
            return result

    def make(folder: Path, more: list[TrainerCallback]) -> Trainer:
        return Then(
            model=classifier(),
            args=arguments(folder, max_steps=2),
            data_collator=padded,
            train_dataset=Rows(),
            eval_dataset=Rows(4),
            callbacks=more,
        )

    house.attempt(make)
    last = dict(house.rows("validation"))[2]
    assert {"eval_loss", "held_out_loss"} <= last.keys()
    assert "test_loss" in dict(house.rows("test"))[2]


def test_an_evaluation_after_training_does_not_take_the_place_of_one_in_it(house: House) -> None:
    class Then(Trainer):
        def train(self, *args: Any, **kwargs: Any) -> Any:
            result = super().train(*args, **kwargs)
            self.evaluate(Rows(3))
            return result

    make = script(trainer=Then)
    trainer = house.attempt(make)
    history = trainer.state.log_history
    first, second = (row for row in history if row["epoch"] == 3 and "eval_loss" in row)
    assert first["eval_loss"] != second["eval_loss"]
    assert dict(house.rows("validation"))[18]["eval_loss"] == first["eval_loss"]


def test_a_script_that_trains_in_a_thread_is_attached_without_a_handler_of_signals() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(connection._terminated(bool)()))
    thread.start()
    thread.join()
    assert found == [False]


def test_a_checkpoint_is_saved_at_the_trainers_own_points_and_its_folder_is_not_written(
    house: House,
) -> None:
    house.attempt(script(save_strategy="steps", save_steps=5, eval_strategy="no"))
    assert sorted(each.batches for each in house.checkpoints()) == [5, 10, 15, 18]
    assert house.spec is not None
    assert list((house.spec.path / "code").rglob("checkpoint-*")) == []


def test_an_evaluation_that_is_the_best_so_far_is_saved_with_its_metrics(house: House) -> None:
    house.attempt(script(save_strategy="no"))
    found = {each.batches: each.metrics for each in house.checkpoints()}
    assert found[6]["eval_loss"] == dict(house.rows("validation"))[6]["eval_loss"]


class Reader(TrainerCallback):
    """A callback of a script that does something with the folder of a checkpoint."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self.seen += sorted(path.name for path in folder.iterdir())


def test_the_folder_is_there_for_a_callback_that_reads_it(house: House) -> None:
    reader = Reader()
    house.attempt(script(callbacks=lambda: [reader], save_strategy="steps", save_steps=10))
    assert "model.safetensors" in reader.seen


@pytest.mark.parametrize(
    ("length", "steps"), [("4ba", 4), ("2ep", 12), ("40records", 10)], ids=str
)
def test_the_experiments_length_is_the_trainers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: str, steps: int
) -> None:
    amount = {"records": 40} if length == "40records" else length
    searcher = {"name": "single", "metric": "eval_loss", "max_length": amount}
    house = House(tmp_path, monkeypatch, searcher=searcher)
    assert house.attempt(script()).state.global_step == steps


def test_a_length_in_time_ends_training_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = {"name": "single", "metric": "eval_loss", "max_length": "1ms"}
    try:
        house = House(tmp_path, monkeypatch, searcher=searcher)
    except ValueError:  # whole seconds are the least
        searcher["max_length"] = "1s"
        house = House(tmp_path, monkeypatch, searcher=searcher)
    trainer = house.attempt(script(num_train_epochs=10_000))
    assert 0 < trainer.state.global_step < 60_000
    assert house.outcome is not None
    assert house.outcome.kind == "completed"


def test_a_search_that_needs_a_metric_is_told_which_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = {
        "name": "adaptive_asha",
        "metric": "eval_acuracy",
        "max_trials": 2,
        "max_length": "3ep",
    }
    house = House(tmp_path, monkeypatch, searcher=searcher)
    with pytest.raises(ConfigError) as told:
        house.attempt(script())
    assert "eval_acuracy" in told.value.what
    assert "this validation reported epoch, eval_loss" in told.value.what
    assert told.value.mend == "write one of them there"


@pytest.mark.parametrize("given", [True, False, None])
def test_what_a_script_says_of_resuming_gives_way_to_a_checkpoint_of_burst(
    tmp_path: Path, house: House, given: Any
) -> None:
    expected = everything(alone(script(), tmp_path / "alone"))
    with pytest.raises(SystemExit):
        house.attempt(script(), 7, resume_from_checkpoint=given)
    trainer = house.attempt(script(), resume_from_checkpoint=given)
    assert differing(everything(trainer), expected) == []


def test_a_folder_that_a_script_resumes_from_is_where_its_first_attempt_begins(
    tmp_path: Path, house: House
) -> None:
    whole = alone(script(save_strategy="steps", save_steps=9), tmp_path / "alone")
    begun = tmp_path / "alone" / "out" / "checkpoint-9"
    trainer = house.attempt(script(), resume_from_checkpoint=str(begun))
    assert trainer.state.global_step == 18
    assert min(at for at, _ in house.rows("training")) > 9
    weights: Any = (whole.model, trainer.model)
    assert all(
        torch.equal(one, other)
        for one, other in zip(*(each.state_dict().values() for each in weights), strict=True)
    )


def test_a_second_training_is_reported_behind_the_first_and_not_saved(house: House) -> None:
    class Twice(Trainer):
        def train(self, *args: Any, **kwargs: Any) -> Any:
            super().train(*args, **kwargs)
            return super().train(*args, **kwargs)

    def make(folder: Path, more: list[TrainerCallback]) -> Trainer:
        return Twice(
            model=classifier(),
            args=arguments(folder, max_steps=4),
            data_collator=padded,
            train_dataset=Rows(),
            eval_dataset=Rows(4),
            callbacks=more,
        )

    house.attempt(make)
    assert [at for at, _ in house.rows("training")] == [2, 4, 6, 8]
    assert max(each.batches for each in house.checkpoints()) == 4


def test_a_script_by_itself_goes_on_from_the_folder_that_its_callback_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = everything(alone(script(), tmp_path / "alone"))

    def make(step: int | None) -> Trainer:
        class Asks(TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                found = connection.connection()
                if state.global_step == step and found is not None:
                    found.session.asked = lambda: True

        more = lambda: [BurstCallback(tmp_path / "state"), Asks()]  # noqa: E731
        return script(callbacks=more)(tmp_path / "out", [])

    for step in (8, None):
        monkeypatch.setattr(connection, "_made", None)
        trainer = make(step)
        if step is None:
            trainer.train()
        else:
            with pytest.raises(SystemExit):
                trainer.train()
    made = connection.connection()
    assert made is not None
    made.session.close()
    monkeypatch.setattr(connection, "_made", None)
    assert differing(everything(trainer), expected) == []


def test_without_an_experiment_and_a_folder_nothing_is_attached(tmp_path: Path) -> None:
    trainer = alone(script(callbacks=lambda: [BurstCallback()]), tmp_path / "alone")
    assert "_burst" not in vars(trainer)


def test_a_checkpoint_is_handed_out_as_the_trainer_would_have_written_it(
    tmp_path: Path, house: House
) -> None:
    trainer = house.attempt(script())
    last = max(house.checkpoints(), key=lambda each: each.batches)
    blobs = open_blobs(f"file://{tmp_path}/blobs")
    download(blobs, last, tmp_path / "handed")
    trainer.save_model(str(tmp_path / "own"))
    name = "model.safetensors"
    assert (tmp_path / "handed" / name).read_bytes() == (tmp_path / "own" / name).read_bytes()
    state = TrainerState.load_from_json(str(tmp_path / "handed" / "trainer_state.json"))
    assert [untimed(row) for row in state.log_history if "loss" in row] == [
        untimed(row) for row in trainer.state.log_history if "loss" in row
    ]


def test_a_trainer_that_does_not_see_the_other_ranks_is_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(folder: Path, more: list[TrainerCallback]) -> Trainer:
        trainer = script()(folder, more)
        monkeypatch.setenv("WORLD_SIZE", "2")
        return trainer

    with pytest.raises(TrialError, match="trains alone in each of 2 ranks"):
        house.attempt(make)


def test_a_program_that_the_script_starts_while_it_trains_runs_alone(tmp_path: Path) -> None:
    assert connection._hold(tmp_path)
    held = connection._held.pop()
    try:
        code = (
            "import sys, pathlib\n"
            "from burst.harness.transformers.trainer import connection\n"
            "sys.exit(connection._hold(pathlib.Path(sys.argv[1])))"
        )
        words = [sys.executable, "-c", code, str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert "a Trainer here runs alone" in done.stderr
        held.close()
        assert subprocess.run(words, capture_output=True, check=False).returncode == 1
    finally:
        held.close()


def test_a_trial_with_checkpoints_is_not_begun_anew_where_burst_cannot_attach(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_if_kept(ValueError("nothing is launched"))
    house.attempt(script(max_steps=2))
    spec = house.site.prepare()
    monkeypatch.setenv("BURST_LAUNCH", str(spec.path / "spec.json"))
    with pytest.raises(SystemExit) as left:
        refuse_if_kept(ValueError("another Trainer"))
    assert left.value.code == 1
    (_, failure) = failures_left(spec.path)[0]
    assert "has checkpoints" in failure.message


def test_a_training_does_not_go_on_over_another_number_of_ranks(house: House) -> None:
    trainer = house.attempt(script(max_steps=2))
    memory = TrainerMemory(trainer)
    saved = memory.state_dict()
    memory.load_state_dict(saved)
    with pytest.raises(TrialError, match="over 2 ranks, and cannot go on over 1"):
        memory.load_state_dict({**saved, "ranks": 2})
