"""The states that training really has: they come back equal, and training goes on equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.harness.checkpoints.support import Lab, request, same


def restored(lab: Lab, shared: Any) -> Any:
    engine = lab.engine()
    engine.save(request(shared))
    assert engine.poll() == []
    found = lab.engine().restore()
    assert found is not None
    assert same(found.shared, shared)
    return found.shared


def train(model: nn.Module, optimizer: Any, steps: int, start: int = 0) -> None:
    for step in range(start, start + steps):
        torch.manual_seed(step)
        inputs = torch.rand(8, 6, dtype=next(model.parameters()).dtype)

        def closure(inputs: torch.Tensor = inputs) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model(inputs).float().pow(2).mean()
            loss.backward()
            return loss

        optimizer.step(closure)


def build() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))


_OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    lambda p: torch.optim.AdamW(p, 0.01, fused=True),
    lambda p: torch.optim.Adagrad(p, 0.01),
    lambda p: torch.optim.RMSprop(p, 0.01, centered=True, momentum=0.5),
    lambda p: torch.optim.Rprop(p, 0.01),
    lambda p: torch.optim.NAdam(p, 0.01),
    lambda p: torch.optim.Adafactor(p, 0.01),
    lambda p: torch.optim.LBFGS(p, 0.1, max_iter=3, history_size=2),
    lambda p: torch.optim.SGD([{"params": [q], "lr": 0.1 * i} for i, q in enumerate(p)], 0.1),
]


@pytest.mark.parametrize("make", _OPTIMIZERS)
@pytest.mark.parametrize("steps", [0, 3])
def test_an_optimizer_goes_on_as_if_nothing_had_been(lab: Lab, make: Any, steps: int) -> None:
    model = build()
    optimizer = make(model.parameters())
    train(model, optimizer, steps)
    state = {"models": [model.state_dict()], "optimizers": [optimizer.state_dict()]}
    back = restored(lab, state)

    other = build()
    resumed = make(other.parameters())
    other.load_state_dict(back["models"][0])
    resumed.load_state_dict(back["optimizers"][0])
    train(model, optimizer, 3, steps)
    train(other, resumed, 3, steps)
    assert same(other.state_dict(), model.state_dict())
    assert same(resumed.state_dict(), optimizer.state_dict())


def test_state_that_an_optimizer_creates_late_comes_back(lab: Lab) -> None:
    model = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    optimizer = torch.optim.Adam(model.parameters())
    model[0](torch.rand(2, 3)).sum().backward()
    optimizer.step()  # the second layer has no gradients, and so no state
    back = restored(lab, {"optimizers": [optimizer.state_dict()]})
    assert sorted(back["optimizers"][0]["state"]) == [0, 1]


def test_fp32_moments_beside_bf16_parameters_keep_their_precision(lab: Lab) -> None:
    moment = torch.rand(4, 4, dtype=torch.float32)
    state = {
        "models": [{"w": torch.rand(4, 4, dtype=torch.bfloat16)}],
        "optimizers": [{"state": {0: {"exp_avg": moment, "step": torch.tensor(3.0)}}}],
    }
    back = restored(lab, state)
    assert back["optimizers"][0]["state"][0]["exp_avg"].dtype is torch.float32


def test_tied_weights_are_stored_once_and_load_into_a_tied_model(lab: Lab) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(1000, 8)
            self.head = nn.Linear(8, 1000, bias=False)
            self.head.weight = self.embed.weight

    model = Tied()
    back = restored(lab, {"models": [model.state_dict()]})
    assert back["models"][0]["embed.weight"] is back["models"][0]["head.weight"]
    assert lab.records()[0].size < 2 * model.embed.weight.nbytes
    other = Tied()
    other.load_state_dict(back["models"][0])
    assert other.head.weight is other.embed.weight
    assert torch.equal(other.head.weight, model.head.weight)


def test_schedulers_scalers_and_averaged_models_come_back(lab: Lab) -> None:
    model = build()
    optimizer = torch.optim.AdamW(model.parameters())
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], [3])
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD(model.parameters()))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15)
    average = torch.optim.swa_utils.AveragedModel(model)
    for step in range(5):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.rand(8, 6)).float().mean() * (float("inf") if step == 2 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        plateau.step(1.0)
        average.update_parameters(model)
    assert scaler.get_scale() == 2.0**14
    restored(
        lab,
        {
            "optimizer": optimizer.state_dict(),
            "schedulers": [scheduler.state_dict(), plateau.state_dict()],
            "scaler": scaler.state_dict(),
            "average": average.state_dict(),
        },
    )


def test_a_compiled_modules_state_has_the_names_it_gives(lab: Lab) -> None:
    compiled: Any = torch.compile(build(), backend="eager")
    back = restored(lab, {"models": [compiled.state_dict()]})
    assert list(back["models"][0]) == list(compiled.state_dict())


def test_later_training_does_not_reach_into_what_was_saved(lab: Lab) -> None:
    model = build()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    engine = lab.engine()
    engine.save(request({"models": [model.state_dict()]}))
    train(model, optimizer, 1, 1)
    found = lab.engine().restore()
    assert found is not None
    assert same(dict(found.shared["models"][0]), before)
