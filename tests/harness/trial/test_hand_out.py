"""What leaves burst and what comes in: models that transformers loads, and files of torch."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange.download import download
from burst.core.checkpoints.exchange.importing import import_model
from burst.core.clock import SystemClock
from burst.core.errors import NotFound, UsageError
from burst.core.model import Checkpoint, Experiment, Trial
from burst.core.store import update
from burst.core.workspace import Workspace, open_workspace
from burst.harness import DataLoader, PyTorchTrial, PyTorchTrialContext, importing
from burst.harness.errors import TrialError
from burst.harness.importing import open_torch
from burst.harness.rehearse import UNTRIED, rehearse
from burst.harness.trial.exports import export_of, tokenizer_files
from burst.harness.trial.warm import fit, load_weights
from tests.harness.trial.bench import SOURCE, Bench
from tests.harness.trial.lab import EXPERIMENT, HPARAMS

CONFIG: dict[str, Any] = {
    "vocab_size": 50, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip


def untyped(value: Any) -> Any:
    """For what the stubs of a library do not know."""
    return value


def tokenizer() -> Any:
    words = models.WordLevel({"[UNK]": 0, **{f"w{n}": n for n in range(1, 50)}}, unk_token="[UNK]")
    made = Tokenizer(words)
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    fast: Any = transformers.PreTrainedTokenizerFast
    return fast(tokenizer_object=made, unk_token="[UNK]")


class Language(PyTorchTrial):
    """A tiny GPT-2, whose output weights are its embedding's."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG))
        self.model = context.wrap_model(gpt)
        context.register_tokenizer(tokenizer())
        self.optimizer = context.wrap_optimizer(torch.optim.AdamW(self.model.parameters()))

    def build_training_data_loader(self) -> DataLoader:
        rows: Any = [torch.arange(8) + n for n in range(8)]
        return DataLoader(rows, batch_size=4, shuffle=True)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        loss = self.model(input_ids=batch, labels=batch).loss
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"validation_loss": self.model(input_ids=batch, labels=batch).loss}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.slow
def test_from_pretrained_loads_what_is_downloaded_without_a_word(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = bench.train(SOURCE, 1, kind=Language)
    (trained,) = map(untyped, context.models)
    out = tmp_path / "out"
    download(open_blobs(bench.blobs_url), bench.newest(SOURCE), out, shard_bytes=2000)
    logging: Any = transformers.logging
    logging.set_verbosity_warning()
    logging.enable_propagation()
    caplog.clear()
    loaded = untyped(transformers.AutoModelForCausalLM.from_pretrained(out))
    words = transformers.AutoTokenizer.from_pretrained(out)
    logging.disable_propagation()
    assert [r.message for r in caplog.records if r.levelname == "WARNING"] == []
    assert type(loaded) is type(trained)
    assert loaded.lm_head.weight is loaded.transformer.wte.weight
    for name, value in trained.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)
    assert words("w3 w4 x")["input_ids"] == [3, 4, 0]


def test_the_file_holds_what_save_pretrained_writes(bench: Bench, tmp_path: Path) -> None:
    context = bench.train(SOURCE, 1, kind=Language)
    (trained,) = context.models
    download(open_blobs(bench.blobs_url), bench.newest(SOURCE), tmp_path / "out")
    trained.save_pretrained(tmp_path / "theirs")  # type: ignore[operator]
    ours = load_file(tmp_path / "out" / "model.safetensors")
    theirs = load_file(tmp_path / "theirs" / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    config = json.loads((tmp_path / "out" / "config.json").read_bytes())
    for name, value in json.loads((tmp_path / "theirs" / "config.json").read_bytes()).items():
        assert config[name] == value


def test_a_script_registers_what_others_need_to_load_its_model(
    bench: Bench, tmp_path: Path
) -> None:
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG))
    script = bench.core(SOURCE)
    script.register_model(gpt, tokenizer())
    script.save({"net": gpt.state_dict(), "step": 3}, batches=1)
    script.close()
    out = tmp_path / "out"
    download(open_blobs(bench.blobs_url), bench.newest(SOURCE), out)
    loaded = untyped(transformers.AutoModelForCausalLM.from_pretrained(out))
    for name, value in gpt.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)
    assert transformers.AutoTokenizer.from_pretrained(out)("w3")["input_ids"] == [3]


