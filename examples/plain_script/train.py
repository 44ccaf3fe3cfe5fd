"""A line fitted by a loop of its own, with burst's core API.

`python train.py --lr 0.05` runs it without an experiment, too; it then keeps its checkpoints in
the folder `state`, and goes on from the newest one when it is started again.
"""

from __future__ import annotations

import argparse

import torch

import burst.harness

BATCH, REPORT_EVERY, VALIDATE_EVERY, SAVE_EVERY = 32, 10, 50, 100


def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Batch `number` of a noisy line; made from its number, so a resumed run sees the same one."""
    generator = torch.Generator().manual_seed(number)
    x = torch.rand(BATCH, 1, generator=generator)
    return x, 3 * x - 1 + 0.1 * torch.randn(BATCH, 1, generator=generator)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.05)
    lr: float = parser.parse_args().lr

    with burst.harness.init(folder="state") as context:
        torch.manual_seed(context.seed)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

        start = 0
        if saved := context.checkpoint.restore():
            model.load_state_dict(saved.state["model"])
            optimizer.load_state_dict(saved.state["optimizer"])
            start = saved.batches

        for number in range(start, context.max_batches(default=300)):
            x, y = batch(number)
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            done = number + 1
            if done % REPORT_EVERY == 0:
                context.train.report_training_metrics(done, {"loss": loss})
            if done % VALIDATE_EVERY == 0:
                with torch.no_grad():
                    x, y = batch(-done)
                    held_out = torch.nn.functional.mse_loss(model(x), y)
                context.train.report_validation_metrics(done, {"validation_loss": held_out})
            leave = context.should_stop()
            if leave or done % SAVE_EVERY == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                context.checkpoint.save(state, batches=done)
            if leave:
                return
        print(f"y = {model.weight.item():.2f} x + {model.bias.item():.2f}")


if __name__ == "__main__":
    main()
