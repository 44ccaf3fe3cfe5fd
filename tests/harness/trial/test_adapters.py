"""Models of peft: what is saved of them, what is handed out, and what they start from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import (
    AutoPeftModelForCausalLM,
    LoraConfig,
    PeftModel,
    PromptTuningConfig,
    get_peft_model,
    inject_adapter_in_model,
)
from torch import nn

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.download import download
from burst.core.checkpoints.reading import open_checkpoint
from burst.core.config.experiment import WarmStart
from burst.harness import PyTorchTrialContext
from burst.harness.errors import TrialError
from burst.harness.trial.exports import export_of
from burst.harness.trial.warm import load_weights
from tests.harness.trial.bench import SOURCE, TARGET, Bench
from tests.harness.trial.test_hand_out import CONFIG, Language, untyped

pytestmark = pytest.mark.filterwarnings(  # peft asks transformers by a name of before
    "ignore:`is_gradient_checkpointing`:FutureWarning"
)
WORDS = torch.arange(8)[None]


def gpt(**more: Any) -> Any:
    torch.manual_seed(3)
    config: dict[str, Any] = {**CONFIG, **more}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**config))


def lora(model: Any, **more: Any) -> Any:
    given: dict[str, Any] = {
        "target_modules": ["c_attn"],
        "r": 2,
        "fan_in_fan_out": True,
        "task_type": "CAUSAL_LM",
        **more,
    }
    return get_peft_model(model, LoraConfig(**given))


def two() -> Any:
    model = lora(gpt())
    second = LoraConfig(r=3, target_modules=["c_fc"], init_lora_weights=False, fan_in_fan_out=True)
    model.add_adapter("second", second)
    return model


def whole_modules() -> Any:
    return lora(gpt(), modules_to_save=["ln_f"], bias="lora_only", use_dora=True, task_type=None)


def on_tied_embeddings() -> Any:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return lora(gpt(), target_modules=["wte"])


def adapted(make: Callable[[], Any]) -> type[Language]:
    class Adapted(Language):
        def __init__(self, context: PyTorchTrialContext) -> None:
            self.context = context
            self.model = context.wrap_model(make())
            trained = [each for each in self.model.parameters() if each.requires_grad]
            self.optimizer = context.wrap_optimizer(torch.optim.AdamW(trained, lr=0.1))

    return Adapted


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def handed_out(bench: Bench, out: Path, **more: Any) -> list[str]:
    download(open_blobs(bench.blobs_url), bench.newest(SOURCE), out, **more)
    files = (path.relative_to(out) for path in out.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in files if path.parts[0] != ".burst-download")


def scores(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(input_ids=WORDS).logits
    return found


@pytest.mark.parametrize("make", [two, whole_modules, on_tied_embeddings])
def test_what_is_handed_out_is_what_peft_writes_and_reads(
    make: Callable[[], Any], bench: Bench, tmp_path: Path
) -> None:
    (trained,) = map(untyped, bench.train(SOURCE, 1, kind=adapted(make)).models)
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    handed_out(bench, out)
    trained.save_pretrained(theirs)
    weights = sorted(theirs.rglob("adapter_model.safetensors"))
    assert len(weights) == len(trained.peft_config)
    for path in weights:
        assert (out / path.relative_to(theirs)).read_bytes() == path.read_bytes()
    before = transformers.AutoModelForCausalLM.from_pretrained(out / "base")
    for name in trained.peft_config:
        trained.set_adapter(name)
        base = transformers.AutoModelForCausalLM.from_pretrained(out / "base")
        loaded = PeftModel.from_pretrained(base, out if name == "default" else out / name)
        assert torch.equal(scores(loaded), scores(trained))
        assert not torch.equal(scores(loaded), scores(before))


def test_an_adapter_finds_the_model_beside_it_where_it_names_none(
    bench: Bench, tmp_path: Path
) -> None:
    (trained,) = bench.train(SOURCE, 1, kind=adapted(lambda: lora(gpt()))).models
    assert handed_out(bench, tmp_path / "out") == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "base/config.json",
        "base/generation_config.json",
        "base/model.safetensors",
        "manifest.json",
        "state.json",
    ]
    loaded = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(scores(loaded), scores(trained))


def test_an_adapter_that_names_its_model_goes_on_naming_it(bench: Bench, tmp_path: Path) -> None:
    gpt().save_pretrained(tmp_path / "theirs")

    def make() -> Any:
        return lora(transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs"))

    (trained,) = map(untyped, bench.train(SOURCE, 1, kind=adapted(make)).models)
    names = handed_out(bench, tmp_path / "out", base=False)
    assert [name for name in names if name.startswith("base/")] == []
    trained.save_pretrained(tmp_path / "saved")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "saved" / name).read_bytes()
    loaded = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(scores(loaded), scores(trained))


def test_a_download_without_the_base_removes_the_one_that_an_earlier_call_wrote(
    bench: Bench, tmp_path: Path
) -> None:
    bench.train(SOURCE, 1, kind=adapted(two))
    handed_out(bench, tmp_path / "out")
    assert handed_out(bench, tmp_path / "out", base=False) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "manifest.json",
        "second/adapter_config.json",
        "second/adapter_model.safetensors",
        "state.json",
    ]
    assert not (tmp_path / "out" / "base").exists()


def test_only_adapters_and_their_optimizer_are_written_again(bench: Bench) -> None:
    kind = adapted(lambda: lora(gpt(n_embd=64, vocab_size=2000, n_positions=256)))
    bench.train(SOURCE, 1, kind=kind)
    first = bench.newest(SOURCE)
    bench.train(SOURCE, 2, kind=kind)
    blobs, second = open_blobs(bench.blobs_url), bench.newest(SOURCE)
    files = {entry.sha256 for entry in open_checkpoint(blobs, first).manifest.tensors}
    manifest = open_checkpoint(blobs, second).manifest
    new = sum(entry.size for entry in manifest.tensors if entry.sha256 not in files)
    assert first.id != second.id
    assert manifest.size > 900_000
    assert new < 40_000


def test_a_run_that_is_interrupted_ends_as_one_that_was_not(tmp_path: Path) -> None:
    kind = adapted(lambda: lora(gpt(), lora_dropout=0.3, modules_to_save=["ln_f"]))
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    (whole,) = Bench(tmp_path / "whole").train(SOURCE, 4, kind=kind).models
    cut = Bench(tmp_path / "cut")
    for stop in (1, 4, 5):
        cut.train(SOURCE, 4, kind=kind, stop=lambda context, at=stop: context.batch == at)  # type: ignore[misc]
    (ended,) = cut.train(SOURCE, 4, kind=kind).models
    for name, value in whole.state_dict().items():
        assert torch.equal(ended.state_dict()[name], value), name


def test_an_adapter_that_is_injected_is_handed_out_as_one_that_wraps(tmp_path: Path) -> None:
    config = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    model = untyped(inject_adapter_in_model(config, gpt()))
    model.peft_config, model._hf_peft_config_loaded = {"default": config}, True
    export, wrapped = export_of(model), export_of(lora(gpt(), task_type=None))
    assert export is not None
    assert wrapped is not None
    assert export["adapters"]["default"]["files"] == wrapped["adapters"]["default"]["files"]
    assert export["base"]["names"].keys() == wrapped["base"]["names"].keys()
    names, others = (each["adapters"]["default"]["names"] for each in (export, wrapped))
    assert names == {name: own.removeprefix("base_model.model.") for name, own in others.items()}


def test_compiling_a_model_does_not_change_what_is_handed_out() -> None:
    assert export_of(untyped(torch.compile(lora(gpt()), backend="eager"))) == export_of(
        lora(gpt())
    )


def test_a_model_with_a_prompt_is_kept_under_its_own_names() -> None:
    config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    assert export_of(untyped(get_peft_model(gpt(), config))) is None


def test_a_module_that_is_not_of_transformers_is_handed_out_with_its_adapter() -> None:
    model: nn.Module = untyped(
        get_peft_model(
            untyped(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))),
            LoraConfig(r=2, target_modules=["0"]),
        )
    )
    export = export_of(model)
    assert export is not None
    assert set(export["base"]["names"]) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert export["base"]["files"] == {}


# --- starting from others ----------------------------------------------------------------------


def test_adapters_start_over_the_weights_of_a_model_that_had_none(bench: Bench) -> None:
    (source,) = bench.train(SOURCE, 1, kind=Language).models
    saved = bench.newest(SOURCE).id

    def make() -> Any:
        return lora(gpt(), modules_to_save=["ln_f"])

    start = WarmStart(checkpoint=saved)
    stopped = bench.train(TARGET, 2, kind=adapted(make), start=start, stop=lambda c: c.batch == 1)
    (trained,) = map(untyped, stopped.models)
    before, after = source.state_dict(), trained.state_dict()
    name = "transformer.h.0.attn.c_attn"
    assert torch.equal(
        after[f"base_model.model.{name}.base_layer.weight"], before[f"{name}.weight"]
    )
    copied = make()
    load_weights([copied], {"models": [before]}, checkpoint=saved)
    assert torch.equal(scores(copied), scores(source))
    assert torch.equal(
        untyped(copied).transformer.ln_f.modules_to_save["default"].weight,
        untyped(source).transformer.ln_f.weight,
    )
    assert "of" in bench.events()[-1]


def test_the_weights_of_a_base_model_fit_under_the_adapters_of_one_with_a_head() -> None:
    base = untyped(transformers.GPT2Model(transformers.GPT2Config(**CONFIG)))
    model = lora(gpt())
    load_weights([model], {"models": [base.state_dict()]}, checkpoint="c")
    assert torch.equal(model.get_base_model().transformer.wte.weight, base.wte.weight)


def test_adapters_do_not_start_a_model_that_has_none() -> None:
    saved = lora(gpt()).state_dict()
    for partial in (False, True):
        with pytest.raises(TrialError, match="holds a model with adapters") as caught:
            load_weights([gpt()], {"models": [saved]}, checkpoint="c", partial=partial)
        assert "merge_and_unload" in caught.value.mend


@pytest.mark.parametrize("setting", [{"use_dora": True}, {"init_lora_weights": "pissa"}])
def test_adapters_that_are_made_of_weights_need_these_before(setting: dict[str, Any]) -> None:
    model, base = lora(gpt(), **setting), gpt()
    with pytest.raises(TrialError, match="were made of the weights") as caught:
        load_weights([model], {"models": [base.state_dict()]}, checkpoint="c")
    assert next(iter(setting)) in caught.value.why
    load_weights([model], {"models": [lora(gpt(), **setting).state_dict()]}, checkpoint="c")


def test_adapters_of_another_rank_are_told_by_their_shapes() -> None:
    with pytest.raises(TrialError, match="does not fit") as caught:
        load_weights([lora(gpt())], {"models": [lora(gpt(), r=4).state_dict()]}, checkpoint="c")
    assert "lora_A" in caught.value.why


def test_what_is_named_as_in_the_file_of_the_hub_fits_the_model() -> None:
    size: dict[str, Any] = {"image_size": 8, "patch_size": 4, "hidden_size": 8}
    config = transformers.ViTConfig(**size, num_hidden_layers=1, num_attention_heads=2)
    there, here = (untyped(transformers.ViTForImageClassification(config)) for _ in range(2))
    export, state = export_of(there), there.state_dict()
    assert export is not None
    named = {name: state[own] for name, own in export["names"].items()}
    assert named.keys() != state.keys()
    load_weights([here], {"models": [named]}, checkpoint="c")
    assert all(torch.equal(here.state_dict()[name], value) for name, value in state.items())
