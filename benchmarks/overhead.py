"""What the harness costs a training step, beside other libraries, in one run.

The model is so small that its step takes a fraction of a millisecond, and the loader is the same
for all that take one, so what differs is the loop around it. Each figure is the best of several
rounds, taken in turn, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset

from benchmarks.result import Result

STEPS = 600
ROUNDS = 5
BATCH = 8
WIDTH = 64
LIMIT_US = 50.0


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(STEPS * BATCH, 16, generator=generator), torch.randint(
        0, 4, (STEPS * BATCH,), generator=generator
    )


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": nn.functional.cross_entropy(self.layers(inputs), labels)}


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


def _schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / (10 * STEPS))


def bare(batches: list[Any]) -> float:
    """The loop that a person would write: seconds a step."""
    model = Network()
    optimizer = _optimizer(model)
    schedule = _schedule(optimizer)
    begun = time.perf_counter()
    for inputs, labels in batches:
        loss = model(inputs, labels)["loss"]
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return (time.perf_counter() - begun) / len(batches)


class _Prepared:
    """A loader that gives batches made beforehand, so that the loop alone is measured."""

    def __init__(self, batches: list[Any]) -> None:
        self._batches = batches

    batches_per_epoch = STEPS
    records_per_batch = BATCH

    def training_source(self, *, seed: int, rank: int, ranks: int) -> _Prepared:
        return self

    def batches(self, position: int) -> Any:
        while True:
            yield from self._batches

    def evaluation_batches(self, *, seed: int, rank: int, ranks: int) -> Any:
        yield self._batches[0]

    def state(self) -> None:
        return None

    def fingerprint(self) -> str:
        return ""

    def close(self) -> None:
        return None


def burst(batches: list[Any]) -> float:
    """The same steps as a PyTorchTrial, with metrics averaged and reported every 100 batches."""
    from burst.harness import Batch, LRScheduler, PyTorchCallback, PyTorchTrial, Trainer
    from burst.harness.chunks import Origin
    from burst.harness.reporting import Reporter, Silent
    from burst.harness.session import Session
    from burst.harness.trial.context import PyTorchTrialContext, Setting

    took: list[float] = []

    class Clock(PyTorchCallback):
        def on_training_epoch_start(self, epoch_idx: int) -> None:
            took.append(time.perf_counter())

        def on_training_epoch_end(self, epoch_idx: int) -> None:
            took.append(time.perf_counter())

    class Trial(PyTorchTrial):
        def __init__(self, context: PyTorchTrialContext) -> None:
            self.context = context
            self.model = context.wrap_model(Network())
            self.optimizer = context.wrap_optimizer(_optimizer(self.model))
            context.wrap_lr_scheduler(
                _schedule(self.optimizer), LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP
            )

        def build_training_data_loader(self) -> Any:
            return _Prepared(batches)

        def build_validation_data_loader(self) -> Any:
            return _Prepared(batches)

        def build_callbacks(self) -> dict[str, PyTorchCallback]:
            return {"clock": Clock()}

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            inputs, labels = batch
            loss = self.model(inputs, labels)["loss"]
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer, clip_grads=_clip)
            return {"loss": loss}

        def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
            return {"validation_loss": self.model(*batch)["loss"]}

    session = Session(reporter=Reporter(Silent(), Origin("", 1)))
    context = PyTorchTrialContext(Setting(), session)
    Trainer(Trial(context), context).fit(max_length=Batch(len(batches)))
    session.close()
    return (took[1] - took[0]) / len(batches)


def _clip(parameters: Any) -> None:
    nn.utils.clip_grad_norm_(parameters, 1.0)


def bare_with_loader(_: list[Any]) -> float:
    """The bare loop over torch's DataLoader, which the other libraries' loops include."""
    loader = TorchLoader(TensorDataset(*rows()), batch_size=BATCH, shuffle=True)
    model = Network()
    optimizer = _optimizer(model)
    schedule = _schedule(optimizer)
    begun = time.perf_counter()
    for inputs, labels in loader:
        loss = model(inputs, labels)["loss"]
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return (time.perf_counter() - begun) / STEPS


def accelerated(_: list[Any]) -> float:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = Network()
    optimizer = _optimizer(model)
    schedule = _schedule(optimizer)
    loader = TorchLoader(TensorDataset(*rows()), batch_size=BATCH, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    begun = time.perf_counter()
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = model(inputs, labels)["loss"]
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return (time.perf_counter() - begun) / STEPS


class _Dicts(TensorDataset):
    def __getitem__(self, index: int) -> Any:
        inputs, labels = (tensor[index] for tensor in self.tensors)
        return {"inputs": inputs, "labels": labels}


def hugging_face(_: list[Any]) -> float:
    import transformers

    took: list[float] = []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if not took:
                took.append(time.perf_counter())

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            took.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            save_strategy="no",
            logging_steps=100,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = transformers.Trainer(
            Network(), arguments, train_dataset=_Dicts(*rows()), callbacks=[Clock()]
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return (took[1] - took[0]) / STEPS


def measure() -> list[Result]:
    """One row for us, one for each peer; all in microseconds a step beyond the bare loop."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    inputs, labels = rows()
    batches = list(zip(torch.split(inputs, BATCH), torch.split(labels, BATCH), strict=True))
    loops: dict[str, Callable[[list[Any]], float]] = {
        "bare": bare,
        "burst": burst,
        "loader": bare_with_loader,
        "accelerate": accelerated,
        "HF Trainer": hugging_face,
    }
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            best[name] = min(best[name], loop(batches) * 1e6)
    torch.set_num_threads(threads)
    logging.disable(logging.NOTSET)
    ours = best["burst"] - best["bare"]
    results = [
        Result(
            what="overhead per step, tiny MLP, beyond the same loop bare",
            ours=f"{ours:.0f} µs",
            against=f"bare {best['bare']:.0f} µs a step",
            ratio=best["burst"] / best["bare"],
            target=f"≤ {LIMIT_US:.0f} µs",
            met=ours <= LIMIT_US,
            note="both loops go over batches made beforehand; the loader is measured by itself",
        )
    ]
    for name in ("accelerate", "HF Trainer"):
        theirs = best[name] - best["loader"]
        results.append(
            Result(
                what=f"overhead per step beside {name}",
                ours=f"{ours:.0f} µs",
                against=f"{name} {theirs:.0f} µs, beyond {best['loader']:.0f} µs bare with loader",
                ratio=ours / theirs,
                target="< 1×",
                met=ours < theirs,
            )
        )
    return results