@pytest.mark.parametrize("tied", [True, False])
def test_names_are_left_out_only_where_they_are_tied(tied: bool) -> None:
    config = transformers.GPT2Config(**CONFIG, tie_word_embeddings=tied)
    export = export_of(transformers.GPT2LMHeadModel(config))
    assert export is not None
    assert export["left_out"] == (["lm_head.weight"] if tied else [])
    bert = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8,
    )  # fmt: skip
    found = export_of(transformers.BertModel(bert))
    assert found is not None
    assert (found["left_out"], list(found["files"])) == ([], ["config.json"])


def test_a_model_that_is_not_of_transformers_has_nothing_to_export() -> None:
    assert export_of(nn.Linear(2, 2)) is None


def test_what_writes_no_files_is_no_tokenizer() -> None:
    with pytest.raises(TrialError, match="no tokenizer"):
        tokenizer_files(object())

    class Folders:
        def save_pretrained(self, folder: str) -> None:
            (Path(folder) / "more").mkdir()

    with pytest.raises(TrialError, match="do not fit"):
        tokenizer_files(Folders())


def test_a_base_model_fits_the_model_that_has_it_as_a_part_and_the_other_way_round() -> None:
    config = transformers.GPT2Config(**CONFIG)
    base, head = transformers.GPT2Model(config), transformers.GPT2LMHeadModel(config)
    state = base.state_dict()
    state["h.0.attn.bias"] = torch.ones(1)  # a mask that older files have, and the model ignores
    assert fit(head, state).whole
    load_weights([head], {"models": [state]}, checkpoint="c")
    assert torch.equal(untyped(head).transformer.wte.weight, untyped(base).wte.weight)
    other = transformers.GPT2Model(config)
    found = fit(other, head.state_dict())
    assert (found.missing, found.unexpected) == ((), ("lm_head.weight",))
    assert len(found.taken) == len(base.state_dict())


# --- files of torch ----------------------------------------------------------------------------


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return open_workspace({"BURST_HOME": str(tmp_path / "home")}, tmp_path)


def bring(ws: Workspace, path: Path, key: str = "") -> Checkpoint:
    return import_model(ws.blobs, ws.store, open_torch(path, key), SystemClock())


def tensors() -> dict[str, torch.Tensor]:
    shared = torch.arange(6.0)
    return {
        "a": shared,
        "tied": shared,
        "b": torch.arange(12, dtype=torch.bfloat16).view(3, 4).t(),
        "c": torch.tensor(5),
        "d": torch.zeros(0, 3),
        "e": torch.arange(4).to(torch.float8_e4m3fn),
        "part": torch.arange(10)[2:5],
    }


@pytest.mark.parametrize("zipped", [True, False])
def test_a_state_dict_comes_in_to_the_bit(ws: Workspace, tmp_path: Path, zipped: bool) -> None:
    saved = tensors()
    if not zipped:
        del saved["e"]  # which torch itself cannot read back from its old format
    torch.save(saved, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    record = bring(ws, tmp_path / "m.pt")
    download(ws.blobs, record, tmp_path / "out")
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == saved.keys()
    for name, value in saved.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        assert torch.equal(found[name].float(), value.float())
    assert rehearse(ws.store, record.id).good


@pytest.mark.parametrize(
    ("saved", "key"),
    [
        ({"state_dict": "it", "epoch": 3}, ""),
        ({"model": "it", "optimizer": {"state": {0: {"m": "it"}}, "param_groups": []}}, ""),
        ({"model": "it", "ema": "it"}, "ema"),
        ({"deep": {"er": "it"}}, ""),
        ({"deep": {"er": "it"}, "other": "it"}, "deep.er"),
    ],
)
def test_the_state_dict_is_found_in_what_people_save(tmp_path: Path, saved: Any, key: str) -> None:
    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: fill(item) for name, item in node.items()}
        return OrderedDict(w=torch.ones(2), v=torch.ones(3)) if node == "it" else node

    torch.save(fill(saved), tmp_path / "m.pt")
    assert [tensor.name for tensor in open_torch(tmp_path / "m.pt", key).tensors] == ["w", "v"]


def test_what_wrappers_put_before_names_is_taken_away(tmp_path: Path) -> None:
    torch.save({f"module._orig_mod.{n}": torch.ones(2) for n in "ab"}, tmp_path / "m.pt")
    assert [tensor.name for tensor in open_torch(tmp_path / "m.pt").tensors] == ["a", "b"]


