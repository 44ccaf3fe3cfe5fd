"""What trials are made of: each kind of state is saved after every batch while training goes on,
the process dies, and the run that goes on ends as one that was never disturbed, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from burst.core.model import ExitKind
from burst.harness import Batch, PyTorchCallback, PyTorchTrialContext
from tests.harness.trial.lab import Lab, Result, TinyTrial


class Killed(Exception):
    """The process is gone."""


class Mortal(TinyTrial):
    """Dies in the batch that a test says."""

    at: int | None = None

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == self.at:
            raise Killed
        return super().train_batch(batch, epoch_idx, batch_idx)


class Averaged(Mortal):
    """Keeps an average of the weights, which is trained by no optimizer."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        context.wrap_model(self.average)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        self.average.update_parameters(self.model)
        return metrics


class Compiled(Mortal):
    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        model: Any = self.model
        model.compile(backend="eager")


class _TiedNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.again = nn.Linear(6, 6)
        self.again.weight = self.inner.weight
        self.head = nn.Linear(6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.again(torch.tanh(self.inner(x))))
        return out


class _OddNet(nn.Module):
    """Memory as it comes: channels last, a transposed parameter, one that is empty, one of half
    precision, buffers that forward changes and one that it replaces."""

    calls: torch.Tensor
    last: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(6, 16)
        self.conv = nn.Conv2d(4, 4, 1)
        self.conv.weight.data = self.conv.weight.data.to(memory_format=torch.channels_last)
        self.turned = nn.Parameter(torch.randn(4, 16).t() * 0.1)
        self.empty = nn.Parameter(torch.zeros(0, 3))
        self.brief = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        self.norm = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 1))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        image = self.lift(x).view(-1, 4, 2, 2)
        flat = self.conv(image).reshape(-1, 16) @ self.turned * self.brief.float()
        self.last = flat.detach().mean(0)
        out: torch.Tensor = self.norm(flat)
        return out


class Tied(Mortal):
    def net(self) -> nn.Module:
        return _TiedNet()


class Odd(Mortal):
    def net(self) -> nn.Module:
        return _OddNet()


class Scaled(Mortal):
    """Mixed precision, whose scale has a history: a batch overflows now and then."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.scaler = context.wrap_scaler(
            torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=2)
        )

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == self.at:
            raise Killed
        x, y = batch
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.mse_loss(self.model(x).float(), y)
        if batch_idx % 5 == 3:
            loss = loss * float("inf")
        self.context.backward(self.scaler.scale(loss))
        self.context.step_optimizer(self.optimizer, scaler=self.scaler)
        self.scaler.update()
        self.largest.update(loss.item())
        return {"loss": self.scaler.get_scale()}


class _Unfreezing(PyTorchCallback):
    """Has the optimizer know, before its state is put back, of what was added to it later."""

    def __init__(self, trial: Growing) -> None:
        self.trial = trial

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any] | None) -> None:
        if checkpoint and len(checkpoint["optimizers"][0]["param_groups"]) > 1:
            self.trial.unfreeze()


class Growing(Mortal):
    """Trains its head alone at first; the rest is handed to the optimizer in the fourth batch."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        for parameter in self._trunk():
            parameter.requires_grad_(False)
        inner = self.optimizer
        inner.param_groups.clear()
        inner.add_param_group({"params": list(self._layers()[-1].parameters())})

    def _layers(self) -> list[nn.Module]:
        return list(self.model.children())

    def _trunk(self) -> list[nn.Parameter]:
        return [p for layer in self._layers()[:-1] for p in layer.parameters()]

    def unfreeze(self) -> None:
        rest = self._trunk()
        for parameter in rest:
            parameter.requires_grad_(True)
        self.optimizer.add_param_group({"params": rest, "lr": 0.003})

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {**super().build_callbacks(), "unfreezing": _Unfreezing(self)}

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 4:
            self.unfreeze()
        return super().train_batch(batch, epoch_idx, batch_idx)


KINDS: list[type[Mortal]] = [Mortal, Averaged, Compiled, Tied, Odd, Scaled, Growing]


def _run(folder: Path, kind: type[Mortal], deaths: tuple[int, ...]) -> tuple[Lab, Result]:
    lab = Lab(folder, background=True)
    often: dict[str, Any] = {"checkpoint_period": Batch(1), "frequency": 1}
    for at in deaths:
        mortal = type(kind.__name__, (kind,), {"at": at})
        with pytest.raises(Killed):
            lab.attempt(mortal, **often)
    return lab, lab.attempt(kind, **often)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_dies_again_and_again_ends_as_if_it_never_had(
    tmp_path: Path, kind: type[Mortal]
) -> None:
    lab, result = _run(tmp_path / "a", kind, (3, 4, 9))
    undisturbed, expected = _run(tmp_path / "b", kind, ())
    assert result.outcome.kind is expected.outcome.kind is ExitKind.COMPLETED
    assert result.state == expected.state
    for group in ("training", "validation"):
        assert lab.rows(group) == undisturbed.rows(group)
