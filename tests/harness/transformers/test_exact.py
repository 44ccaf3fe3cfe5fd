"""A Trainer that was interrupted ends as one that was not, and as one without burst."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback

from tests.harness.transformers.house import (
    TIMINGS,
    House,
    Make,
    Stream,
    alone,
    classifier,
    differing,
    everything,
    hub_stream,
    script,
)

# Six steps an epoch, three epochs.
STOPS = {
    "in an epoch": [2],
    "at its last step": [6],
    "after its first step": [7],
    "twice in one": [8, 10],
    "at the last step of all": [18],
    "everywhere": [1, 2, 6, 7, 12, 17],
}
SOME = {"twice": [8, 10], "between": [6, 12]}
WAYS: dict[str, dict[str, Any]] = {
    "noisy": {"noisy": True},
    "by steps": {"eval_strategy": "steps", "eval_steps": 3, "logging_strategy": "epoch"},
    "accumulating": {"gradient_accumulation_steps": 4, "noisy": True, "num_train_epochs": 9},
    "saving": {"save_strategy": "steps", "save_steps": 2, "noisy": True},
    "by length": {"train_sampling_strategy": "group_by_length", "noisy": True},
    "in steps": {"max_steps": 15, "noisy": True},
    "on a plateau": {"lr_scheduler_type": "reduce_lr_on_plateau", "metric_for_best_model": "loss"},
    "evaluated first": {"eval_on_start": True},
    "skipping": {"ignore_data_skip": True},
    "counting": {"include_num_input_tokens_seen": "all", "logging_steps": 5},
}


def check(
    folder: Path, monkeypatch: pytest.MonkeyPatch, make: Make, stops: list[int], **how: Any
) -> House:
    expected = everything(alone(make, folder / "alone"))
    house = House(folder, monkeypatch, **how.pop("config", {}))
    assert differing(everything(house.through(make, stops, **how)), expected) == []
    return house


@pytest.mark.parametrize("stops", STOPS.values(), ids=STOPS)
def test_a_training_that_was_left_ends_as_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: list[int]
) -> None:
    check(tmp_path, monkeypatch, script(), stops)


@pytest.mark.parametrize("stops", SOME.values(), ids=SOME)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_so_it_is_whatever_its_arguments_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: dict[str, Any], stops: list[int]
) -> None:
    check(tmp_path, monkeypatch, script(**way), stops)


def adapted() -> Any:
    config = peft.LoraConfig(r=2, target_modules=["query"], lora_dropout=0.3, task_type="SEQ_CLS")
    return peft.get_peft_model(classifier(), config)


KINDS: dict[str, dict[str, Any]] = {
    "adapters": {"model": adapted},
    "bfloat16": {"model": lambda: classifier().to(torch.bfloat16)},
    "autocast": {"bf16": True},
    "recomputing": {"activation_checkpointing": True},
}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft asks under the older name
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_so_it_is_whatever_the_model_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    check(tmp_path, monkeypatch, script(**kind), [5, 8])


@pytest.mark.parametrize("way", ["noisy", "accumulating"])
def test_a_training_that_was_killed_goes_on_from_its_newest_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    make = script(**WAYS[way])
    house = check(
        tmp_path, monkeypatch, make, [5, 11], kill=True, config={"checkpoints": {"every": "2ba"}}
    )
    assert house.rows("validation") == [
        (row["step"], {k: v for k, v in row.items() if k != "step" and not k.endswith(TIMINGS)})
        for row in alone(make, tmp_path / "again").state.log_history
        if "eval_loss" in row
    ]


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_so_it_is_with_data_from_worker_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, persistent: bool
) -> None:
    workers = {"dataloader_num_workers": 2, "dataloader_persistent_workers": persistent}
    check(tmp_path, monkeypatch, script(noisy=True, **workers), [2, 9])


@pytest.mark.parametrize("stream", [Stream, hub_stream])
def test_so_it_is_with_a_stream_of_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: Any
) -> None:
    # the stream has six batches a pass, and the training three passes
    check(tmp_path, monkeypatch, script(data=stream, noisy=True, max_steps=16), [4, 6, 9])


class StopsInEvaluation(TrainerCallback):
    """Is asked to leave in the middle of the evaluation after a step."""

    def __init__(self, step: int, stopper: Any) -> None:
        self.step = step
        self.stopper = stopper

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            self.stopper.asked.set()


@pytest.mark.parametrize("step", [6, 12, 18])
@pytest.mark.parametrize("strategy", ["epoch", "steps"])
def test_a_stop_in_an_evaluation_does_not_wait_for_its_end_nor_leave_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, strategy: str
) -> None:
    make = script(eval_strategy=strategy, eval_steps=3, per_device_eval_batch_size=1)
    expected = everything(alone(make, tmp_path / "alone"))
    house = House(tmp_path, monkeypatch)

    def asked(folder: Path, more: list[TrainerCallback]) -> Trainer:
        trainer = make(folder, more)
        trainer.add_callback(StopsInEvaluation(step, more[0]))
        return trainer

    with pytest.raises(SystemExit):
        house.attempt(asked)
    assert max(at for at, _ in house.rows("validation") or [(0, {})]) < step
    assert differing(everything(house.attempt(make)), expected) == []


def test_the_patience_of_early_stopping_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = script(
        callbacks=lambda: [EarlyStoppingCallback(2)],
        num_train_epochs=12,
        metric_for_best_model="loss",
        learning_rate=0.0,
    )
    house = check(tmp_path, monkeypatch, make, [5, 9, 14])
    assert house.outcome is not None
    assert house.outcome.kind == "stopped"
    assert house.outcome.text == (
        "EarlyStoppingCallback: eval_loss has not improved in 2 evaluations"
    )


def test_the_best_model_comes_back_wherever_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = script(
        load_best_model_at_end=True,
        save_strategy="epoch",
        learning_rate=0.5,
        metric_for_best_model="loss",
    )
    check(tmp_path, monkeypatch, make, [8, 13])


class Cramped(Trainer):
    """On a machine whose memory takes batches of two."""

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self._train_batch_size > 2:
            raise RuntimeError("CUDA out of memory.")
        return super().training_step(*args, **kwargs)


def test_a_batch_size_that_was_found_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = script(auto_find_batch_size=True, num_train_epochs=1, trainer=Cramped)
    check(tmp_path, monkeypatch, make, [3, 8])


class Adding(Trainer):
    """Logs what it adds up itself, as those of trl do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sums: dict[str, Any] = {"train": defaultdict(list), "eval": defaultdict(list)}
        self._tokens = 0

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        mode = "train" if model.training else "eval"
        self._tokens += inputs["input_ids"].numel()
        self._sums[mode]["width"].append(inputs["input_ids"].shape[1])
        return super().compute_loss(model, inputs, *args, **kwargs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        mode = "train" if "loss" in logs else "eval"
        for name, values in self._sums[mode].items():
            logs[f"{mode}_{name}"] = sum(values) / len(values)
        logs["tokens"] = self._tokens
        self._sums[mode].clear()
        super().log(logs, start_time)


class Averaging(TrainerCallback):
    """Trains with the weights, and ends with their average."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model = kwargs["model"]
        self.average = {name: each.detach().clone() for name, each in model.named_parameters()}

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for name, each in kwargs["model"].named_parameters():
            self.average[name].lerp_(each.detach(), 0.1)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        with torch.no_grad():
            for name, each in kwargs["model"].named_parameters():
                each.copy_(self.average[name])


def test_what_a_callback_of_the_script_keeps_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path, monkeypatch, script(callbacks=lambda: [Averaging()]), [2, 8, 16])


class Buffering(Trainer):
    """Makes something for three steps at a time, as trainers by reinforcement do, and counts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._made: list[dict[str, Any]] | None = None
        self._count = 0

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if model.training:
            if self._count % 3 == 0:
                self._made = [{"scale": torch.rand(()) + 0.5} for _ in range(3)]
            scale = (self._made or [])[self._count % 3]["scale"]
            self._count += 1
            return scale * super().compute_loss(model, inputs)
        return super().compute_loss(model, inputs, *args, **kwargs)


def test_what_a_derived_class_has_made_ahead_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path, monkeypatch, script(trainer=Buffering), [2, 8, 16])


def test_what_a_derived_class_adds_up_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path, monkeypatch, script(trainer=Adding, logging_steps=4), [3, 9, 12])