def test_an_old_folder_of_transformers_comes_in(ws: Workspace, tmp_path: Path) -> None:
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG))
    gpt.save_pretrained(tmp_path / "hub")
    (tmp_path / "hub" / "model.safetensors").unlink()
    state = gpt.state_dict()
    half = {name: state[name] for name in list(state)[:5]}
    rest = {name: value for name, value in state.items() if name not in half}
    torch.save(half, tmp_path / "hub" / "pytorch_model-1.bin")
    torch.save(rest, tmp_path / "hub" / "pytorch_model-2.bin")
    where = {name: f"pytorch_model-{1 if name in half else 2}.bin" for name in state}
    index = json.dumps({"weight_map": where})
    (tmp_path / "hub" / "pytorch_model.bin.index.json").write_text(index)
    record = bring(ws, tmp_path / "hub")
    download(ws.blobs, record, tmp_path / "out")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    for name, value in state.items():
        assert torch.equal(loaded.state_dict()[name], value)


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("code was run",))


def test_nothing_in_a_file_is_run_and_the_refusal_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"w": torch.ones(2), "x": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(UsageError, match="would run code") as caught:
        open_torch(tmp_path / "evil.pt")
    assert "print" in caught.value.why
    torch.save(nn.Linear(2, 2), tmp_path / "whole.pt")
    with pytest.raises(UsageError, match="would run code"):
        open_torch(tmp_path / "whole.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UsageError):
        open_torch(tmp_path / "plain.pt")
    assert "code was run" not in capsys.readouterr().out


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04 and no more", b"\x80\x04."])
def test_a_file_that_torch_cannot_read_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.pt").write_bytes(data)
    with pytest.raises(UsageError):
        open_torch(tmp_path / "x.pt")


def test_what_holds_no_state_dict_or_several_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_torch(tmp_path / "nothing.pt")
    torch.save({"epoch": 3}, tmp_path / "x.pt")
    with pytest.raises(UsageError, match="holds no state dict") as caught:
        open_torch(tmp_path / "x.pt")
    assert "epoch" in caught.value.why
    torch.save({"g": {"w": torch.ones(1)}, "d": {"w": torch.ones(1)}}, tmp_path / "x.pt")
    with pytest.raises(UsageError, match="more than one") as caught:
        open_torch(tmp_path / "x.pt")
    assert caught.value.why == "g, d"
    with pytest.raises(UsageError, match="no state dict at 'q'"):
        open_torch(tmp_path / "x.pt", "q")
    torch.save({"w": torch.ones(3).to_sparse()}, tmp_path / "x.pt")
    with pytest.raises(UsageError, match="cannot be kept") as caught:
        open_torch(tmp_path / "x.pt")
    assert "to_dense" in caught.value.mend


def test_tensors_that_are_to_be_conjugated_or_negated_come_in_as_they_read(
    ws: Workspace, tmp_path: Path
) -> None:
    number, other = torch.tensor([1 + 2j, 3 - 4j]), torch.tensor([1 + 2j])
    saved = {"w": number.conj(), "n": other.conj().imag}
    torch.save(saved, tmp_path / "m.pt")
    record = import_model(ws.blobs, ws.store, open_torch(tmp_path / "m.pt"), SystemClock())
    download(ws.blobs, record, tmp_path / "out")
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(found[name], value) for name, value in saved.items())


def test_a_program_of_torchscript_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        for name in ("constants.pkl", "data.pkl", "version"):
            archive.writestr(f"m/{name}", b"3\n")
    with pytest.raises(UsageError, match="TorchScript") as caught:
        open_torch(tmp_path / "m.pt")
    assert "weights_only" not in str(caught.value)


