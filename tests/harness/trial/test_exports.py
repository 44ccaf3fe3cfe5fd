"""The weights of a model of transformers are handed out as its own `save_pretrained` writes them,
byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.download import download
from tests.harness.trial.bench import SOURCE, Bench
from tests.harness.trial.test_hand_out import CONFIG, untyped

BERT: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 16,
}  # fmt: skip
T5: dict[str, Any] = {
    "vocab_size": 50, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_heads": 2,
    "decoder_start_token_id": 0,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "intermediate_size": 8,
}  # fmt: skip


def made(name: str) -> Any:
    models: dict[str, Any] = {
        "tied": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG)),
        "untied": lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(**CONFIG, tie_word_embeddings=False)
        ),
        "classifier": lambda: transformers.BertForSequenceClassification(
            transformers.BertConfig(**BERT)
        ),
        "masked": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**BERT)),
        "seq2seq": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**T5)),
        "bfloat16": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)).to(
            untyped(torch.bfloat16)
        ),
        "mixed": lambda: mixed(),
        "renamed": lambda: transformers.ViTForImageClassification(
            transformers.ViTConfig(**BERT, image_size=8, patch_size=4)
        ),
    }
    torch.manual_seed(1)
    return models[name]()


def mixed() -> Any:
    model = untyped(transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)))
    model.to(torch.bfloat16)
    model.model.norm.float()
    model.lm_head.to(torch.float16)
    return model


@pytest.mark.parametrize(
    "name",
    ["tied", "untied", "classifier", "masked", "seq2seq", "bfloat16", "mixed", "renamed"],
)
def test_the_file_is_the_one_that_save_pretrained_writes(name: str, tmp_path: Path) -> None:
    bench, model = Bench(tmp_path), made(name)
    script = bench.core(SOURCE)
    script.register_model(model)
    script.save({"net": model.state_dict()}, batches=1)
    script.close()
    download(open_blobs(bench.blobs_url), bench.newest(SOURCE), tmp_path / "out")
    model.save_pretrained(tmp_path / "theirs")
    ours = (tmp_path / "out" / "model.safetensors").read_bytes()
    assert ours == (tmp_path / "theirs" / "model.safetensors").read_bytes()
    loaded = type(model).from_pretrained(tmp_path / "out", dtype="auto")
    for key, value in model.state_dict().items():
        assert loaded.state_dict()[key].dtype == value.dtype or name == "mixed"
        assert torch.equal(loaded.state_dict()[key].float(), value.float())
