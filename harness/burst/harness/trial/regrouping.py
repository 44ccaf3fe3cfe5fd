"""Going on with another number of ranks than before: what each rank had summed up for itself is
taken over by those that are there now.

Under DDP a rank's gradients are its own until an optimizer steps, and are averaged then. So every
rank goes on with the average of all ranks' sums: averaged with what comes, that is what the step
would have seen. Collective in all that it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from burst.harness.checkpoints.shards import is_sharded
from burst.harness.trial.held import Held, Sums


def take_over(
    context: Held,
    metrics: Sums,
    halves: Sequence[Mapping[str, Any]],
    before: int,
) -> list[str]:
    """Put the own halves of ranks that this rank stands for together; returns what of them is
    left out, the same on every rank.

    Args:
        metrics: has what the first of `halves` had.
        halves: none of them on a rank that is new.
        before: the number of ranks then.
    """
    for half in halves[1:]:
        metrics.add_state(half["metrics"])
    left_out = []
    if not all(
        [
            _average(model, [half["gradients"][number] for half in halves], before, context)
            for number, model in enumerate(context.models)
        ]
    ):
        left_out.append("sparse gradients accumulated by another number of ranks are dropped")
    gathering = any(wrapped.for_training for wrapped in context.reducers)
    if gathering and any(context.distributed.allgather(len(halves) > 1)):
        left_out.append("what ranks that are gone had gathered for metrics is left out")
    return left_out


def _average(
    model: nn.Module,
    sums: Sequence[Mapping[str, Any]],
    before: int,
    context: Held,
) -> bool:
    """Give a model the average of what `before` ranks had summed up; False, and it has nothing, if
    some of that is sparse."""
    gang = context.distributed
    sparse = any(isinstance(value, Mapping) for each in sums for value in each.values())
    mine = sorted({name for each in sums for name in each})
    told = gang.allgather([sparse, mine])
    names = {name for _, of_rank in told for name in of_rank}
    if any(found for found, _ in told):
        return False
    for name, parameter in model.named_parameters():
        if name not in names or is_sharded(parameter):
            continue
        total = torch.zeros_like(parameter, requires_grad=False)
        for each in sums:
            if name in each:
                total += each[name].to(total.device)
        if gang.size > 1:
            torch.distributed.all_reduce(total)
        parameter.grad = total / before
    return True