def test_what_needs_more_memory_than_there_is_is_told(
    ws: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def allocate(*args: Any, **named: Any) -> None:
        raise RuntimeError("can't allocate memory\nand more")

    monkeypatch.setattr(importing, "import_model", allocate)
    torch.save({"w": torch.ones(3)}, tmp_path / "m.pt")
    words = [str(tmp_path / "m.pt"), "--store", ws.store.url, "--blobs", ws.blobs.url]
    assert importing.main(words) == 1
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["error"]
    assert "m.pt could not be imported" in told["what"]
    assert told["why"] == "RuntimeError: can't allocate memory"


# --- rehearsals with torch ---------------------------------------------------------------------


def test_a_rehearsal_restores_all_of_a_trial_and_compares_it(bench: Bench) -> None:
    bench.train(SOURCE, 1)
    record = bench.newest(SOURCE)
    found = rehearse(bench.store, record.id)
    assert (found.good, found.problems, found.notes) == (True, [], [])
    assert found.tensors > 20
    assert found.size == record.size


def test_a_rehearsal_with_the_code_builds_the_trial(bench: Bench, tmp_path: Path) -> None:
    bench.train(SOURCE, 1)
    code = tmp_path / "code"
    code.mkdir()
    (code / "tiny_code.py").write_text(
        "from tests.harness.trial.lab import TinyTrial\n"
        "class Other(TinyTrial):\n"
        "    def __init__(self, context):\n"
        "        super().__init__(context)\n"
        "        import torch\n"
        "        self.model[0] = torch.nn.Linear(6, 9)\n"
    )

    def entry(name: str) -> None:
        config = {
            "name": "x", "entrypoint": f"tiny_code:{name}", "hyperparameters": {},
            "searcher": {"name": "single"}, "reproducibility": {"experiment_seed": 1},
        }  # fmt: skip

        update(
            bench.store, Experiment, EXPERIMENT, lambda e: e.model_copy(update={"config": config})
        )

        update(bench.store, Trial, SOURCE, lambda t: t.model_copy(update={"hparams": HPARAMS}))

    entry("TinyTrial")
    id = bench.newest(SOURCE).id
    found = rehearse(bench.store, id, code=code)
    assert (found.good, found.problems) == (True, [])
    assert "loaded into the trial" in found.what
    entry("Other")
    found = rehearse(bench.store, id, code=code)
    assert not found.good
    assert "does not fit" in found.problems[0]["text"]


@pytest.mark.slow
def test_the_process_says_in_json_and_by_its_status_what_it_found(bench: Bench) -> None:
    bench.train(SOURCE, 1)
    record = bench.newest(SOURCE)

    def run(id: str) -> subprocess.CompletedProcess[str]:
        words = ["-m", "burst.harness.rehearse", "--store", bench.store.url, "--checkpoint", id]
        return subprocess.run([sys.executable, *words], capture_output=True, text=True)

    good = run(record.id)
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout.splitlines()[-1])["good"] is True
    (path, *_) = sorted((bench.folder / "blobs").rglob("*.safetensors"))
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    bad = run(record.id)
    assert bad.returncode == 1
    (problem,) = json.loads(bad.stdout.splitlines()[-1])["problems"]
    assert path.name in problem["text"]
    none = run("ckpt-1m3k9zq4w7c")
    assert none.returncode >= UNTRIED
    assert none.stdout == ""


def test_what_was_saved_of_a_type_that_is_not_known_here_is_noted_and_no_fault(
    bench: Bench,
) -> None:
    from burst.harness.checkpoints.codec import state_types

    class Odd:
        pass

    state_types.register_state_type(Odd, lambda odd: [1, 2], lambda items: Odd(), name="tests.Odd")
    writer = bench.core(SOURCE)
    writer.save({"odd": Odd(), "kinds": {"a", "b"}}, batches=1)
    writer.close()
    del state_types._by_name["tests.Odd"], state_types._by_type[Odd]
    found = rehearse(bench.store, bench.newest(SOURCE).id)
    assert found.good
    assert found.notes == ["objects of tests.Odd were not made: nothing here registers it"]


def test_every_layout_of_tensors_comes_back_in_a_rehearsal(bench: Bench) -> None:
    net = untyped(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    net = net.to(memory_format=torch.channels_last)
    writer = bench.core(SOURCE)
    writer.save(
        {
            "net": net.state_dict(),
            "transposed": torch.arange(12.0).view(3, 4).t(),
            "empty": torch.zeros(0),
            "complex": torch.ones(3, dtype=torch.complex64),
            "number": torch.tensor(3),
            "long": bytes(range(256)) * 8,
        },
        batches=1,
    )
    writer.close()
    found = rehearse(bench.store, bench.newest(SOURCE).id)
    assert (found.good, found.problems) == (True, [])
