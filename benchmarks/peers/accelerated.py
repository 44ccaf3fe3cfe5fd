"""accelerate: `save_state`, `load_state`, `skip_first_batches`, as its guide to resuming says."""

from __future__ import annotations

from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader

from benchmarks.peers.problem import (
    BATCH,
    BOUNDARY,
    LEARNING_RATE,
    MIDDLE,
    SEED,
    STEPS,
    STEPS_PER_EPOCH,
    Network,
    Samples,
    digest,
)


def run(folder: Path, *, augment: bool, workers: int, resume_at: int | None) -> str:
    set_seed(SEED)
    accelerator = Accelerator(cpu=True)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    loader = DataLoader(Samples(augment), batch_size=BATCH, shuffle=True, num_workers=workers)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step = 0
    if resume_at:
        accelerator.load_state(str(folder / f"step-{resume_at}"))
        step = resume_at
    while step < STEPS:
        skip = step % STEPS_PER_EPOCH
        batches = accelerator.skip_first_batches(loader, skip) if skip else loader
        for batch in batches:
            loss = model(**batch)["loss"]
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step in (MIDDLE, BOUNDARY) and not resume_at:
                accelerator.save_state(str(folder / f"step-{step}"))
            if step == STEPS:
                break
    return digest(accelerator.unwrap_model(model))
