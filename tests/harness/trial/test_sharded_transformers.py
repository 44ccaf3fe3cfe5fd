"""A model of transformers that its trial shards with `fully_shard`, with adapters and without: it
goes on equal, on as many ranks and on fewer, and is handed out as ordinary files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.download import download
from burst.core.model import Checkpoint, ExitKind
from burst.harness import PyTorchTrialContext
from burst.harness.errors import TrialError
from burst.harness.trial.context import Setting
from burst.harness.trial.models import refuse_flat_shards
from tests.harness.launching import TRIAL, Ended, Site

CODE = """
import hashlib

import torch
import transformers
from torch.distributed.fsdp import fully_shard

from burst.harness import DataLoader, PyTorchCallback, PyTorchTrial


def whole(value):
    return value.full_tensor() if hasattr(value, "full_tensor") else value


class Tell(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def on_checkpoint_save_start(self, checkpoint):
        self.trial.tell("saved")


class Language(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        torch.manual_seed(1)
        config = transformers.GPT2Config(
            vocab_size=50, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=0,
            eos_token_id=0,
        )
        model = transformers.GPT2LMHeadModel(config)
        if context.get_hparam("adapters"):
            from peft import LoraConfig, get_peft_model

            lora = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
            model = get_peft_model(model, lora)
        for module in model.modules():
            if type(module).__name__ == "GPT2Block":
                fully_shard(module)
        fully_shard(model)
        self.model = context.wrap_model(model)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = context.wrap_optimizer(torch.optim.AdamW(trained, lr=0.01))
        self.begun = False

    def build_callbacks(self):
        return {"tell": Tell(self)}

    def tell(self, what):
        digest = hashlib.sha256()
        states = [self.model.state_dict(), *self.optimizer.state.values()]
        for value in (value for state in states for value in state.values()):
            digest.update(whole(value).numpy().tobytes())
        weights = hashlib.sha256()
        for _, value in sorted(self.model.state_dict().items()):
            weights.update(whole(value).numpy().tobytes())
        batch = self.context.current_train_batch()
        print(what, batch, digest.hexdigest(), weights.hexdigest(), flush=True)

    def build_training_data_loader(self):
        rows = [(torch.arange(8) + n) % 50 for n in range(40)]
        size = self.context.get_per_slot_batch_size()
        return DataLoader(rows, batch_size=size, shuffle=True)

    build_validation_data_loader = build_training_data_loader

    def loss(self, batch):
        return self.model(input_ids=batch, labels=batch).loss

    def train_batch(self, batch, epoch_idx, batch_idx):
        if not self.begun:
            self.tell("begun")
        self.begun = True
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_batch(self, batch, batch_idx):
        return {"validation_loss": self.loss(batch)}
"""


def told(ended: Ended, what: str) -> set[tuple[str, str]]:
    """What the ranks printed: the hashes of all that is trained, and of the weights."""
    found = set()
    for log in ended.logs.values():
        found |= set(re.findall(rf"^{what} \d+ (\w+) (\w+)$", log, re.MULTILINE)[-1:])
    return found


def train(folder: Path, adapters: bool, attempts: list[tuple[int, int]]) -> tuple[Site, list[Any]]:
    folder.mkdir()
    hparams = {"adapters": adapters, "global_batch_size": 4}
    site = Site(folder, CODE, "train:Language", hyperparameters=hparams)
    ended = []
    for ranks, batches in attempts:
        raw = site.config.model_dump(mode="json")
        raw["searcher"]["max_length"] = f"{batches}ba"
        site.config = type(site.config).model_validate(raw)
        ended.append(site.run(ranks))
        assert ended[-1].outcome is not None, ended[-1].logs
        assert ended[-1].outcome.kind is ExitKind.COMPLETED
    return site, ended


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_adapters_in_shards_go_on_equal_and_are_handed_out_whole(tmp_path: Path) -> None:
    _, (alone,) = train(tmp_path / "alone", True, [(2, 4)])
    site, (first, second, third) = train(tmp_path / "cut", True, [(2, 2), (2, 4), (1, 5)])
    assert told(second, "begun") == told(first, "saved")
    assert told(second, "saved") == told(alone, "saved")
    assert told(third, "begun") == told(second, "saved")
    assert len(told(third, "begun")) == 1
    assert handed_out(site, 4, adapters=True) == {text for _, text in told(second, "saved")}


@pytest.mark.slow
def test_a_tied_model_in_shards_goes_on_with_fewer_and_is_handed_out_whole(tmp_path: Path) -> None:
    site, (first, second) = train(tmp_path / "cut", False, [(2, 2), (1, 3)])
    assert told(second, "begun") == told(first, "saved")
    assert len(told(second, "begun")) == 1
    assert handed_out(site, 2, adapters=False) == {text for _, text in told(first, "saved")}


def handed_out(site: Site, batches: int, *, adapters: bool) -> set[str]:
    """The hash of the weights that others load from a download."""
    records = [c for c in site.store.children(Checkpoint, TRIAL) if c.batches == batches]
    out = site.folder / "out"
    download(open_blobs(f"file://{site.folder}/blobs"), records[-1], out)
    weights = hashlib.sha256()
    for _, value in sorted(whole_model(out, adapters).state_dict().items()):
        weights.update(value.numpy().tobytes())
    return {weights.hexdigest()}


def whole_model(folder: Path, adapters: bool) -> Any:
    import transformers
    from peft import PeftModel

    load: Any = transformers.AutoModelForCausalLM.from_pretrained
    return PeftModel.from_pretrained(load(folder / "base"), folder) if adapters else load(folder)


def test_the_first_fsdp_is_refused_and_what_to_write_instead_is_named() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = FullyShardedDataParallel.__new__(FullyShardedDataParallel)
            nn.Module.__init__(self.inner)

    context = PyTorchTrialContext(Setting())
    with pytest.raises(TrialError, match="FSDP1") as caught:
        context.wrap_model(Wrapped())
    assert "fully_shard" in caught.value.mend
    assert 'fsdp_config={"version": 2}' in caught.value.mend
    refuse_flat_shards(torch.nn.Linear(2, 2))
