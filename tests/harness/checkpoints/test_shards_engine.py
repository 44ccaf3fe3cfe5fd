"""Ranks that hold a model alike, as DDP has it, and the engine: the work is shared out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from burst.core.checkpoints.format.manifest import Manifest
from burst.harness.collective import Collective
from tests.harness.checkpoints.support import Gang, Lab, request, same


def trained(width: int = 40) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(30, width), nn.BatchNorm1d(width), nn.Linear(width, 30))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.rand(8, 30)).square().mean().backward()
    optimizer.step()
    return model, optimizer


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {"models": [model.state_dict()], "optimizers": [optimizer.state_dict()]}


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_the_writing_and_nothing_is_written_twice(lab: Lab, ranks: int) -> None:
    whole = state(*trained())
    alike = [trained() for _ in range(ranks)]  # before there are threads that draw at once

    def save(rank: Collective) -> Any:
        model, optimizer = alike[rank.rank]
        if rank.rank:
            with torch.no_grad():
                model[1].get_buffer("running_mean").fill_(
                    rank.rank
                )  # buffers differ, and rank 0's count
        engine = lab.engine(rank)
        engine.save(request(state(model, optimizer), optimizers=[optimizer]))
        return engine.wait(60), engine.poll()

    assert Gang(ranks).run(save) == [(True, [])] * ranks
    (record,) = lab.records()
    manifest = Manifest.decode(lab.blobs.get(record.manifest))
    sizes = [entry.size for entry in manifest.tensors]
    tensors = [t for part in whole["models"] for t in part.values()]
    tensors += [t for each in whole["optimizers"][0]["state"].values() for t in each.values()]
    data = sum(tensor.nbytes for tensor in tensors)
    assert len(manifest.tensors) >= ranks
    assert data <= sum(sizes) <= data + 2048 * len(sizes)
    assert max(sizes) < data * 2 / 3
    found = lab.engine().restore()
    assert found is not None
    assert same(dict(found.shared["models"][0]), dict(whole["models"][0]))
    assert same(found.shared["optimizers"], whole["optimizers"])


def test_ranks_with_different_models_are_told_by_name_and_save_nothing(lab: Lab) -> None:
    different = [trained(40), trained(41)]

    def save(rank: Collective) -> list[str]:
        model, optimizer = different[rank.rank]
        engine = lab.engine(rank)
        engine.save(request(state(model, optimizer), optimizers=[optimizer]))
        engine.wait(60)
        return engine.poll()

    warnings = Gang(2).run(save)
    for of_rank in warnings:
        (text,) = of_rank
        assert "the ranks hold different states: shared.models.0.0.weight" in text
        assert "(40, 30)" in text
        assert "(41, 30)" in text
    assert lab.records() == []
