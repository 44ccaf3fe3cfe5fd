"""Models loaded in another precision, or that compute their activations twice: a run that is
interrupted ends equal to the bit, and nothing changes its dtype on the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.download import download
from burst.harness import PyTorchTrialContext
from tests.harness.trial.bench import SOURCE, Bench
from tests.harness.trial.test_hand_out import CONFIG, Language, untyped

LIVELY: dict[str, Any] = {**CONFIG, "resid_pdrop": 0.3, "embd_pdrop": 0.3, "attn_pdrop": 0.3}


class Float32Moments(torch.optim.Optimizer):
    """Keeps momentum in float32, whatever its parameters are in."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter, dtype=torch.float32)
                state["momentum"].mul_(0.9).add_(parameter.grad.float())
                parameter.add_((-group["lr"] * state["momentum"]).to(parameter.dtype))


def gpt(folder: Path, **how: Any) -> Any:
    """A model that is loaded from files, as a user's is."""
    where = folder / "files"
    if not where.exists():
        untyped(transformers.GPT2LMHeadModel(transformers.GPT2Config(**LIVELY))).save_pretrained(
            where
        )
    return untyped(transformers.AutoModelForCausalLM.from_pretrained(where, **how)).train()


def mixed(folder: Path) -> Any:
    model = gpt(folder, dtype=torch.bfloat16)
    model.transformer.ln_f.float()
    model.transformer.ln_f.register_forward_hook(lambda m, args, out: out.bfloat16())
    model.transformer.ln_f.register_forward_pre_hook(lambda m, args: (args[0].float(),))
    return model


def checkpointing(folder: Path) -> Any:
    model = gpt(folder)
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        model.gradient_checkpointing_enable()
    return model


def adam(params: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=0.01, eps=1e-4)


Make = Callable[[Path], Any]
KINDS: dict[str, tuple[Make, Callable[[Any], torch.optim.Optimizer]]] = {
    "bfloat16": (lambda folder: gpt(folder, dtype=torch.bfloat16), adam),
    "float16": (lambda folder: gpt(folder, dtype=torch.float16), adam),
    "mixed": (mixed, adam),
    "float32 moments": (lambda folder: gpt(folder, dtype=torch.bfloat16), Float32Moments),
    "activations computed twice": (checkpointing, adam),
}


def kind_of(name: str, folder: Path) -> type[Language]:
    make, optimizer = KINDS[name]

    class Kind(Language):
        def __init__(self, context: PyTorchTrialContext) -> None:
            self.context = context
            self.model = context.wrap_model(make(folder))
            self.optimizer = context.wrap_optimizer(optimizer(self.model.parameters()))

    return Kind


def ending(context: PyTorchTrialContext) -> dict[str, torch.Tensor]:
    (model,), (wrapped,) = context.models, context.optimizers
    states = wrapped.optimizer.state_dict()["state"]
    moments = {f"{number} {name}": v for number, s in states.items() for name, v in s.items()}
    return {**model.state_dict(), **moments, "random": torch.rand(3)}


@pytest.mark.parametrize("name", KINDS)
def test_a_run_that_is_interrupted_ends_as_one_that_was_not(name: str, tmp_path: Path) -> None:
    kind = kind_of(name, tmp_path)
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = ending(Bench(tmp_path / "whole").train(SOURCE, 3, kind=kind))
    cut = Bench(tmp_path / "cut")
    cut.train(SOURCE, 3, kind=kind, stop=lambda context: context.batch == 1)
    cut.train(SOURCE, 3, kind=kind, stop=lambda context: context.batch == 4)
    ended = ending(cut.train(SOURCE, 3, kind=kind))
    assert ended.keys() == whole.keys()
    for key, value in whole.items():
        assert ended[key].dtype == value.dtype, key
        assert torch.isfinite(value).all(), key
        assert torch.equal(ended[key], value), key


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_what_is_handed_out_is_loaded_in_the_dtype_that_was_trained(
    name: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path)
    (trained,) = bench.train(SOURCE, 1, kind=kind_of(name, tmp_path)).models
    download(open_blobs(bench.blobs_url), bench.newest(SOURCE), tmp_path / "out")
    loaded = untyped(transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out"))
    assert loaded.dtype is getattr(torch, name)
    state = loaded.state_dict()
    assert all(torch.equal(state[key], value) for key, value in trained.state_dict().items())
