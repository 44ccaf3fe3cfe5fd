"""bfloat16 is refused where a GPU only emulates it, before anything is loaded."""

from __future__ import annotations

import pytest
import torch

from burst.core.config.experiment import Optimizations
from burst.harness import PyTorchTrialContext
from burst.harness.errors import TrialError
from burst.harness.precision import Hardware, check_bfloat16, computes_in_bfloat16, hardware_of
from burst.harness.trial import context as module
from burst.harness.trial.context import Setting

V100 = Hardware("cuda", "Tesla V100-SXM2-16GB", (7, 0))
T4 = Hardware("cuda", "Tesla T4", (7, 5))
A100 = Hardware("cuda", "NVIDIA A100-SXM4-40GB", (8, 0))
L4 = Hardware("cuda", "NVIDIA L4", (8, 9))
H100 = Hardware("cuda", "NVIDIA H100 80GB HBM3", (9, 0))
MI300 = Hardware("cuda", "AMD Instinct MI300X")
CPU, MPS = Hardware("cpu"), Hardware("mps")


@pytest.mark.parametrize(
    ("hardware", "has_it"),
    [(V100, False), (T4, False), (A100, True), (L4, True), (H100, True), (MI300, True),
     (CPU, True), (MPS, True)],
)  # fmt: skip
def test_gpus_have_it_from_ampere_on(hardware: Hardware, has_it: bool) -> None:
    assert computes_in_bfloat16(hardware) is has_it


def test_a_refusal_names_the_gpu_and_what_to_write_instead() -> None:
    check_bfloat16(A100, "bf16=True", "fp16=True")
    with pytest.raises(TrialError) as caught:
        check_bfloat16(T4, "bf16=True", "fp16=True")
    assert caught.value.what == "`bf16=True` asks for bfloat16, and Tesla T4 has none"
    assert "7.5" in caught.value.why
    assert "fp16=True" in caught.value.mend


def test_an_experiment_is_refused_before_its_trial_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(optimizations=Optimizations(mixed_precision="bf16"))
    PyTorchTrialContext(setting)
    monkeypatch.setattr(module, "hardware_of", lambda device: V100)
    with pytest.raises(TrialError, match=r"mixed_precision: bf16.*V100") as caught:
        PyTorchTrialContext(setting)
    assert "mixed_precision: fp16" in caught.value.mend
    context = PyTorchTrialContext(Setting())
    with pytest.raises(TrialError, match="asks for bfloat16"):
        context.experimental.use_amp(torch.bfloat16)
    context.experimental.use_amp(torch.float16)


def test_this_machines_processor_is_told_by_its_kind() -> None:
    assert hardware_of("cpu") == CPU
