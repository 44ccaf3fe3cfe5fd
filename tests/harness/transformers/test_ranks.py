"""A Trainer over two ranks, in real processes, ends as under torchrun, whenever it is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burst.core.model import ExitKind
from tests.harness.launching import Site

SCRIPT = """
import os, sys
from pathlib import Path
from transformers import TrainerCallback
from tests.harness.transformers.house import (
    Rows, arguments, classifier, hub_stream, padded,
)
from transformers import Trainer, set_seed

class Asks(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        folder = os.environ.get("BURST_LAUNCH")
        if folder is None or args.process_index or state.global_step not in {stops}:
            return
        from burst.core.launch import Stop, StopFlag
        folder = Path(folder).parent
        if not list(folder.parent.glob(f"asked{{state.global_step}}")):
            (folder.parent / f"asked{{state.global_step}}").touch()
            StopFlag(folder / "stop").set(Stop.DRAIN)

set_seed(7)
model = classifier()
args = arguments(Path("out"), **{changes!r})
{first}
trainer = Trainer(
    model=model, args=args, data_collator=padded,
    train_dataset={data}, eval_dataset=Rows(9), callbacks=[Asks()],
)
trainer.train()
trainer.save_model(os.environ["RESULT"])
print("log", [round(row["loss"], 6) for row in trainer.state.log_history if "loss" in row])
"""


SHARDED = """
from accelerate import PartialState
from accelerate.utils import DistributedType
args.device  # accelerate shards on GPUs only, and is told here that these are such
PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
"""


def script(
    stops: list[int], first: str = "", data: str = "Rows(noisy=True)", **changes: Any
) -> str:
    return SCRIPT.format(stops=set(stops), changes=changes, first=first, data=data)


def environment(result: Path) -> dict[str, str]:
    root = Path(__file__).parents[3]
    return {"RESULT": str(result), "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}


def alone(folder: Path, code: str, ranks: int) -> bytes:
    folder.mkdir()
    (folder / "train.py").write_text(code)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    environ = {**os.environ, **environment(folder / "result"), "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(
        [*words, f"--nproc_per_node={ranks}", "train.py"],
        cwd=folder,
        env=environ,
        check=True,
        capture_output=True,
        timeout=240,
    )
    return (folder / "result" / "model.safetensors").read_bytes()


def left_and_gone_on(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> bytes:
    for name, value in environment(folder / "result").items():
        monkeypatch.setenv(name, value)
    searcher = {"name": "single", "metric": "eval_loss"}
    site = Site(folder, code, ["python", "train.py"], searcher=searcher)
    ends = [site.run(ranks=2) for _ in range(3)]
    assert [end.status for end in ends] == [0, 0, 0], ends[0].logs
    kinds = [end.outcome.kind for end in ends if end.outcome is not None]
    assert kinds == [ExitKind.DRAINED] * 2 + [ExitKind.COMPLETED]
    return (folder / "result" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_two_ranks_that_were_left_end_as_under_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = script([2, 6])
    found = left_and_gone_on(tmp_path, monkeypatch, code)
    assert found == alone(tmp_path / "alone", code, 2)


@pytest.mark.slow
def test_so_do_two_ranks_that_share_a_model_by_fsdp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"version": 2, "transformer_layer_cls_to_wrap": ["BertLayer"]}
    config["state_dict_type"] = "FULL_STATE_DICT"
    code = script([2, 6], SHARDED, fsdp=True, fsdp_config=config, max_steps=8)
    found = left_and_gone_on(tmp_path, monkeypatch, code)
    assert found == alone(tmp_path / "alone", code, 2)


@pytest.mark.slow
def test_so_do_two_ranks_of_which_one_reads_a_stream_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "hub_stream(noisy=True, ragged=False)"
    code = script([2, 5], data=data, max_steps=7, dataloader_drop_last=True)
    found = left_and_gone_on(tmp_path, monkeypatch, code)
    assert found == alone(tmp_path / "alone", code, 2)
