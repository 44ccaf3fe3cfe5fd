"""A trial over texts, from files to batches: interrupted anywhere it ends equal to the bit, and
its experiment's rules for data hold before its first batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from torch import nn

from burst.core.model import Trial
from burst.harness import Batch, DataLoader, PyTorchTrial, PyTorchTrialContext, Trainer
from burst.harness.data import DataError, Padding, checked, load, pack, tokenized
from burst.harness.determinism import seed_all
from burst.harness.trial.context import Setting
from burst.harness.trial.ruled import ruled
from tests.harness.data.text_support import VOCABULARY, rows, tokenizer
from tests.harness.trial.lab import TRIAL, Lab

LENGTH = 16
BATCHES = 30


class NextToken(PyTorchTrial):
    """The smallest language model that there is."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        layers = nn.Sequential(
            nn.Embedding(VOCABULARY, 8), nn.Dropout(0.2), nn.Linear(8, VOCABULARY)
        )
        self.model = context.wrap_model(layers)
        adam = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.optimizer = context.wrap_optimizer(adam)
        self.seen: list[list[int]] = []

    def build_training_data_loader(self) -> DataLoader:
        found = load(self.context.get_hparam("path"), streaming=self.context.get_hparam("stream"))
        texts = tokenized(found.select_columns(["text"]), tokenizer(), end=True)
        if self.context.get_hparam("pack"):
            texts = pack(texts, LENGTH)
        collate = None if self.context.get_hparam("pack") else Padding.of(tokenizer(), labels=True)
        shuffle = not self.context.get_hparam("stream")
        return DataLoader(texts, 3, shuffle=shuffle, collate_fn=collate)

    def build_validation_data_loader(self) -> DataLoader:
        texts = tokenized(rows(9).select_columns(["text"]), tokenizer(), end=True)
        return DataLoader(texts, 3, collate_fn=Padding.of(tokenizer(), labels=True))

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        logits = self.model(batch["input_ids"][:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"][:, 1:].flatten())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> torch.Tensor:
        self.seen.append(batch["input_ids"].flatten().tolist())
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"validation_loss": self.loss(batch)}


@pytest.fixture
def path(tmp_path: Path) -> str:
    rows().to_json(tmp_path / "texts.jsonl")
    return str(tmp_path / "texts.jsonl")


def attempt(
    lab: Lab, hparams: dict[str, Any], leave_after: int | None = None, data: Any = None
) -> tuple[NextToken, Any]:
    """Train until the end, or until it is asked to leave; the trial and how it ended."""
    session = lab.session(lambda: context.batch == leave_after)
    config = {"data": {"validate": data}} if data else {}
    setting = Setting(hparams=hparams, trial=TRIAL, seed=1, config=config)
    seed_all(1)
    context = PyTorchTrialContext(setting, session)
    trial = NextToken(context)
    try:
        outcome = Trainer(trial, context).fit(
            max_length=Batch(BATCHES), reporting_period=Batch(1), checkpoint_policy="none"
        )
    except BaseException:
        session.reporter.end_soon()  # type: ignore[union-attr]
        raise
    session.close()
    return trial, outcome


KINDS = {
    "padded": {"stream": False, "pack": False},
    "packed": {"stream": False, "pack": True},
    "padded stream": {"stream": True, "pack": False},
    "packed stream": {"stream": True, "pack": True},
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_interrupted_trial_ends_as_one_that_ran_through(
    kind: str, path: str, tmp_path: Path
) -> None:
    """It leaves within the first epoch and within another, each time in the middle of it."""
    hparams = {"path": path, **KINDS[kind]}
    whole_lab = Lab(tmp_path / "whole")
    whole, _ = attempt(whole_lab, hparams)
    lab = Lab(tmp_path / "parts")
    seen = []
    for leave_after in (4, 23, None):
        part, _ = attempt(lab, hparams, leave_after)
        seen += part.seen
    assert seen == whole.seen
    for one, other in zip(whole.model.parameters(), part.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert lab.rows("training") == whole_lab.rows("training")
    assert lab.rows("validation") == whole_lab.rows("validation")


def told(lab: Lab, name: str) -> list[Any]:
    return [event for event in lab.store.events().events if event.name == name]


def test_the_experiments_rules_hold_before_the_first_batch(path: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    with pytest.raises(DataError, match="the training rows break the rules") as caught:
        attempt(lab, {"path": path, **KINDS["padded"]}, data={"ids": {"max": 100}})
    assert "of 40 rows (" in caught.value.why
    assert lab.store.get(Trial, TRIAL).checkpoint == ""


def test_they_hold_for_the_rows_of_validation_before_it_as_well(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: NextToken) -> DataLoader:
        return DataLoader(datasets.Dataset.from_dict({"input_ids": [[5], [-1]]}))

    monkeypatch.setattr(NextToken, "build_validation_data_loader", wrong)
    lab = Lab(tmp_path)
    with pytest.raises(DataError, match="the validation rows break the rules") as caught:
        attempt(lab, {"path": path, **KINDS["padded"]}, data={"ids": "fail"})
    assert caught.value.why == "ids: 1 of 2 rows (1)"
    assert list(lab.store.metrics(TRIAL, "training")) == []


def test_rows_left_out_are_an_event_of_the_trial_with_their_numbers(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path / "lab")
    rules = {"ids": {"max": 390, "on": "quarantine"}}
    trial, _ = attempt(lab, {"path": path, **KINDS["padded"]}, data=rules)
    (event, _validation) = told(lab, "data.left_out")
    texts = tokenized(load(path).select_columns(["text"]), tokenizer(), end=True)
    wrong = [row for row, each in enumerate(texts["input_ids"][:]) if max(each) > 390]
    assert wrong
    assert event.data["rules"]["ids"] == {
        "on": "quarantine", "rows": len(wrong), "first": wrong[:10],
    }  # fmt: skip
    assert Path(event.data["where"]).exists()
    assert max(max(batch) for batch in trial.seen) <= 390


def context_with(rules: Any, lab: Lab) -> PyTorchTrialContext:
    setting = Setting(trial=TRIAL, config={"data": {"validate": rules}})
    return PyTorchTrialContext(setting, lab.session(lambda: False))


def test_a_models_vocabulary_bounds_the_ids(tmp_path: Path) -> None:
    class Config:
        vocab_size = 7

    context = context_with({"ids": "fail"}, Lab(tmp_path))
    model = nn.Linear(1, 1)
    model.config = Config()  # type: ignore[assignment]
    context.wrap_model(model)
    loader = DataLoader(datasets.Dataset.from_dict({"input_ids": [[6], [7]]}))
    with pytest.raises(DataError) as caught:
        ruled(loader, context, "training rows")
    assert caught.value.why == "ids: 1 of 2 rows (1)"


def test_a_sampler_over_rows_that_go_is_refused(tmp_path: Path) -> None:
    context = context_with({"empty": "drop"}, Lab(tmp_path))
    data = datasets.Dataset.from_dict({"input_ids": [[6], []]})
    with pytest.raises(DataError, match="whose loader has a sampler"):
        ruled(DataLoader(data, sampler=[1, 0]), context, "training rows")
    kept = checked(data, context=context)
    loader = DataLoader(kept, sampler=[0])
    assert ruled(loader, context, "training rows") is loader


def test_data_that_the_rules_cannot_look_into_is_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    context = context_with({"empty": "drop"}, lab)
    loader = DataLoader([{"input_ids": [6]}])
    assert ruled(loader, context, "training rows") is loader
    context.session.close()
    (event,) = told(lab, "data.unchecked")
    assert "the training rows are a list" in event.text


@pytest.mark.parametrize("caching", [True, False])
def test_a_model_that_mixes_packed_documents_is_warned_of(caching: bool, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    from burst.harness.trial.packed import check_packed

    lab = Lab(tmp_path)
    context = PyTorchTrialContext(Setting(trial=TRIAL), lab.session(lambda: False))
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, use_cache=caching,
    )  # fmt: skip
    context.wrap_model(LlamaForCausalLM(config))
    texts = tokenized(rows(), tokenizer())
    check_packed(DataLoader(pack(texts, LENGTH)), context)
    check_packed(DataLoader(pack(texts, LENGTH, documents=False)), context)
    context.session.close()
    assert len(told(lab, "data.documents_mixed")) == caching
