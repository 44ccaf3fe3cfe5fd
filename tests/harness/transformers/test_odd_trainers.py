"""Trainer scripts that do something odd, through the launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.launch import Stop
from burst.core.model import Exit, ExitKind
from tests.harness.transformers.odd import Command

PREAMBLE = """
import os, sys, torch
from transformers import (
    BertConfig, BertForSequenceClassification, EarlyStoppingCallback, Trainer, TrainingArguments,
)

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"input_ids": torch.full((4,), index + 1), "labels": index % 2}

model = BertForSequenceClassification(BertConfig(
    vocab_size=16, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
    max_position_embeddings=8,
))

def trainer(callbacks=(), **changes):
    given = dict(
        output_dir="out", max_steps=6, per_device_train_batch_size=2, use_cpu=True,
        disable_tqdm=True, logging_steps=1, report_to="none", save_strategy="no",
    )
    return Trainer(
        model=model, args=TrainingArguments(**{**given, **changes}), train_dataset=Rows(),
        eval_dataset=Rows(), callbacks=list(callbacks),
    )
"""
UNTIL_STOPPED = {"searcher": {"name": "single", "metric": "eval_loss"}}


def command(folder: Path, script: str) -> Command:
    files = {"train.py": PREAMBLE + script}
    return Command(folder, ["python", "train.py"], files, **UNTIL_STOPPED)


@pytest.mark.slow
def test_early_stopping_is_the_reason_of_the_trial_and_what_follows_is_kept(
    tmp_path: Path,
) -> None:
    script = """
mine = trainer(
    [EarlyStoppingCallback(early_stopping_patience=2)], max_steps=40, eval_strategy="steps",
    eval_steps=1, save_strategy="steps", save_steps=1, metric_for_best_model="eval_loss",
    greater_is_better=False, load_best_model_at_end=True, learning_rate=0.0, report_to="all",
)
mine.train(resume_from_checkpoint=True)
print("evaluated", mine.evaluate(metric_key_prefix="test")["test_loss"])
"""
    site = command(tmp_path, script)
    ended = site.judged()
    assert ended.exit == Exit(
        kind=ExitKind.STOPPED,
        code="early_stopping",
        text="EarlyStoppingCallback: eval_loss has not improved in 2 evaluations",
    )
    assert "there is no checkpoint to resume from yet" in ended.log
    assert "evaluated" in ended.log


@pytest.mark.slow
def test_a_script_that_catches_everything_has_drained_all_the_same(tmp_path: Path) -> None:
    script = """
try:
    trainer().train()
except BaseException as error:
    print("caught", type(error).__name__)
print("goes on")
trainer().evaluate()
sys.exit(3)
"""
    site = command(tmp_path, script)
    spec, process = site.start()
    site.flag(spec).set(Stop.DRAIN)
    ended = site.finish(spec, process)
    assert ended.outcome is not None
    assert (ended.outcome.kind, ended.outcome.durable) == (ExitKind.DRAINED, True)
    assert ended.failure is None
    assert "caught SystemExit\ngoes on\n" in ended.logs[0]


@pytest.mark.slow
def test_a_status_of_failure_after_training_fails_the_trial(tmp_path: Path) -> None:
    script = """
os.chdir("/")
trainer(output_dir=OUT).train(resume_from_checkpoint=False)
sys.exit("the model is not good enough")
""".replace("OUT", repr(str(tmp_path / "out")))
    ended = command(tmp_path, script).judged()
    assert ended.exit.kind is ExitKind.CRASHED
    assert ended.exit.failure is not None
    assert ended.exit.failure.kind == "exit 1"
    assert "the model is not good enough" in ended.exit.failure.traceback
